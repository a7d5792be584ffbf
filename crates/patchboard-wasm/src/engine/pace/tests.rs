use super::*;

#[test]
fn a_plugin_is_quick_when_it_was_so_several_times_in_a_row() {
    let pace = CallPace::default();
    for _ in 0..QUICK_CALLS_REQUIRED {
        assert!(!pace.is_quick());
        pace.record(QUICK_CALL);
    }
    assert!(pace.is_quick());
    pace.record(Duration::ZERO);
    assert!(pace.is_quick());
}

#[test]
fn one_slow_call_and_it_has_to_prove_itself_again() {
    let pace = CallPace::default();
    for _ in 0..=QUICK_CALLS_REQUIRED {
        pace.record(Duration::ZERO);
    }
    pace.record(QUICK_CALL + Duration::from_nanos(1));
    assert!(!pace.is_quick());
    for _ in 0..QUICK_CALLS_REQUIRED {
        pace.record(Duration::ZERO);
    }
    assert!(pace.is_quick());
    pace.reset();
    assert!(!pace.is_quick());
}
