use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[derive(Debug, Default)]
struct CountedSlot {
    released: AtomicUsize,
    reacquired: AtomicUsize,
}

impl CountedSlot {
    fn counts(&self) -> (usize, usize) {
        (self.released.load(Ordering::SeqCst), self.reacquired.load(Ordering::SeqCst))
    }
}

impl WorkSlot for CountedSlot {
    fn release(&self) {
        self.released.fetch_add(1, Ordering::SeqCst);
    }

    fn reacquire(&self) -> BoxFuture<'_, ()> {
        self.reacquired.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(()))
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_is_no_working_time() {
    let waits = RunWaits::root(None);
    let began = Instant::now();
    let working = waits.working_time(Duration::from_secs(10));
    let pause = async {
        tokio::time::sleep(Duration::from_secs(4)).await;
        let wait = waits.begin();
        tokio::time::sleep(Duration::from_secs(1000)).await;
        wait.end(&CancellationToken::new()).await;
    };
    tokio::join!(working, pause);
    assert_eq!(began.elapsed(), Duration::from_secs(1010));
}

#[tokio::test(start_paused = true)]
async fn a_condition_is_made_anew_after_a_wait() {
    let waits = RunWaits::root(None);
    let began = Instant::now();
    let grace = || tokio::time::sleep(Duration::from_secs(60));
    let pause = async {
        tokio::time::sleep(Duration::from_secs(59)).await;
        let wait = waits.begin();
        tokio::time::sleep(Duration::from_secs(100)).await;
        drop(wait);
    };
    tokio::join!(waits.while_working(grace), pause);
    assert_eq!(began.elapsed(), Duration::from_secs(59 + 100 + 60));
}

#[tokio::test]
async fn permits_are_given_back_once_and_taken_again_once() {
    let (outer_slot, inner_slot) = (Arc::new(CountedSlot::default()), Arc::new(CountedSlot::default()));
    let outer = RunWaits::root(Some(outer_slot.clone()));
    let inner = outer.child(Some(inner_slot.clone()));
    let stop = CancellationToken::new();
    let first = inner.begin();
    let second = inner.begin();
    assert_eq!((outer_slot.counts(), inner_slot.counts()), ((1, 0), (1, 0)));
    first.end(&stop).await;
    assert_eq!((outer_slot.counts(), inner_slot.counts()), ((1, 0), (1, 0)), "one answer is still missing");
    second.end(&stop).await;
    assert_eq!((outer_slot.counts(), inner_slot.counts()), ((1, 1), (1, 1)));
    drop(outer.begin());
    assert_eq!((outer_slot.counts(), inner_slot.counts()), ((2, 1), (1, 1)), "a run that is given up takes nothing");
}
