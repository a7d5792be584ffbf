//! Access to sessions, their expiry, and what is deleted with them.

use super::*;
use crate::caller::{Caller, GrantSet, Surface};
use crate::id::ConnectionId;

const HOUR: Duration = Duration::from_secs(3600);

fn open_request(id: &str) -> OpenSession {
    OpenSession { id: id.into(), metadata: BTreeMap::new(), config: None, worker: None }
}

fn by_worker(id: &str) -> OpenSession {
    OpenSession { worker: Some(WorkerId("w_1".into())), ..open_request(id) }
}

fn opener() -> SessionOpener {
    SessionOpener::of(&Caller {
        surface: Surface::Bridge,
        principal: "local".into(),
        connection: ConnectionId(1),
        grants: GrantSet::CLIENT,
    })
}

const WORKER: BridgeCaller<'_> = BridgeCaller::Worker("w_1");

/// Opens a session that needs no cleanup first.
fn opened(sessions: &mut SessionTable, open_request: &OpenSession, now: Instant) {
    let opening = sessions.open(open_request, &opener(), at(0), now).unwrap();
    assert!(matches!(opening, SessionTransition::Done), "{opening:?}");
}

fn scope() -> SessionScope {
    SessionScope {
        session: SessionKey::conversation("main", "web", "ann", "x"),
        owner: MemoryOwner::account("web", "ann"),
        folder: None,
        folder_grant: None,
    }
}

/// Ends a session, completes its cleanup and returns the number of resources.
fn ended(sessions: &mut SessionTable, id: &str, caller: BridgeCaller<'_>) -> Option<usize> {
    match sessions.close(id, caller) {
        SessionTransition::Done => None,
        SessionTransition::CleanUpFirst(ended) => {
            sessions.finish_cleanup(&ended.id);
            Some(ended.resources)
        }
        SessionTransition::WaitForCleanup => panic!("nobody cleans up"),
    }
}

fn metadata(value: &str) -> BTreeMap<String, String> {
    [("user".to_owned(), value.to_owned())].into()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn tool(name: &str) -> WorkerTool {
    WorkerTool {
        name: name.into(),
        description: "".into(),
        input_schema: Arc::new(serde_json::json!({"type": "object"})),
        parameters: Vec::new(),
        streams: false,
        metadata: BTreeMap::new(),
    }
}

#[test]
fn reopening_a_session_keeps_what_is_not_given_anew() {
    let (mut sessions, now) = (SessionTable::new(HOUR, 10), Instant::now());
    let config = SessionConfig { caching: true, cache_ttl: HOUR, telemetry: true };
    sessions
        .open(
            &OpenSession { metadata: metadata("ann"), config: Some(config), ..open_request("s") },
            &opener(),
            at(1),
            now,
        )
        .unwrap();
    let about = |sessions: &mut SessionTable| sessions.describe("s", BridgeCaller::Client, now);
    sessions.open(&open_request("s"), &opener(), at(2), now).unwrap();
    assert_eq!(about(&mut sessions), Some((metadata("ann"), at(1))));
    assert_eq!(sessions.config("s").unwrap().0, config);
    sessions.open(&OpenSession { metadata: metadata("bob"), ..open_request("s") }, &opener(), at(3), now).unwrap();
    assert_eq!(about(&mut sessions), Some((metadata("bob"), at(1))));
    // The session is the client's: a worker changes nothing about it.
    sessions
        .open(&OpenSession { metadata: metadata("eve"), config: None, ..by_worker("s") }, &opener(), at(4), now)
        .unwrap();
    assert_eq!(about(&mut sessions), Some((metadata("bob"), at(1))));
}

#[test]
fn the_quota_is_for_new_sessions_of_clients_only() {
    let (mut sessions, now) = (SessionTable::new(HOUR, 2), Instant::now());
    opened(&mut sessions, &open_request("a"), now);
    opened(&mut sessions, &open_request("b"), now);
    let refused = sessions.open(&open_request("c"), &opener(), at(0), now).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Exhausted);
    assert!(refused.message.starts_with("session_quota_exceeded"));
    opened(&mut sessions, &open_request("a"), now);
    opened(&mut sessions, &by_worker("session_1"), now);
    assert_eq!(ended(&mut sessions, "a", BridgeCaller::Client), Some(1));
    opened(&mut sessions, &open_request("c"), now);
    // An expired session counts as missing, removed or not, and is counted once.
    for name in ["d", "e"] {
        opened(&mut sessions, &open_request(name), now + HOUR);
    }
    assert!(sessions.open(&open_request("f"), &opener(), at(0), now + HOUR).is_err());
}

#[test]
fn a_session_lives_as_long_as_clients_use_it() {
    let (mut sessions, now) = (SessionTable::new(HOUR, 10), Instant::now());
    opened(&mut sessions, &open_request("s"), now);
    assert!(sessions.touch("s", BridgeCaller::Client, now + HOUR / 2).is_some());
    // Reads, calls and repeated opens by a worker do not count as uses.
    opened(&mut sessions, &by_worker("s"), now + HOUR);
    assert!(sessions.touch("s", WORKER, now + HOUR + HOUR / 4).is_some());
    assert!(sessions.describe("s", WORKER, now + HOUR + HOUR / 4).is_some());
    assert!(sessions.begin_call("s", WORKER, now + HOUR + HOUR / 4).is_some());
    assert!(sessions.touch("s", WORKER, now + HOUR + HOUR / 2).is_none());
    assert!(sessions.describe("s", BridgeCaller::Client, now + HOUR + HOUR / 2).is_none());
    assert_eq!(sessions.expire(now + HOUR + HOUR / 2), 1);
    assert_eq!(sessions.ended_ids(), [Arc::from("s")]);
}

#[test]
fn a_session_does_not_expire_during_a_call() {
    let (mut sessions, now) = (SessionTable::new(HOUR, 10), Instant::now());
    opened(&mut sessions, &open_request("s"), now);
    let seen = sessions.begin_call("s", BridgeCaller::Client, now).unwrap();
    let (stand_in, number) = sessions.agent_session(scope(), None, || "agent-1".into(), at(0), now);
    let late = now + 5 * HOUR;
    assert_eq!(sessions.expire(late), 0);
    assert!(sessions.touch("s", WORKER, late).is_some() && sessions.touch("agent-1", WORKER, late).is_some());
    // The end of a call counts as a use.
    sessions.end_call("s", seen.serial, late);
    sessions.end_call(&stand_in, number, late);
    assert_eq!(sessions.expire(late + HOUR / 2), 0);
    assert_eq!(sessions.expire(late + HOUR), 2);
}

#[test]
fn the_end_of_a_call_says_nothing_about_the_next_session_of_that_name() {
    let (mut sessions, now) = (SessionTable::new(HOUR, 10), Instant::now());
    opened(&mut sessions, &open_request("s"), now);
    let first = sessions.begin_call("s", BridgeCaller::Client, now).unwrap();
    assert!(sessions.is_current("s", first.serial));
    ended(&mut sessions, "s", BridgeCaller::Client);
    opened(&mut sessions, &open_request("s"), now);
    assert!(!sessions.is_current("s", first.serial));
    let second = sessions.begin_call("s", BridgeCaller::Client, now).unwrap();
    sessions.end_call("s", first.serial, now);
    assert_eq!(sessions.expire(now + 2 * HOUR), 0, "its own call is still under way");
    sessions.end_call("s", second.serial, now);
    assert_eq!(sessions.expire(now + HOUR), 1);
}

#[test]
fn an_id_is_free_again_after_its_cleanup() {
    let (mut sessions, now) = (SessionTable::new(HOUR, 10), Instant::now());
    opened(&mut sessions, &open_request("s"), now);
    let gate = sessions.begin_call("s", WORKER, now).unwrap().tasks;
    let SessionTransition::CleanUpFirst(ended) = sessions.close("s", BridgeCaller::Client) else { panic!() };
    assert!(gate.stop.is_cancelled(), "the server's own tools hear of it at once");
    assert!(sessions.touch("s", BridgeCaller::Client, now).is_none());
    assert!(matches!(sessions.open(&open_request("s"), &opener(), at(0), now), Ok(SessionTransition::WaitForCleanup)));
    assert!(matches!(sessions.close("s", BridgeCaller::Client), SessionTransition::WaitForCleanup));
    assert!(sessions.open(&by_worker("s"), &opener(), at(0), now).is_err(), "a worker does not wait and gets none");
    // After an interrupted cleanup another task continues.
    sessions.requeue_cleanup(ended);
    assert_eq!(sessions.ended_ids(), [Arc::from("s")]);
    let Ok(SessionTransition::CleanUpFirst(ended)) = sessions.open(&open_request("s"), &opener(), at(0), now) else {
        panic!()
    };
    assert!(sessions.claim_cleanup("s").is_none());
    sessions.finish_cleanup(&ended.id);
    opened(&mut sessions, &open_request("s"), now);
    // The same for a session found expired when its id was requested.
    let Ok(SessionTransition::CleanUpFirst(ended)) = sessions.open(&open_request("s"), &opener(), at(0), now + HOUR)
    else {
        panic!()
    };
    assert_eq!((&*ended.id, ended.resources), ("s", 1));
}

#[test]
fn names_of_an_earlier_server_can_be_cleaned_up_too() {
    let mut sessions = SessionTable::new(HOUR, 10);
    assert_eq!(ended(&mut sessions, "s", BridgeCaller::Client), Some(0));
    assert_eq!(ended(&mut sessions, "s", WORKER), None);
    assert_eq!(ended(&mut sessions, &"x".repeat(MAX_ID + 1), BridgeCaller::Client), None);
    assert!(sessions.ending.is_empty());
}

#[test]
fn a_worker_makes_one_session_and_does_not_bring_back_others() {
    let (mut sessions, now) = (SessionTable::new(HOUR, 10), Instant::now());
    opened(&mut sessions, &by_worker("session_1"), now);
    let late = sessions.open(&by_worker("gone"), &opener(), at(0), now).unwrap_err();
    assert_eq!(late.message, "Session not found: gone");
    let other = OpenSession { worker: Some(WorkerId("w_2".into())), ..open_request("session_1") };
    assert!(sessions.open(&other, &opener(), at(0), now).is_err(), "another worker's own");
    // A worker's own session lives while the worker uses it, and is created again when needed.
    assert!(sessions.touch("session_1", WORKER, now + HOUR / 2).is_some());
    assert!(sessions.touch("session_1", WORKER, now + HOUR).is_some());
    opened(&mut sessions, &by_worker("session_1"), now + 9 * HOUR);
    assert!(sessions.touch("session_1", WORKER, now + 9 * HOUR).is_some());
    assert_eq!(ended(&mut sessions, "session_1", BridgeCaller::Worker("w_2")), None);
    assert_eq!(ended(&mut sessions, "session_1", WORKER), Some(1));
    opened(&mut sessions, &by_worker("session_2"), now);
}

#[test]
fn clients_have_nothing_to_do_with_the_servers_own_sessions_and_workers_do_not_end_theirs() {
    let (mut sessions, now) = (SessionTable::new(HOUR, 10), Instant::now());
    opened(&mut sessions, &by_worker("session_1"), now);
    sessions.agent_session(scope(), None, || "agent-1".into(), at(0), now);
    opened(&mut sessions, &open_request("s"), now);
    for id in ["session_1", "agent-1"] {
        assert!(sessions.touch(id, BridgeCaller::Client, now).is_none(), "{id}");
        assert!(sessions.begin_call(id, BridgeCaller::Client, now).is_none(), "{id}");
        assert!(sessions.describe(id, BridgeCaller::Client, now).is_none(), "{id}");
        assert!(sessions.register(id, vec![tool("a")], &"python-1".into(), now).is_err(), "{id}");
        let refused = sessions.open(&open_request(id), &opener(), at(0), now).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Conflict, "{id}");
        assert_eq!(ended(&mut sessions, id, BridgeCaller::Client), None, "{id}");
        assert!(sessions.touch(id, WORKER, now).is_some(), "{id}");
    }
    for id in ["s", "agent-1"] {
        assert_eq!(ended(&mut sessions, id, WORKER), None, "{id}");
        assert!(sessions.touch(id, WORKER, now).is_some(), "{id}");
    }
    assert!(sessions.touch("session_1", BridgeCaller::Worker("w_2"), now).is_none());
}

#[test]
fn ids_and_metadata_are_bounded() {
    let (mut sessions, now) = (SessionTable::new(HOUR, 10), Instant::now());
    for id in ["", " ", &"x".repeat(MAX_ID + 1)] {
        let refused = sessions.open(&open_request(id), &opener(), at(0), now).unwrap_err();
        assert!(refused.message.starts_with("invalid_id"), "{refused}");
    }
    let long = OpenSession { metadata: metadata(&"x".repeat(MAX_METADATA)), ..open_request("s") };
    assert!(sessions.open(&long, &opener(), at(0), now).is_err());
    assert!(sessions.touch("s", BridgeCaller::Client, now).is_none());
}

#[test]
fn tools_are_registered_all_or_none_and_go_with_the_session() {
    let (mut sessions, now) = (SessionTable::new(HOUR, 10), Instant::now());
    let by = Arc::from("python-1");
    assert_eq!(sessions.register("s", vec![tool("a")], &by, now).unwrap_err().message, "Session not found: s");
    opened(&mut sessions, &open_request("s"), now);
    sessions.register("s", vec![tool("a")], &by, now).unwrap();
    let refused = sessions.register("s", vec![tool("b"), tool("a")], &by, now).unwrap_err();
    assert!(refused.message.contains("duplicate_tool"), "{refused}");
    assert!(sessions.register("s", vec![tool("c"), tool("c")], &by, now).is_err());
    assert!(sessions.tool("s", "b").is_none() && sessions.tool("s", "c").is_none());
    let many = (0..MAX_TOOLS).map(|number| tool(&number.to_string())).collect();
    assert!(sessions.register("s", many, &by, now).is_err());
    assert_eq!(sessions.tools("s").len(), 1);
    assert_eq!(ended(&mut sessions, "s", BridgeCaller::Client), Some(2));
    opened(&mut sessions, &open_request("s"), now);
    sessions.register("s", vec![tool("a")], &by, now).unwrap();
}

#[test]
fn a_conversation_has_one_agent_session_that_is_not_counted() {
    let (mut sessions, now) = (SessionTable::new(HOUR, 1), Instant::now());
    opened(&mut sessions, &open_request("s"), now);
    let (id, number) = sessions.agent_session(scope(), None, || "agent-1".into(), at(0), now);
    assert_eq!(sessions.agent_session(scope(), None, || "agent-2".into(), at(0), now), (id.clone(), number));
    assert_eq!(sessions.touch("agent-1", WORKER, now).unwrap().session, scope().session);
    for _ in 0..2 {
        sessions.end_call(&id, number, now);
    }
    assert_eq!(sessions.expire(now + HOUR), 2);
    // A conversation's variables are not deleted with it.
    assert!(!sessions.claim_cleanup("agent-1").unwrap().has_variables);
    assert!(sessions.claim_cleanup("s").unwrap().has_variables);
    assert_eq!(&*sessions.agent_session(scope(), None, || "agent-3".into(), at(0), now).0, "agent-3");
}

#[test]
fn calls_of_workers_continue_the_call_chain_of_their_run() {
    let (mut sessions, now) = (SessionTable::new(HOUR, 1), Instant::now());
    let top = CallChain::root(scope().session, &crate::caller::Principal::Local, None);
    let deep = top.child(crate::id::RunId(uuid::Uuid::nil()), None, None);
    let (id, number) = sessions.agent_session(scope(), Some(deep), || "agent-1".into(), at(0), now);
    assert_eq!(sessions.begin_call(&id, WORKER, now).unwrap().call_chain.unwrap().depth(), 1);
    sessions.end_call(&id, number, now);
    assert!(sessions.begin_call(&id, WORKER, now).unwrap().call_chain.is_none());
}

#[test]
fn sessions_of_the_servers_own_making_are_bounded_and_those_in_use_stay() {
    let (mut sessions, now) = (SessionTable::new(HOUR, 1), Instant::now());
    let stand_in = |sessions: &mut SessionTable, number: usize| {
        let session = SessionKey::conversation("main", "web", &number.to_string(), "x");
        let new_id = || format!("agent-{number}").into();
        let now = now + Duration::from_millis(number as u64);
        sessions.agent_session(SessionScope { session, ..scope() }, None, new_id, at(0), now)
    };
    let in_use = stand_in(&mut sessions, 0);
    for number in 1..=MAX_INTERNAL_SESSIONS {
        let (id, no) = stand_in(&mut sessions, number);
        sessions.end_call(&id, no, now + Duration::from_millis(number as u64));
    }
    assert!(sessions.by_id.len() <= MAX_INTERNAL_SESSIONS);
    assert!(sessions.is_current(&in_use.0, in_use.1));
    assert!(sessions.touch("agent-1", WORKER, now).is_none());
    assert!(sessions.touch(&format!("agent-{MAX_INTERNAL_SESSIONS}"), WORKER, now).is_some());
    // The evicted sessions are queued for cleanup, which notifies workers.
    assert_eq!(sessions.ended_ids().len(), MAX_INTERNAL_SESSIONS / 100);
}
