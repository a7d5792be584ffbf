use super::*;
use crate::bench::measure::figure::{OtherBuild, Target, Unit};

fn outcomes() -> Vec<Outcome> {
    let echo = Figure::new("ping, 1 × 1", 18_000.0, Unit::PerSecond).beside(20_000.0).target(Target::RatioAtLeast(0.9));
    let slow = Figure::new("start", 30.0, Unit::Milliseconds).target(Target::AtMost(25.0)).note("median of 10");
    let shown = Figure::new("turns", 11.0, Unit::Count);
    vec![
        Outcome { row: "ping", others: Some(0.1), result: Ok(vec![echo, slow, shown]) },
        Outcome { row: "size", others: Some(0.42), result: Err("no such file".to_owned()) },
    ]
}

#[test]
fn the_table_lines_up_and_sums_up() {
    assert_eq!(
        table(&outcomes()),
        [
            "figure          value  baseline  ratio   target  ok",
            "ping, 1 × 1  18000 /s  20000 /s   0.90  ≥ 0.9 ×  yes",
            "start         30.0 ms                   ≤ 25 ms  NO   median of 10",
            "turns              11",
            "size                                             ?    not measured: no such file",
            "",
            "size: other programs used 42 % of the processors just before it was measured",
            "1 targets met, 1 missed; 1 rows not measured",
        ]
    );
}

#[test]
fn another_build_has_columns_of_its_own() {
    let beside = |value, ratio, spread| Some(OtherBuild { value, ratio, spread });
    let figure = |name: &str, value, unit| Figure::new(name, value, unit);
    let figures = vec![
        Figure { other: beside(10.0, Some(1.2), 0.05), ..figure("rate", 12.0, Unit::PerSecond) },
        Figure { other: beside(10.0, Some(1.2), 0.05), ..figure("time", 12.0, Unit::Milliseconds) },
        Figure { other: beside(11.9, Some(1.01), 0.05), ..figure("memory", 12.0, Unit::Megabytes) },
        Figure { other: beside(0.0, None, 0.0), ..figure("lost", 0.0, Unit::Count) },
    ];
    let rows = table(&[Outcome { row: "all", others: None, result: Ok(figures) }]);
    assert_eq!(
        rows.get(..5).unwrap_or_default(),
        [
            "figure    value  baseline  ratio  target  ok  other build  this to other",
            "rate    12.0 /s                                   10.0 /s  1.20 ± 0.05 better",
            "time    12.0 ms                                   10.0 ms  1.20 ± 0.05 WORSE",
            "memory  12.0 MB                                   11.9 MB  1.01 ± 0.05",
            "lost          0                                         0  –",
        ]
    );
}

#[test]
fn the_file_has_every_figure_and_every_gap() {
    assert_eq!(
        json(&outcomes(), &Options { seconds: 2, turns: 5_000, growth: 6_000, ..Options::default() }),
        json!({
            "cores": std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            "seconds": 2,
            "turns": 5_000,
            "growth": 6_000,
            "pairs": null,
            "used_by_others": { "ping": 0.1, "size": 0.42 },
            "figures": [
                {
                    "row": "ping", "figure": "ping, 1 × 1", "value": 18_000.0, "unit": "/s", "baseline": 20_000.0,
                    "ratio": 0.9, "target": "≥ 0.9 ×", "ok": true, "note": "", "other_build": null,
                },
                {
                    "row": "ping", "figure": "start", "value": 30.0, "unit": "ms", "baseline": null,
                    "ratio": null, "target": "≤ 25 ms", "ok": false, "note": "median of 10", "other_build": null,
                },
                {
                    "row": "ping", "figure": "turns", "value": 11.0, "unit": "", "baseline": null,
                    "ratio": null, "target": "", "ok": null, "note": "", "other_build": null,
                },
            ],
            "not_measured": [{ "row": "size", "why": "no such file" }],
        })
    );
}

#[test]
fn a_row_that_is_done_says_what_it_found() {
    let lines: Vec<Vec<String>> =
        outcomes().iter().map(|outcome| progress(outcome, Duration::from_millis(1250))).collect();
    assert_eq!(
        lines,
        [
            vec!["ping, 1 × 1: 18000 /s", "start: 30.0 ms", "turns: 11", "took 1.2 s"],
            vec!["not measured: no such file", "took 1.2 s"],
        ]
    );
}
