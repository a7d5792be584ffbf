use super::*;

fn check(values: &[f64], percent: f64, expected: f64) {
    let sample = Sample::new(values.to_vec()).expect("good values");
    assert_eq!(sample.percentile(percent), expected, "percentile {percent} of {values:?}");
}

#[test]
fn percentiles_lie_between_the_nearest_values() {
    check(&[7.0], 50.0, 7.0);
    check(&[7.0], 99.0, 7.0);
    check(&[3.0, 1.0, 2.0], 50.0, 2.0);
    check(&[4.0, 1.0, 3.0, 2.0], 50.0, 2.5);
    check(&[0.0, 10.0], 75.0, 7.5);
    let hundred_and_one: Vec<f64> = (0..=100).map(f64::from).collect();
    check(&hundred_and_one, 0.0, 0.0);
    check(&hundred_and_one, 50.0, 50.0);
    check(&hundred_and_one, 99.0, 99.0);
    check(&hundred_and_one, 100.0, 100.0);
}

#[test]
fn one_outlier_does_not_move_the_median() {
    let sample = Sample::new(vec![5.0, 5.1, 900.0, 4.9, 5.0]).expect("good values");
    assert_eq!((sample.median(), sample.count()), (5.0, 5));
}

#[test]
fn what_was_not_measured_has_no_statistics() {
    assert_eq!(Sample::new(vec![]).expect_err("empty").to_string(), "nothing was measured");
    assert_eq!(Sample::new(vec![1.0, f64::NAN]).expect_err("NaN").to_string(), "a measured value is not a number");
}
