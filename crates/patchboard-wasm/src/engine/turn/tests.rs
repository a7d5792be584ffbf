use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{NoTurn, Share, Turns};

const LONGEST: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn the_surplus_is_refused_at_once() {
    let turns = Turns::new(2);
    let share = Share(Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)));
    let stop = CancellationToken::new();
    let first = turns.take(&share, LONGEST, &stop).await.expect("a turn");
    let _second = turns.take(&share, LONGEST, &stop).await.expect("a turn");
    let mut waiting: Vec<_> = (0..16).map(|_| Box::pin(turns.take(&share, LONGEST, &stop))).collect();
    for turn in &mut waiting {
        assert!(futures_util::poll!(turn.as_mut()).is_pending());
    }
    assert_eq!(turns.take(&share, LONGEST, &stop).await.map(drop), Err(NoTurn::TooMany));

    // Whoever came first goes on first.
    drop(first);
    let next = waiting.remove(0).await.expect("a turn");
    assert!(futures_util::poll!(waiting[0].as_mut()).is_pending());
    drop(next);
    stop.cancel();
    assert_eq!(waiting.remove(1).await.map(drop), Err(NoTurn::Stopped));
}

#[tokio::test(start_paused = true)]
async fn waits_no_longer_than_it_may_work() {
    let turns = Turns::new(1);
    let share = Share(Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)));
    let stop = CancellationToken::new();
    let _busy = turns.take(&share, LONGEST, &stop).await.expect("a turn");
    let began = tokio::time::Instant::now();
    assert_eq!(turns.take(&share, LONGEST, &stop).await.map(drop), Err(NoTurn::Waited));
    assert_eq!(began.elapsed(), LONGEST);
}

#[tokio::test(start_paused = true)]
async fn who_steps_aside_lets_others_work() {
    let turns = Turns::new(1);
    let share = Share(Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)));
    let stop = CancellationToken::new();
    let mut outer = turns.take(&share, LONGEST, &stop).await.expect("a turn");
    let (done, waiting) = tokio::sync::oneshot::channel::<()>();
    let mut aside = Box::pin(outer.step_aside(waiting));
    assert!(futures_util::poll!(aside.as_mut()).is_pending());
    let inner = turns.take(&share, LONGEST, &stop).await.expect("the turn of the one that waits for it");
    done.send(()).expect("somebody waits");
    assert!(futures_util::poll!(aside.as_mut()).is_pending(), "its turn is not back");
    drop(inner);
    aside.await.expect("it was told");

    // Stepping aside does not make room without end.
    let mut first = Box::pin(outer.step_aside(std::future::pending::<()>()));
    assert!(futures_util::poll!(first.as_mut()).is_pending());
    let mut second = turns.take(&share, LONGEST, &stop).await.expect("a turn");
    let mut second = Box::pin(second.step_aside(std::future::pending::<()>()));
    assert!(futures_util::poll!(second.as_mut()).is_pending());
    assert_eq!(turns.take(&share, LONGEST, &stop).await.map(drop), Err(NoTurn::TooMany));
}

#[tokio::test(start_paused = true)]
async fn one_plugin_never_has_all_places() {
    let turns = Turns::new(4);
    let stop = CancellationToken::new();
    let (greedy, other) = (turns.share(), turns.share());
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(turns.take(&greedy, LONGEST, &stop).await.expect("a turn"));
    }
    assert_eq!(turns.take(&greedy, LONGEST, &stop).await.map(drop), Err(NoTurn::Waited));
    let _others = turns.take(&other, Duration::ZERO, &stop).await.expect("the place that is left");
    held.pop();
    turns.take(&greedy, Duration::ZERO, &stop).await.expect("its own place again");
}

#[tokio::test(start_paused = true)]
async fn where_there_is_one_place_it_is_everybody_s() {
    let turns = Turns::new(1);
    let share = turns.share();
    turns.take(&share, LONGEST, &CancellationToken::new()).await.expect("a turn");
}
