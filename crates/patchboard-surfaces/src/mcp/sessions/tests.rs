use patchboard_core::access::{Grants, Surface};
use patchboard_core::id::ConnId;
use serde_json::json;

use super::*;

const FAST: Rate = Rate { per_second: 1e6, burst: 1e6 };

fn caller() -> Caller {
    Caller { surface: Surface::Mcp, principal: "local".into(), connection: ConnId(1), grants: Grants::CLIENT }
}

/// At a time when another session may begin.
fn later(now: &mut Duration) -> Duration {
    *now += Duration::from_millis(100);
    *now
}

#[test]
fn a_session_that_nobody_uses_is_over_after_a_while() {
    let sessions = Sessions::default();
    let session = sessions.begin(caller(), FAST, Duration::ZERO).unwrap();
    assert!(sessions.find(&session.id, IDLE - Duration::from_secs(1)).is_some());
    assert!(sessions.find(&session.id, IDLE * 2 - Duration::from_secs(2)).is_some(), "it was used in between");
    assert!(sessions.find(&session.id, IDLE * 4).is_none());
    assert!(sessions.find(&session.id, Duration::ZERO).is_none(), "it is gone for good");
    let busy = sessions.begin(caller(), FAST, IDLE * 4).unwrap();
    let call = busy.call(&json!(1)).unwrap();
    assert!(sessions.find(&busy.id, IDLE * 9).is_some(), "it waits for something");
    drop(call);
    assert!(sessions.find(&busy.id, IDLE * 19).is_none());
}

#[test]
fn a_new_session_takes_the_place_of_the_one_idle_for_longest() {
    let sessions = Sessions::default();
    let mut now = Duration::ZERO;
    let first = sessions.begin(caller(), FAST, now).unwrap();
    let busy = sessions.begin(caller(), FAST, now).unwrap();
    let call = busy.call(&json!(1)).unwrap();
    let others: Vec<_> = (2..MAX_SESSIONS).map(|_| sessions.begin(caller(), FAST, later(&mut now)).unwrap()).collect();
    assert_eq!(sessions.begin(caller(), FAST, now).unwrap_err(), NoPlace::Full, "all of them are in use");
    now += SETTLED;
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
    let sessions = Sessions::default();
    let begun = (0..150).filter(|_| sessions.begin(caller(), FAST, Duration::ZERO).is_ok()).count();
    assert_eq!(begun, 100);
    assert_eq!(sessions.begin(caller(), FAST, Duration::ZERO).unwrap_err(), NoPlace::TooFast);
    assert!(sessions.begin(caller(), FAST, Duration::from_secs(1)).is_ok());
}

#[test]
fn requests_are_counted_named_and_cancelled() {
    let sessions = Sessions::default();
    let session = sessions.begin(caller(), FAST, Duration::ZERO).unwrap();
    let one = session.call(&json!(1)).unwrap();
    let text = session.call(&json!("1")).unwrap();
    assert!(session.call(&json!(1)).is_err(), "it is under way");
    session.cancel(&json!(1));
    session.cancel(&json!(2));
    assert!(one.stop().is_cancelled() && !text.stop().is_cancelled());
    drop(one);
    let again = session.call(&json!(1)).unwrap();
    assert!(!again.stop().is_cancelled());
    let more: Vec<_> = (10..10 + MAX_CALLS - 2).map(|id| session.call(&json!(id)).unwrap()).collect();
    assert!(session.call(&json!("one more")).is_err());
    sessions.end(&session);
    assert!(more.iter().chain([&text, &again]).all(|call| call.stop().is_cancelled()));
    assert!(sessions.find(&session.id, Duration::ZERO).is_none());
}

#[test]
fn requests_have_a_rate() {
    let sessions = Sessions::default();
    let session = sessions.begin(caller(), Rate { per_second: 1.0, burst: 3.0 }, Duration::ZERO).unwrap();
    assert_eq!((0..10).filter(|_| session.take_turn(Duration::ZERO)).count(), 3);
    assert!(session.take_turn(Duration::from_secs(1)) && !session.take_turn(Duration::from_secs(1)));
}
