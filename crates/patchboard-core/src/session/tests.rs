use futures_util::FutureExt;

use super::*;

const MAX_WAITING: usize = 8;

fn key() -> SessionKey {
    SessionKey::conversation("default", "web", "a", "main")
}

fn now(place: Place) -> Result<Turn, Place> {
    match place {
        Place::First(turn) => Ok(turn),
        Place::Waiting(mut receiver) => match receiver.try_recv() {
            Ok(turn) => Ok(turn),
            Err(_) => Err(Place::Waiting(receiver)),
        },
    }
}

#[test]
fn turns_come_in_the_order_of_asking() {
    let queues = SessionQueues::new(MAX_WAITING);
    let first = now(queues.enter(&key()).unwrap()).unwrap();
    let second = now(queues.enter(&key()).unwrap()).unwrap_err();
    let third = now(queues.enter(&key()).unwrap()).unwrap_err();
    drop(first);
    let third = now(third).unwrap_err();
    let second = now(second).unwrap();
    drop(second);
    drop(now(third).unwrap());
    assert!(queues.busy.lock().unwrap().is_empty(), "an idle session takes no memory");
}

#[test]
fn whoever_gives_up_is_passed_over() {
    let queues = SessionQueues::new(MAX_WAITING);
    let first = now(queues.enter(&key()).unwrap()).unwrap();
    let quitter = queues.enter(&key()).unwrap();
    let patient = now(queues.enter(&key()).unwrap()).unwrap_err();
    drop(quitter);
    drop(first);
    drop(now(patient).unwrap());
    assert!(queues.busy.lock().unwrap().is_empty());
}

#[test]
fn a_turn_handed_to_a_place_that_is_dropped_unread_goes_on_to_the_next() {
    let queues = SessionQueues::new(MAX_WAITING);
    let first = now(queues.enter(&key()).unwrap()).unwrap();
    let called_but_gone = queues.enter(&key()).unwrap();
    let patient = now(queues.enter(&key()).unwrap()).unwrap_err();
    drop(first);
    drop(called_but_gone);
    drop(now(patient).unwrap());
    assert!(queues.busy.lock().unwrap().is_empty());
}

#[test]
fn the_line_is_bounded_and_other_sessions_do_not_care() {
    let queues = SessionQueues::new(MAX_WAITING);
    let _running = now(queues.enter(&key()).unwrap()).unwrap();
    let _waiting: Vec<Place> = (0..MAX_WAITING).map(|_| queues.enter(&key()).unwrap()).collect();
    let refused = queues.enter(&key()).unwrap_err();
    assert_eq!((refused.kind, refused.retry), (ErrorKind::Exhausted, Retry::Now));
    assert!(refused.message.starts_with("session busy"));
    let other = SessionKey::conversation("default", "web", "b", "main");
    assert!(queues.enter(&other).unwrap().turn().now_or_never().unwrap().is_ok());
}
