use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use super::*;

/// Takes a lock and keeps it for a while.
fn holds(lock: &Mutex<()>, seconds: u64) -> BoxFuture<'_, u64> {
    Box::pin(async move {
        let _held = lock.lock().await;
        sleep(Duration::from_secs(seconds)).await;
        seconds
    })
}

#[tokio::test(start_paused = true)]
async fn a_step_may_wait_for_what_the_work_holds() {
    let lock = Mutex::new(());
    let mut work = TaskSet::new();
    work.push(holds(&lock, 1));
    work.push(holds(&lock, 2));
    assert!(work.next().now_or_never().is_none(), "the first piece has the lock now");
    let step = async { drop(lock.lock().await) };
    timeout(Duration::from_secs(60), work.run_alongside(step)).await.expect("the work goes on while the step waits");
    assert_eq!((work.next().await, work.next().await, work.next().await), (Some(1), Some(2), None));
}

#[tokio::test(start_paused = true)]
async fn a_step_does_not_need_any_work() {
    let mut work: TaskSet<'_, ()> = TaskSet::new();
    assert_eq!(work.run_alongside(async { sleep(Duration::from_secs(1)).await }).await, ());
    assert_eq!(work.next().await, None);
}
