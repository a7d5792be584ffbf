use super::*;

fn decision(best: &str, confidence: f64, delivered: &[&str]) -> Decision {
    let delivered = delivered.iter().map(|app| (*app).to_owned()).collect();
    Decision { best: Some(best.to_owned()), confidence, delivered, nanoseconds: 2_000.0 }
}

fn row(text: &str, app: Option<&str>) -> (String, Option<String>) {
    (text.to_owned(), app.map(str::to_owned))
}

#[test]
fn files_and_the_place_of_the_figures_are_read() {
    let parsed =
        |line: &str| Options::parse(line.split_whitespace().map(str::to_owned)).map_err(|error| error.to_string());
    let options = |files: &[&str], json: Option<&str>| Options {
        files: files.iter().map(PathBuf::from).collect(),
        json: json.map(PathBuf::from),
    };
    assert_eq!(parsed("a.json b.json"), Ok(options(&["a.json", "b.json"], None)));
    assert_eq!(parsed("a.json --json out.json"), Ok(options(&["a.json"], Some("out.json"))));
    assert_eq!(parsed(""), Err("`bench routing` needs a file".to_owned()));
    assert_eq!(parsed("--fast"), Err("unknown argument of `bench routing`: `--fast`".to_owned()));
}

#[test]
fn rows_are_judged_by_best_and_by_delivery() {
    let expected = Expected {
        test: vec![row("1", Some("a")), row("2", Some("a")), row("3", Some("b")), row("4", None), row("5", None)],
        several: vec![("6".to_owned(), vec!["a".to_owned(), "b".to_owned()])],
    };
    let decisions = vec![
        decision("a", 0.9, &["a"]),
        decision("a", 0.4, &[]),
        decision("a", 0.8, &["a"]),
        decision("b", 0.2, &[]),
        decision("a", 0.3, &["a", "b"]),
        decision("a", 0.9, &["b", "a"]),
    ];
    let (figures, ranges) = judge(&expected, &Stage { examples: 5, decisions }).unwrap();
    assert_eq!(ranges.iter().map(|range| range.rows).collect::<Vec<_>>(), [0, 2, 1, 0, 1, 1]);
    let off = (0.5_f64 + 0.6 + 0.8 + 0.1) / 5.0;
    assert!((figures.calibration_error - off).abs() < 1e-9, "{}", figures.calibration_error);
    assert_eq!(
        figures,
        Figures {
            examples: 5,
            draws: 1,
            rows: 5,
            top_1: 2.0 / 3.0,
            right_within_allowed: 1.0 / 3.0,
            right: 0.2,
            wrong: 0.4,
            held: 0.4,
            none_delivered: 0.5,
            several: Some(1.0),
            calibration_error: figures.calibration_error,
            median_micros: 2.0,
            slow_micros: 2.0,
            right_spread: 0.0,
            wrong_spread: 0.0,
        }
    );
    assert!(judge(&expected, &Stage { examples: 5, decisions: Vec::new() }).is_err());
}

#[test]
fn wrong_deliveries_are_held_to_their_share() {
    let mut decisions = vec![(0.5, true); 98];
    decisions.extend([(0.9, false), (0.8, false)]);
    assert_eq!(right_within(&decisions), 98);
    decisions.extend([(0.7, false), (0.6, false)]);
    assert_eq!(right_within(&decisions), 0);
    assert_eq!(right_within(&[]), 0);
}

fn figures(examples: usize, right: f64) -> Figures {
    Figures {
        examples,
        draws: 1,
        rows: 9,
        top_1: 0.5,
        right_within_allowed: 0.25,
        right,
        wrong: 0.1,
        held: 0.5,
        none_delivered: 0.05,
        several: None,
        calibration_error: 0.02,
        median_micros: 30.4,
        slow_micros: 101.0,
        right_spread: 0.0,
        wrong_spread: 0.0,
    }
}

#[test]
fn a_point_of_the_curve_is_the_mean_of_its_draws() {
    let judged = [figures(20, 0.3), figures(5, 0.9), figures(20, 0.5)].map(|one| (one, Vec::new()));
    let point = curve(20, &judged).unwrap();
    assert_eq!((point.draws, point.examples), (2, 20));
    assert!((point.right - 0.4).abs() < 1e-9 && (point.right_spread - 0.2).abs() < 1e-9);
    assert_eq!(curve(100, &judged), None);
}

#[test]
fn confidence_is_compared_with_how_often_it_was_right() {
    let ranges = ranges(&[(0.95, true), (0.97, false), (0.1, false)]);
    let judged = [(figures(CALIBRATED, 0.3), ranges)];
    assert_eq!(
        calibration(&judged),
        ["  from 0.0: told 0.10, right 0.00 (1 decisions)", "  from 0.9: told 0.96, right 0.50 (2 decisions)"]
    );
}

#[test]
fn the_table_lines_up() {
    assert_eq!(
        table(&[figures(20, 0.4)]),
        [
            "examples  draws  top-1  right at 3 % wrong  right      ±  wrong      ±   held  no app  several    off  p50 µs  p99 µs",
            "      20      1  0.500               0.250  0.400  0.000  0.100  0.000  0.500   0.050           0.020      30     101",
        ]
    );
}
