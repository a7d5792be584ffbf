use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{CallSlots, PluginQuota, SlotError};

const TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn the_surplus_is_refused_at_once() {
    let slots = CallSlots::new(2);
    let quota = PluginQuota(Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)));
    let stop = CancellationToken::new();
    let first = slots.acquire(&quota, TIMEOUT, &stop).await.expect("a turn");
    let _second = slots.acquire(&quota, TIMEOUT, &stop).await.expect("a turn");
    let mut waiting: Vec<_> = (0..16).map(|_| Box::pin(slots.acquire(&quota, TIMEOUT, &stop))).collect();
    for slot in &mut waiting {
        assert!(futures_util::poll!(slot.as_mut()).is_pending());
    }
    assert_eq!(slots.acquire(&quota, TIMEOUT, &stop).await.map(drop), Err(SlotError::QueueFull));

    // Waiting calls are admitted in order of arrival.
    drop(first);
    let next = waiting.remove(0).await.expect("a turn");
    assert!(futures_util::poll!(waiting[0].as_mut()).is_pending());
    drop(next);
    stop.cancel();
    assert_eq!(waiting.remove(1).await.map(drop), Err(SlotError::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn waits_no_longer_than_it_may_work() {
    let slots = CallSlots::new(1);
    let quota = PluginQuota(Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)));
    let stop = CancellationToken::new();
    let _busy = slots.acquire(&quota, TIMEOUT, &stop).await.expect("a turn");
    let started = tokio::time::Instant::now();
    assert_eq!(slots.acquire(&quota, TIMEOUT, &stop).await.map(drop), Err(SlotError::TimedOut));
    assert_eq!(started.elapsed(), TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn who_steps_aside_lets_others_work() {
    let slots = CallSlots::new(1);
    let quota = PluginQuota(Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)));
    let stop = CancellationToken::new();
    let mut outer = slots.acquire(&quota, TIMEOUT, &stop).await.expect("a turn");
    let (done, waiting) = tokio::sync::oneshot::channel::<()>();
    let mut aside = Box::pin(outer.release_while(waiting));
    assert!(futures_util::poll!(aside.as_mut()).is_pending());
    let inner = slots.acquire(&quota, TIMEOUT, &stop).await.expect("the turn of the one that waits for it");
    done.send(()).expect("somebody waits");
    assert!(futures_util::poll!(aside.as_mut()).is_pending(), "its turn is not back");
    drop(inner);
    aside.await.expect("it was told");

    // Stepping aside does not make room without end.
    let mut first = Box::pin(outer.release_while(std::future::pending::<()>()));
    assert!(futures_util::poll!(first.as_mut()).is_pending());
    let mut second = slots.acquire(&quota, TIMEOUT, &stop).await.expect("a turn");
    let mut second = Box::pin(second.release_while(std::future::pending::<()>()));
    assert!(futures_util::poll!(second.as_mut()).is_pending());
    assert_eq!(slots.acquire(&quota, TIMEOUT, &stop).await.map(drop), Err(SlotError::QueueFull));
}

#[tokio::test(start_paused = true)]
async fn one_plugin_never_has_all_places() {
    let slots = CallSlots::new(4);
    let stop = CancellationToken::new();
    let (greedy, other) = (slots.quota(), slots.quota());
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(slots.acquire(&greedy, TIMEOUT, &stop).await.expect("a turn"));
    }
    assert_eq!(slots.acquire(&greedy, TIMEOUT, &stop).await.map(drop), Err(SlotError::TimedOut));
    let _others = slots.acquire(&other, Duration::ZERO, &stop).await.expect("the place that is left");
    held.pop();
    slots.acquire(&greedy, Duration::ZERO, &stop).await.expect("its own place again");
}

#[tokio::test(start_paused = true)]
async fn where_there_is_one_place_it_is_everybody_s() {
    let slots = CallSlots::new(1);
    let quota = slots.quota();
    slots.acquire(&quota, TIMEOUT, &CancellationToken::new()).await.expect("a turn");
}
