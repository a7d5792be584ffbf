//! When the server may sleep, on a clock of the test's own.

use std::time::Duration;

use tokio::time::{Instant, advance};

use crate::activity::{IdleState, ServerActivity};

const TEN_MINUTES: Duration = Duration::from_secs(600);

fn rest(activity: &ServerActivity) -> IdleState {
    activity.idle_state(Instant::now(), TEN_MINUTES)
}

#[tokio::test(start_paused = true)]
async fn ten_quiet_minutes_after_the_last_call() {
    let activity = ServerActivity::new(Instant::now());
    assert_eq!(rest(&activity), IdleState::RecheckAfter(TEN_MINUTES));
    advance(Duration::from_secs(400)).await;
    let (first, second) = (activity.acquire(), activity.acquire());
    advance(Duration::from_secs(3600)).await;
    assert_eq!(rest(&activity), IdleState::Busy, "however long a call takes");
    drop(first);
    assert_eq!(rest(&activity), IdleState::Busy);
    drop(second);
    assert_eq!(rest(&activity), IdleState::RecheckAfter(TEN_MINUTES));
    advance(Duration::from_secs(599)).await;
    assert_eq!(rest(&activity), IdleState::RecheckAfter(Duration::from_secs(1)));
    advance(Duration::from_secs(1)).await;
    assert_eq!(rest(&activity), IdleState::Expired);
    activity.touch(Instant::now());
    assert_eq!(rest(&activity), IdleState::RecheckAfter(TEN_MINUTES));
}

#[tokio::test(start_paused = true)]
async fn calls_are_numbered_and_told() {
    let activity = ServerActivity::new(Instant::now());
    let call = activity.acquire();
    assert_eq!((call.number, activity.calls_started()), (1, 1));
    // One told before anybody listened is not lost.
    activity.changed().await;
    drop(call);
    activity.changed().await;
    assert_eq!((activity.acquire().number, activity.calls_started()), (2, 2));
}
