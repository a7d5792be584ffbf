use super::*;

fn check(target: Target, value: f64, baseline: Option<f64>, expected: Judgement) {
    let figure = Figure { baseline, ..Figure::new("x", value, Unit::PerSecond).target(target) };
    assert_eq!(figure.judgement(), expected, "{figure:?}");
}

#[test]
fn a_target_is_met_at_its_edge_and_missed_beyond() {
    check(Target::None, 1.0, None, Judgement::NothingAsked);
    check(Target::AtLeast(10.0), 10.0, None, Judgement::Met);
    check(Target::AtLeast(10.0), 9.9, None, Judgement::Missed);
    check(Target::AtMost(0.0), 0.0, None, Judgement::Met);
    check(Target::AtMost(0.0), 1.0, None, Judgement::Missed);
    check(Target::RatioAtLeast(0.5), 5.0, Some(10.0), Judgement::Met);
    check(Target::RatioAtLeast(0.5), 4.9, Some(10.0), Judgement::Missed);
    check(Target::RatioAtMost(1.5), 15.0, Some(10.0), Judgement::Met);
    check(Target::RatioAtMost(1.5), 15.1, Some(10.0), Judgement::Missed);
}

#[test]
fn a_ratio_that_cannot_be_taken_misses_its_target() {
    check(Target::RatioAtLeast(0.5), 5.0, None, Judgement::Missed);
    check(Target::RatioAtMost(1.5), 5.0, Some(0.0), Judgement::Missed);
}

#[test]
fn values_show_the_digits_that_mean_something() {
    for (unit, value, expected) in [
        (Unit::PerSecond, 312_345.6, "312346 /s"),
        (Unit::PerSecond, 12.34, "12.3 /s"),
        (Unit::Milliseconds, 0.0625, "0.062 ms"),
        (Unit::Milliseconds, 12.34, "12.3 ms"),
        (Unit::Megabytes, 25.44, "25.4 MB"),
        (Unit::Count, 3.0, "3"),
    ] {
        assert_eq!(unit.show(value), expected);
    }
    assert_eq!(Target::AtMost(0.1).show(Unit::Milliseconds), "≤ 0.1 ms");
    assert_eq!(Target::AtMost(0.0).show(Unit::Count), "≤ 0");
    assert_eq!(Target::RatioAtLeast(0.9).show(Unit::PerSecond), "≥ 0.9 ×");
}
