use super::*;

#[test]
fn a_plugin_is_quick_when_it_was_so_several_times_in_a_row() {
    let pace = Pace::default();
    for _ in 0..PROOF {
        assert!(!pace.is_quick());
        pace.note(BLINK);
    }
    assert!(pace.is_quick());
    pace.note(Duration::ZERO);
    assert!(pace.is_quick());
}

#[test]
fn one_slow_call_and_it_has_to_prove_itself_again() {
    let pace = Pace::default();
    for _ in 0..=PROOF {
        pace.note(Duration::ZERO);
    }
    pace.note(BLINK + Duration::from_nanos(1));
    assert!(!pace.is_quick());
    for _ in 0..PROOF {
        pace.note(Duration::ZERO);
    }
    assert!(pace.is_quick());
    pace.was_slow();
    assert!(!pace.is_quick());
}
