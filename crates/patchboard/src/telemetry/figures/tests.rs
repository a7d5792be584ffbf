use std::collections::HashSet;

use super::*;

const START: i64 = 1_700_000_040;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(START + second).unwrap()
}

fn metrics(runs: u64, live: u64, fast: u64, slow: u64) -> String {
    format!(
        "# HELP ignored\n\
         patchboard_runs_started_total{{surface=\"gateway\"}} {runs}\n\
         patchboard_runs_started_total{{surface=\"runs\"}} 1\n\
         patchboard_runs_live {live}\n\
         patchboard_run_duration_seconds_bucket{{le=\"0.1\"}} 0\n\
         patchboard_run_duration_seconds_bucket{{le=\"0.2\"}} {fast}\n\
         patchboard_run_duration_seconds_bucket{{le=\"+Inf\"}} {}\n\
         broken\n",
        fast + slow
    )
}

fn values(recorder: &FigureRecorder, name: &str, since: i64, now: i64) -> Vec<Option<f32>> {
    let report = recorder.read(&[name.into()], Some(at(since)), at(now)).unwrap();
    let [series] = report.series.as_slice() else { panic!("{report:?}") };
    series.values.clone()
}

#[test]
fn counts_levels_and_quantiles_belong_to_their_step() {
    let recorder = FigureRecorder::new();
    recorder.sample(&metrics(4, 2, 10, 0), FaultCounts::default(), at(0));
    recorder.sample(&metrics(9, 1, 10, 0), FaultCounts { warnings: 3, errors: 1 }, at(10));
    // A sample is missing at 20.
    recorder.sample(&metrics(9, 0, 10, 6), FaultCounts { warnings: 3, errors: 1 }, at(30));
    let cases: [(&str, &[Option<f32>]); 6] = [
        ("runs.started", &[Some(5.0), Some(5.0), None, Some(0.0)]),
        ("runs.live", &[Some(2.0), Some(1.0), None, Some(0.0)]),
        ("runs.p50", &[Some(0.15), None, None, Some(0.2)]),
        ("runs.p95", &[Some(0.195), None, None, Some(0.2)]),
        ("faults.warnings", &[Some(0.0), Some(3.0), None, Some(0.0)]),
        ("models.p50", &[None; 4]),
    ];
    for (name, expected) in cases {
        assert_eq!(values(&recorder, name, -10, 30), expected, "{name}");
    }
    assert_eq!(values(&recorder, "runs.started", 5, 30), [Some(5.0), None, Some(0.0)]);
    let report = recorder.read(&[], Some(at(0)), at(30)).unwrap();
    assert_eq!((report.series.len(), report.start, report.step), (SERIES.len(), at(10), FINE_STEP));
    assert_eq!(recorder.read(&["tea".into()], None, at(30)), Err("tea".into()));
}

#[test]
fn more_than_an_hour_comes_in_coarse_steps() {
    let recorder = FigureRecorder::new();
    // 1_700_000_040 is a multiple of 120.
    for step in 0..=36 {
        recorder.sample(&metrics(step * 2, 0, 0, 0), FaultCounts::default(), at(i64::try_from(step).unwrap() * 10));
    }
    let report = recorder.read(&["runs.started".into()], Some(at(-7200)), at(360)).unwrap();
    assert_eq!(report.step, COARSE_STEP);
    let known: Vec<f32> = report.series[0].values.iter().flatten().copied().collect();
    assert_eq!(known, [1.0, 24.0, 24.0, 24.0]);
}

#[test]
fn what_is_too_old_is_forgotten_and_a_clock_set_back_starts_again() {
    let recorder = FigureRecorder::new();
    recorder.sample(&metrics(4, 2, 0, 0), FaultCounts::default(), at(0));
    recorder.sample(&metrics(4, 7, 0, 0), FaultCounts::default(), at(3600));
    let known = |recorder: &FigureRecorder, now| {
        values(recorder, "runs.live", now - 3600, now).into_iter().flatten().collect::<Vec<_>>()
    };
    assert_eq!(known(&recorder, 3600), [7.0]);
    recorder.sample(&metrics(4, 9, 0, 0), FaultCounts::default(), at(1800));
    assert_eq!(known(&recorder, 1800), [9.0]);
}

#[test]
fn samples_are_aligned_to_their_steps() {
    for (milliseconds, expected) in [(0, 10_000), (1, 9_999), (9_999, 1)] {
        let now = Timestamp::from_millisecond(START * 1000 + milliseconds).unwrap();
        assert_eq!(FigureRecorder::until_next(now), Duration::from_millis(expected), "{milliseconds}");
    }
}

#[test]
fn names_are_unique_and_the_rings_stay_small() {
    let names: HashSet<&str> = SERIES.iter().map(|series| series.name).collect();
    assert_eq!(names.len(), SERIES.len());
    assert!(SERIES.len() * (FINE_STEPS + COARSE_STEPS) * size_of::<f32>() < 250_000);
}
