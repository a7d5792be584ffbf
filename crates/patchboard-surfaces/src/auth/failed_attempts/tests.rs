use super::*;

/// How long an answer to that address has to wait; `None` when it gets none.
fn wait(wrong: &FailedAttempts, from: &str) -> Option<Duration> {
    wrong.reserve_answer_delay(from.parse().unwrap(), wrong.now())
}

#[tokio::test(start_paused = true)]
async fn an_address_is_answered_once_a_second_and_closed_past_the_bound() {
    let wrong = FailedAttempts::default();
    for place in 0..MAX_DELAYED_ANSWERS {
        assert_eq!(wait(&wrong, "203.0.113.9"), Some(PENALTY_DELAY * place));
    }
    assert_eq!(wait(&wrong, "203.0.113.9"), None);
    assert_eq!(wait(&wrong, "203.0.113.10"), Some(Duration::ZERO), "another address");
    tokio::time::advance(PENALTY_DELAY).await;
    assert_eq!(wait(&wrong, "203.0.113.9"), Some(PENALTY_DELAY * (MAX_DELAYED_ANSWERS - 1)), "one has been answered");
    assert_eq!(wait(&wrong, "203.0.113.9"), None);
    tokio::time::advance(PENALTY_DELAY * MAX_DELAYED_ANSWERS).await;
    assert_eq!(wait(&wrong, "203.0.113.9"), Some(Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn addresses_that_one_guesser_has_share_a_lane() {
    for (one, other) in [
        ("203.0.113.9", "::ffff:203.0.113.9"),
        ("127.0.0.1", "127.8.9.10"),
        ("127.0.0.1", "::1"),
        ("::ffff:127.0.0.1", "::1"),
        ("2001:db8:1:2::3", "2001:db8:1:2:ffff::1"),
    ] {
        let wrong = FailedAttempts::default();
        assert_eq!(wait(&wrong, one), Some(Duration::ZERO));
        assert_eq!(wait(&wrong, other), Some(PENALTY_DELAY), "{one} and {other}");
    }
    let wrong = FailedAttempts::default();
    assert_eq!(wait(&wrong, "2001:db8:1:2::3"), Some(Duration::ZERO));
    assert_eq!(wait(&wrong, "2001:db8:1:3::3"), Some(Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn memory_stays_bounded_and_addresses_without_a_lane_share_one() {
    let wrong = FailedAttempts::default();
    let many = u32::try_from(MAX_TRACKED_ADDRESSES).unwrap();
    for index in 0..many {
        assert_eq!(wait(&wrong, &std::net::Ipv4Addr::from(index << 8 | 1).to_string()), Some(Duration::ZERO));
    }
    assert_eq!(wait(&wrong, "203.0.113.1"), Some(Duration::ZERO));
    assert_eq!(wait(&wrong, "203.0.113.2"), Some(PENALTY_DELAY), "both are among the others");
    assert_eq!(wrong.schedule.lock().unwrap().next_answer_at.len(), MAX_TRACKED_ADDRESSES);
    tokio::time::advance(PENALTY_DELAY * 2).await;
    assert_eq!(wait(&wrong, "203.0.113.2"), Some(Duration::ZERO));
    assert_eq!(wrong.schedule.lock().unwrap().next_answer_at.len(), 1, "lanes that are free are forgotten");
}
