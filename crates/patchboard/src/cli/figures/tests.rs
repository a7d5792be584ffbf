use super::*;

#[test]
fn a_chart_shows_the_largest_of_each_share() {
    let values =
        |values: &[i32]| values.iter().map(|value| (*value >= 0).then(|| f64::from(*value))).collect::<Vec<_>>();
    let cases: [(&[i32], usize, &str); 6] = [
        (&[], 4, ""),
        (&[0, 0], 4, "▁▁"),
        (&[0, 7, 14], 4, "▁▅█"),
        (&[0, 7, 0, 0], 2, "█▁"),
        (&[-1, -1, 3, -1], 2, " █"),
        (&[1, 2, 3, 4, 5, 6], 3, "▃▆█"),
    ];
    for (given, columns, expected) in cases {
        assert_eq!(chart(&values(given), columns), expected, "{given:?}");
    }
}

#[test]
fn figures_are_shown_in_their_unit() {
    let cases = [
        (f64::NAN, "count", "–"),
        (3.0, "count", "3"),
        (2.5, "level", "2.5"),
        (0.0123, "seconds", "12.3 ms"),
        (1.26, "seconds", "1.3 s"),
    ];
    for (figure, unit, expected) in cases {
        assert_eq!(shown(figure, unit), expected);
    }
}
