use super::*;
use crate::bench::measure::figure::{Change, Target, Unit};

fn measured(values: &[f64]) -> Vec<Vec<Figure>> {
    values.iter().map(|value| vec![Figure::new("a rate", *value, Unit::PerSecond).beside(value * 2.0)]).collect()
}

/// The ratio, its spread and what it comes to.
fn compared(own: &[f64], other: &[f64], unit: Unit) -> (Option<f64>, f64, Option<Change>) {
    let figures = combine(&measured(own), &measured(other)).expect("figures");
    let other = figures[0].other.expect("another build");
    let rounded = |value: f64| (value * 1000.0).round() / 1000.0;
    (other.ratio.map(rounded), rounded(other.spread), other.change(unit))
}

#[test]
fn the_ratio_is_the_median_of_the_pairs_whatever_the_machine_did_meanwhile() {
    // The machine becomes four times slower, and one pair is disturbed.
    let own = [110.0, 55.0, 27.5, 40.0, 110.0];
    let other = [100.0, 50.0, 25.0, 25.0, 100.0];
    assert_eq!(compared(&own, &other, Unit::PerSecond), (Some(1.1), 0.5, Some(Change::Same)));
}

#[test]
fn a_difference_larger_than_the_spread_is_better_or_worse_by_the_unit() {
    let (own, other) = ([120.0, 121.0, 119.0], [100.0, 100.0, 100.0]);
    assert_eq!(compared(&own, &other, Unit::PerSecond), (Some(1.2), 0.01, Some(Change::Better)));
    assert_eq!(compared(&own, &other, Unit::Milliseconds), (Some(1.2), 0.01, Some(Change::Worse)));
    assert_eq!(compared(&other, &own, Unit::Megabytes).2, Some(Change::Better));
}

#[test]
fn what_cannot_be_divided_is_not_compared() {
    assert_eq!(compared(&[3.0, 1.0], &[0.0, 1.0], Unit::Count), (None, 0.0, None));
}

#[test]
fn values_and_baselines_are_medians_and_the_target_stays() {
    let mut own = measured(&[5.0, 1.0, 3.0]);
    for figures in &mut own {
        figures[0].target = Target::AtLeast(2.0);
    }
    let figures = combine(&own, &measured(&[1.0, 1.0, 1.0])).expect("figures");
    assert_eq!((figures[0].value, figures[0].baseline, figures[0].target), (3.0, Some(6.0), Target::AtLeast(2.0)));
    assert_eq!(figures[0].other.map(|other| other.value), Some(1.0));
}

#[test]
fn figures_that_are_not_the_same_each_time_are_an_error() {
    let mut other = measured(&[1.0]);
    other[0][0].name = "another".to_owned();
    assert!(combine(&measured(&[1.0]), &other).is_err());
}
