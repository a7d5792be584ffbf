use super::*;

#[test]
fn workers_that_began_together_do_not_end_together() {
    let age = Duration::from_secs(1000);
    let ages: Vec<u64> = (1..5).map(|number| jittered(age, number).as_secs()).collect();
    assert_eq!(ages, [963, 926, 989, 952]);
    for number in 0..1000 {
        assert!((Duration::from_secs(900)..=age).contains(&jittered(age, number)), "{number}");
    }
}

#[test]
fn every_error_but_one_is_a_miss() {
    let is_missed = |code: Code| {
        matches!(HeartbeatReply::from_response::<()>(Ok(Err(Status::new(code, "why")))), HeartbeatReply::Missed(_))
    };
    for code in [Code::DeadlineExceeded, Code::Unknown, Code::NotFound, Code::Internal, Code::Unavailable] {
        assert!(is_missed(code), "{code:?}");
    }
    assert!(matches!(HeartbeatReply::from_response(Ok(Ok(()))), HeartbeatReply::Alive));
    assert!(matches!(
        HeartbeatReply::from_response::<()>(Ok(Err(Status::unimplemented("")))),
        HeartbeatReply::Unsupported
    ));
}
