//! What no transcript can list: any input at all, in any order.

use std::any::Any;

use patchboard_core::caller::GrantSet;
use patchboard_core::command::{FindRun, ListTools, ReadThread, StartRun};
use patchboard_core::event::Event;
use patchboard_core::id::SessionKey;
use patchboard_core::reply::{AgentSummary, RunSummary, ThreadPage};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn opened() -> RunsDialect {
    let mut dialect = RunsDialect::new(ConnectionOptions::default());
    let identity = ClientIdentity::new("local".into(), GrantSet::CLIENT);
    dialect.opened(Some(identity), Duration::ZERO, &mut Vec::new());
    dialect
}

fn send(dialect: &mut RunsDialect, text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    dialect.text(text, Duration::ZERO, &mut steps);
    steps
}

fn frames(steps: &[Step]) -> Vec<Value> {
    let written = steps.iter().filter_map(|step| if let Step::Write(frame) = step { Some(frame) } else { None });
    written.map(|frame| serde_json::from_str(frame).unwrap()).collect()
}

#[test]
fn questions_under_way_are_bounded() {
    let mut dialect = opened();
    for number in 0..MAX_IN_FLIGHT {
        let request = json!({ "type": "tools_list", "id": number.to_string() }).to_string();
        assert!(matches!(send(&mut dialect, &request)[..], [Step::Ask(..)]));
    }
    let refused = frames(&send(&mut dialect, r#"{"type":"agent_list","id":"x"}"#));
    let problem = "too many requests are under way on this connection";
    assert_eq!(refused, [json!({ "type": "error", "id": "x", "error": problem })]);
    assert_eq!(frames(&send(&mut dialect, r#"{"type":"ping","id":"x"}"#)), [json!({ "type": "pong", "id": "x" })]);
}

#[test]
fn a_run_id_that_is_too_long_is_refused() {
    let id = "x".repeat(wire::MAX_RUN_ID_BYTES + 1);
    let run = |id: &str| json!({ "type": "run", "message": "", "agent": "react", "id": id }).to_string();
    let refused = frames(&send(&mut opened(), &run(&id)));
    assert_eq!(refused, [json!({ "type": "error", "id": id, "error": "id is longer than 1024 bytes" })]);
    assert!(matches!(send(&mut opened(), &run(&id[1..]))[..], [Step::Ask(..)]));
}

#[test]
fn pages_of_tools_are_bounded() {
    let mut dialect = opened();
    let mut steps = send(&mut dialect, r#"{"type":"tools_list","id":"1"}"#);
    let mut pages = 0;
    while let Some(Step::Ask(ticket, request)) = steps.pop_if(|step| matches!(step, Step::Ask(..))) {
        assert!(steps.is_empty(), "one page at a time");
        pages += 1;
        let endless = ResultPage::<ToolSpec> { items: Vec::new(), next: Some(PageCursor("more".to_owned())) };
        let reply = request.reply_for(Ok(Box::new(endless))).expect("it lists tools");
        dialect.replied(ticket, reply, Duration::ZERO, &mut steps);
    }
    assert_eq!(pages, MAX_TOOL_PAGES);
    assert_eq!(frames(&steps), [json!({ "type": "tools_list", "id": "1", "tools": [] })]);
}

/// Something that happens to a connection.
#[derive(Debug, Clone)]
enum Happening {
    Text(String),
    /// To the command of that number, or one that is not there.
    Answer(usize, Answer),
    Observed(usize, bool),
    FollowEnded(usize, bool),
}

#[derive(Debug, Clone, Copy)]
enum Answer {
    /// A reply of the type that the command has.
    Ok,
    NotFound,
    Cancelled,
}

fn any_happening() -> impl Strategy<Value = Happening> {
    let request = (
        "run|run|run|tools_list|tool_show|user_messages|ping|attach|cancel|tool_approve|agent_list",
        "r[0-3]",
        any::<bool>(),
    );
    let request = request.prop_map(|(kind, id, flag)| {
        let mut request = json!({
            "type": kind, "id": id, "message": "m", "agent": "react", "thread_id": "t", "name": "n", "call_id": "c",
            "approve": flag, "detach": flag,
        });
        if kind == "run" && flag {
            request["id"] = Value::Null;
        }
        Happening::Text(request.to_string())
    });
    let answer = prop::sample::select(vec![Answer::Ok, Answer::Ok, Answer::Ok, Answer::NotFound, Answer::Cancelled]);
    prop_oneof![
        4 => request,
        4 => (0usize..24, answer).prop_map(|(which, answer)| Happening::Answer(which, answer)),
        3 => (0usize..8, any::<bool>()).prop_map(|(which, last)| Happening::Observed(which, last)),
        1 => (0usize..8, any::<bool>()).prop_map(|(which, broken)| Happening::FollowEnded(which, broken)),
    ]
}

/// The dialect's reply for one of its requests.
fn reply(request: BoardRequest<RunsReply>, answer: Answer) -> RunsReply {
    let run: RunId = "018f3c2a-7b1d-7e5f-9a0b-1c2d3e4f5a6b".parse().unwrap();
    let command = request.command();
    let reply: Result<Box<dyn Any>, BoardError> = match answer {
        Answer::NotFound => Err(BoardError::not_found("no")),
        Answer::Cancelled => Err(BoardError::cancelled()),
        Answer::Ok if command.is::<StartRun>() => Ok(Box::new(run)),
        Answer::Ok if command.is::<FindRun>() => Ok(Box::new(RunSummary {
            run,
            session: SessionKey::conversation("default", "runs", "local", "t"),
            client_id: "r0".into(),
            last_seq: Seq(3),
        })),
        Answer::Ok if command.is::<ListTools>() => {
            Ok(Box::new(ResultPage::<ToolSpec> { items: Vec::new(), next: None }))
        }
        Answer::Ok if command.is::<ReadThread>() => Ok(Box::new(ThreadPage { messages: Vec::new(), has_more: false })),
        Answer::Ok if command.is::<ListAgents>() => Ok(Box::new(Vec::<AgentSummary>::new())),
        Answer::Ok => Ok(Box::new(())),
    };
    request.reply_for(reply).expect("the reply has the command's type")
}

proptest! {
    #[test]
    fn every_text_is_answered_or_asked_on(text in ".*") {
        prop_assert!(!send(&mut opened(), &text).is_empty());
    }

    #[test]
    fn ids_come_back_as_they_were_sent(id in "\\PC{0,100}") {
        let request = json!({ "type": "ping", "id": id }).to_string();
        prop_assert_eq!(frames(&send(&mut opened(), &request)), [json!({ "type": "pong", "id": id })]);
    }

    /// One run at a time, and each run that began is told to end exactly once.
    #[test]
    fn runs_take_turns_whatever_happens(happenings in prop::collection::vec(any_happening(), 0..80)) {
        let mut dialect = opened();
        let mut pending: Vec<(Ticket, BoardRequest<RunsReply>)> = Vec::new();
        let mut follows: Vec<FollowId> = Vec::new();
        let mut under_way = 0i32;
        for happening in happenings {
            let mut steps = Vec::new();
            let now = Duration::ZERO;
            match happening {
                Happening::Text(text) => dialect.text(&text, now, &mut steps),
                Happening::Answer(which, answer) if which < pending.len() => {
                    let (ticket, request) = pending.remove(which);
                    let reply = reply(request, answer);
                    if let RunsReply::Started(Err(_)) = reply {
                        under_way -= 1;
                    }
                    dialect.replied(ticket, reply, now, &mut steps);
                }
                Happening::Observed(which, last) if which < follows.len() => {
                    let event = match last {
                        true => Event::RunEnded { outcome: RunOutcome::Completed },
                        false => Event::AnswerText(patchboard_core::event::TextChunks::of_single("x")),
                    };
                    let follow = follows[which];
                    let is_own = dialect.follows.get(&follow).is_some_and(|follow| follow.relation == RunRelation::Own);
                    let run: RunId = "018f3c2a-7b1d-7e5f-9a0b-1c2d3e4f5a6b".parse().unwrap();
                    let at = jiff::Timestamp::UNIX_EPOCH;
                    let record = Envelope { topic: Topic::Run(run), seq: Seq(1), at, node: None, event };
                    dialect.observed(follow, &record, now, &mut steps);
                    if last && is_own {
                        under_way -= 1;
                    }
                    if last {
                        follows.remove(which);
                    }
                }
                Happening::FollowEnded(which, broken) if which < follows.len() => {
                    let follow = follows.remove(which);
                    let is_own = dialect.follows.get(&follow).is_some_and(|follow| follow.relation == RunRelation::Own);
                    let problem = broken.then(|| BoardError::invalid("broken"));
                    dialect.follow_ended(follow, problem, &mut steps);
                    prop_assert_eq!(frames(&steps).len(), 1, "an end that is not told otherwise is an error");
                    if is_own {
                        under_way -= 1;
                    }
                }
                Happening::Answer(..) | Happening::Observed(..) | Happening::FollowEnded(..) => {}
            }
            for step in steps {
                match step {
                    Step::Ask(ticket, request) => {
                        under_way += i32::from(request.command().is::<StartRun>());
                        pending.push((ticket, request));
                    }
                    Step::Follow { follow, .. } => follows.push(follow),
                    Step::Write(_)
                    | Step::CancelAsk(_)
                    | Step::AwaitReply(_)
                    | Step::Authenticate(_)
                    | Step::WakeAt(_)
                    | Step::CancelWake
                    | Step::Close { .. }
                    | Step::Ping
                    | Step::Drop => {}
                }
            }
            prop_assert!((0..=1).contains(&under_way), "{} runs at a time", under_way);
            prop_assert!(dialect.queued_runs.len() <= MAX_QUEUED_RUNS);
            prop_assert!(under_way == 1 || dialect.queued_runs.is_empty(), "nobody waits for nothing");
        }
        let mut last = Vec::new();
        dialect.closed(CloseCause::Client, &mut last);
        prop_assert!(last.len() <= 1);
    }
}
