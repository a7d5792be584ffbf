use patchboard_core::caller::{GrantSet, Surface};
use patchboard_core::id::ConnectionId;
use serde_json::json;

use super::*;

const FAST: RateLimit = RateLimit { per_second: 1e6, burst: 1e6 };

fn caller() -> Caller {
    Caller { surface: Surface::Mcp, principal: "local".into(), connection: ConnectionId(1), grants: GrantSet::CLIENT }
}

/// At a time when another session may begin.
fn later(now: &mut Duration) -> Duration {
    *now += Duration::from_millis(100);
    *now
}

#[test]
fn a_session_that_nobody_uses_is_over_after_a_while() {
    let sessions = McpSessions::default();
    let session = sessions.begin(caller(), FAST, Duration::ZERO).unwrap();
    assert!(sessions.find(&session.id, IDLE_TIMEOUT - Duration::from_secs(1)).is_some());
    assert!(sessions.find(&session.id, IDLE_TIMEOUT * 2 - Duration::from_secs(2)).is_some(), "it was used in between");
    assert!(sessions.find(&session.id, IDLE_TIMEOUT * 4).is_none());
    assert!(sessions.find(&session.id, Duration::ZERO).is_none(), "it is gone for good");
    let busy = sessions.begin(caller(), FAST, IDLE_TIMEOUT * 4).unwrap();
    let call = busy.begin_request(&json!(1)).unwrap();
    assert!(sessions.find(&busy.id, IDLE_TIMEOUT * 9).is_some(), "it waits for something");
    drop(call);
    assert!(sessions.find(&busy.id, IDLE_TIMEOUT * 19).is_none());
}

#[test]
fn a_new_session_takes_the_place_of_the_one_idle_for_longest() {
    let sessions = McpSessions::default();
    let mut now = Duration::ZERO;
    let first = sessions.begin(caller(), FAST, now).unwrap();
    let busy = sessions.begin(caller(), FAST, now).unwrap();
    let call = busy.begin_request(&json!(1)).unwrap();
    let others: Vec<_> = (2..MAX_SESSIONS).map(|_| sessions.begin(caller(), FAST, later(&mut now)).unwrap()).collect();
    assert_eq!(sessions.begin(caller(), FAST, now).unwrap_err(), SessionRefusal::Full, "all of them are in use");
    now += MIN_IDLE_TO_EVICT;
    for other in &others {
        assert!(sessions.find(&other.id, now).is_some());
    }
    let newest = sessions.begin(caller(), FAST, later(&mut now)).unwrap();
    assert!(sessions.find(&first.id, now).is_none());
    assert!(sessions.find(&busy.id, now).is_some() && sessions.find(&newest.id, now).is_some());
    drop(call);
}

#[test]
fn sessions_do_not_begin_faster_than_they_should() {
    let sessions = McpSessions::default();
    let session_count = (0..150).filter(|_| sessions.begin(caller(), FAST, Duration::ZERO).is_ok()).count();
    assert_eq!(session_count, 100);
    assert_eq!(sessions.begin(caller(), FAST, Duration::ZERO).unwrap_err(), SessionRefusal::RateExceeded);
    assert!(sessions.begin(caller(), FAST, Duration::from_secs(1)).is_ok());
}

#[test]
fn requests_are_counted_named_and_cancelled() {
    let sessions = McpSessions::default();
    let session = sessions.begin(caller(), FAST, Duration::ZERO).unwrap();
    let one = session.begin_request(&json!(1)).unwrap();
    let text = session.begin_request(&json!("1")).unwrap();
    assert!(session.begin_request(&json!(1)).is_err(), "it is under way");
    session.cancel(&json!(1));
    session.cancel(&json!(2));
    assert!(one.cancel_token().is_cancelled() && !text.cancel_token().is_cancelled());
    drop(one);
    let again = session.begin_request(&json!(1)).unwrap();
    assert!(!again.cancel_token().is_cancelled());
    let more: Vec<_> =
        (10..10 + MAX_ACTIVE_REQUESTS - 2).map(|id| session.begin_request(&json!(id)).unwrap()).collect();
    assert!(session.begin_request(&json!("one more")).is_err());
    sessions.end(&session);
    assert!(more.iter().chain([&text, &again]).all(|call| call.cancel_token().is_cancelled()));
    assert!(sessions.find(&session.id, Duration::ZERO).is_none());
}

#[test]
fn requests_have_a_rate() {
    let sessions = McpSessions::default();
    let session = sessions.begin(caller(), RateLimit { per_second: 1.0, burst: 3.0 }, Duration::ZERO).unwrap();
    assert_eq!((0..10).filter(|_| session.take_rate_token(Duration::ZERO)).count(), 3);
    assert!(session.take_rate_token(Duration::from_secs(1)) && !session.take_rate_token(Duration::from_secs(1)));
}
