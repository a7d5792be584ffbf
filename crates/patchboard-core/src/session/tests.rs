use futures_util::FutureExt;

use super::*;

const MAX_WAITING: usize = 8;

fn key() -> SessionKey {
    SessionKey::conversation("default", "web", "a", "main")
}

fn now(slot: QueueSlot) -> Result<SessionPermit, QueueSlot> {
    match slot {
        QueueSlot::Ready(turn) => Ok(turn),
        QueueSlot::Waiting(mut receiver) => match receiver.try_recv() {
            Ok(turn) => Ok(turn),
            Err(_) => Err(QueueSlot::Waiting(receiver)),
        },
    }
}

#[test]
fn permits_are_granted_in_the_order_of_requests() {
    let queues = SessionQueues::new(MAX_WAITING);
    let first = now(queues.enqueue(&key()).unwrap()).unwrap();
    let second = now(queues.enqueue(&key()).unwrap()).unwrap_err();
    let third = now(queues.enqueue(&key()).unwrap()).unwrap_err();
    drop(first);
    let third = now(third).unwrap_err();
    let second = now(second).unwrap();
    drop(second);
    drop(now(third).unwrap());
    assert!(queues.busy.lock().unwrap().is_empty(), "an idle session takes no memory");
}

#[test]
fn abandoned_requests_are_skipped() {
    let queues = SessionQueues::new(MAX_WAITING);
    let first = now(queues.enqueue(&key()).unwrap()).unwrap();
    let quitter = queues.enqueue(&key()).unwrap();
    let patient = now(queues.enqueue(&key()).unwrap()).unwrap_err();
    drop(quitter);
    drop(first);
    drop(now(patient).unwrap());
    assert!(queues.busy.lock().unwrap().is_empty());
}

#[test]
fn an_undelivered_permit_goes_to_the_next_request() {
    let queues = SessionQueues::new(MAX_WAITING);
    let first = now(queues.enqueue(&key()).unwrap()).unwrap();
    let called_but_gone = queues.enqueue(&key()).unwrap();
    let patient = now(queues.enqueue(&key()).unwrap()).unwrap_err();
    drop(first);
    drop(called_but_gone);
    drop(now(patient).unwrap());
    assert!(queues.busy.lock().unwrap().is_empty());
}

#[test]
fn the_queue_is_bounded_for_each_session() {
    let queues = SessionQueues::new(MAX_WAITING);
    let _running = now(queues.enqueue(&key()).unwrap()).unwrap();
    let _waiting: Vec<QueueSlot> = (0..MAX_WAITING).map(|_| queues.enqueue(&key()).unwrap()).collect();
    let refused = queues.enqueue(&key()).unwrap_err();
    assert_eq!((refused.kind, refused.retry), (ErrorKind::Exhausted, RetryHint::Now));
    assert!(refused.message.starts_with("session busy"));
    let other = SessionKey::conversation("default", "web", "b", "main");
    assert!(queues.enqueue(&other).unwrap().permit().now_or_never().unwrap().is_ok());
}
