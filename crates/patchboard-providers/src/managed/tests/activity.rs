//! When the server may sleep, on a clock of the test's own.

use std::time::Duration;

use tokio::time::{Instant, advance};

use crate::managed::activity::{Activity, Rest};

const TEN_MINUTES: Duration = Duration::from_secs(600);

fn rest(activity: &Activity) -> Rest {
    activity.rest(Instant::now(), TEN_MINUTES)
}

#[tokio::test(start_paused = true)]
async fn ten_quiet_minutes_after_the_last_call() {
    let activity = Activity::new(Instant::now());
    assert_eq!(rest(&activity), Rest::QuietFor(TEN_MINUTES));
    advance(Duration::from_secs(400)).await;
    let (first, second) = (activity.begin(), activity.begin());
    advance(Duration::from_secs(3600)).await;
    assert_eq!(rest(&activity), Rest::Busy, "however long a call takes");
    drop(first);
    assert_eq!(rest(&activity), Rest::Busy);
    drop(second);
    assert_eq!(rest(&activity), Rest::QuietFor(TEN_MINUTES));
    advance(Duration::from_secs(599)).await;
    assert_eq!(rest(&activity), Rest::QuietFor(Duration::from_secs(1)));
    advance(Duration::from_secs(1)).await;
    assert_eq!(rest(&activity), Rest::Due);
    activity.touch(Instant::now());
    assert_eq!(rest(&activity), Rest::QuietFor(TEN_MINUTES));
}

#[tokio::test(start_paused = true)]
async fn calls_are_numbered_and_told() {
    let activity = Activity::new(Instant::now());
    let call = activity.begin();
    assert_eq!((call.number, activity.begun()), (1, 1));
    // One told before anybody listened is not lost.
    activity.changed().await;
    drop(call);
    activity.changed().await;
    assert_eq!((activity.begin().number, activity.begun()), (2, 2));
}
