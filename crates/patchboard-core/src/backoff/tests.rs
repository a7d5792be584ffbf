use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn first_seconds(schedule: BackoffSchedule, count: u32) -> Vec<u64> {
    (0..count).map(|retry| schedule.delay(retry).as_secs()).collect()
}

#[test]
fn delays_double_up_to_their_ceiling() {
    let schedule = BackoffSchedule::doubling(SECOND, 30 * SECOND);
    assert_eq!(first_seconds(schedule, 7), [1, 2, 4, 8, 16, 30, 30]);
    assert_eq!(schedule.delay(u32::MAX), 30 * SECOND);
    assert_eq!(first_seconds(schedule.with_immediate_first(), 4), [0, 1, 2, 4]);
    assert_eq!(BackoffSchedule::doubling(SECOND, Duration::MAX).delay(200), SECOND * u32::MAX);
    assert_eq!(first_seconds(BackoffSchedule::doubling(5 * SECOND, SECOND), 2), [1, 1]);
}

#[test]
fn the_last_listed_delay_repeats() {
    const LISTED: [Duration; 2] = [SECOND, Duration::from_secs(10)];
    let schedule = BackoffSchedule::listed(&LISTED);
    assert_eq!(first_seconds(schedule, 4), [1, 10, 10, 10]);
    assert_eq!(schedule.delay(u32::MAX), 10 * SECOND);
    assert_eq!(BackoffSchedule::listed(&[]).delay(3), Duration::ZERO);
}

#[test]
fn retries_end() {
    let schedule = BackoffSchedule::doubling(SECOND, 3 * SECOND).with_max_retries(3);
    let expected = [SECOND, 2 * SECOND, 3 * SECOND];
    assert_eq!(schedule.retries().collect::<Vec<_>>(), expected);
    let mut backoff = Backoff::new(schedule);
    assert_eq!(std::iter::from_fn(|| backoff.next_retry()).collect::<Vec<_>>(), expected);
    assert_eq!(backoff.next_delay(), 3 * SECOND, "unless nobody counts them");
    backoff.reset();
    assert_eq!((backoff.next_retry(), backoff.next_delay()), (Some(SECOND), 2 * SECOND));
    assert_eq!(schedule.with_max_retries(0).retries().count(), 0);
}

#[test]
fn half_of_a_delay_is_left_to_chance() {
    for (chance, millis) in [(0.0, 500), (0.5, 750), (1.0, 1000), (-1.0, 500), (7.0, 1000)] {
        assert_eq!(with_jitter(SECOND, chance), Duration::from_millis(millis), "{chance}");
    }
    assert_eq!(with_jitter(Duration::MAX, 1.0), Duration::MAX);
    assert_eq!(with_jitter(Duration::ZERO, 0.3), Duration::ZERO);
}
