use super::*;

fn at(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[test]
fn a_burst_passes_then_the_rate_holds() {
    let mut bucket = TokenBucket::new(RateLimit { per_second: 10.0, burst: 3.0 }, at(0));
    let taken: Vec<bool> = [0, 0, 0, 0, 50, 100, 101, 1000, 1000, 1000, 1000].map(|ms| bucket.take(at(ms))).to_vec();
    assert_eq!(taken, [true, true, true, false, false, true, false, true, true, true, false]);
}

#[test]
fn time_that_runs_backwards_changes_nothing() {
    let mut bucket = TokenBucket::new(RateLimit { per_second: 1000.0, burst: 1.0 }, at(100));
    assert!(bucket.take(at(100)));
    assert!(bucket.is_empty(at(0)));
    assert!(bucket.is_full(at(200)));
}

#[test]
fn whoever_is_too_early_is_told_how_much() {
    let mut bucket = TokenBucket::new(RateLimit { per_second: 4.0, burst: 1.0 }, at(0));
    assert_eq!(bucket.time_until_available(at(0)), at(0));
    assert!(bucket.take(at(0)));
    assert_eq!([0, 100, 250, 9000].map(|now| bucket.time_until_available(at(now))), [250, 150, 0, 0].map(at));
    let mut never = TokenBucket::new(RateLimit { per_second: 0.0, burst: 0.0 }, at(0));
    assert_eq!(never.time_until_available(at(0)), Duration::MAX);
}
