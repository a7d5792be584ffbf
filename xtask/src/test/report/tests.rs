use super::*;

fn row(step: Step, seconds: u64, finding: Finding) -> Row {
    Row { step, took: Duration::from_secs(seconds), finding }
}

#[test]
fn the_report_as_a_person_reads_it() {
    let tests = Finding { counts: Counts { passed: 40, failed: 0, skipped: 2 }, ..Finding::default() };
    let drivers = Finding {
        state: State::Failed("tests failed".to_owned()),
        counts: Counts { passed: 5, failed: 2, skipped: 1 },
        skips: vec!["e2e/node/chat.test.mjs: no Node: pip could not fetch it".to_owned()],
        slowest: vec![
            ("e2e/python/test_serve.py".to_owned(), Duration::from_secs(61)),
            ("e2e/python/test_cli.py".to_owned(), Duration::from_millis(2500)),
        ],
    };
    let rows = [
        row(Step::Fmt, 1, Finding::default()),
        row(Step::Tests, 75, tests),
        row(Step::E2e, 3, drivers),
        Row::not_run(Step::Build, "`e2e` failed"),
    ];
    assert_eq!(
        lines(&rows).join("\n"),
        "
step           time  result
fmt           1.0 s  ok
tests     1 min 15 s  ok: 40 passed, 0 failed, 2 skipped
e2e           3.0 s  FAILED: 5 passed, 2 failed, 1 skipped · tests failed
build             -  not run, because `e2e` failed

slowest: 1 min 01 s  e2e/python/test_serve.py
slowest:     2.5 s  e2e/python/test_cli.py

skipped: e2e/node/chat.test.mjs: no Node: pip could not fetch it

took 1 min 19 s
45 passed, 2 failed, 3 skipped"
    );
}

#[test]
fn a_failed_check_never_sums_up_as_no_failure() {
    let rows = [row(Step::Clippy, 1, Finding::failed("clippy is not content".to_owned()))];
    assert_eq!(lines(&rows).last().map(String::as_str), Some("0 passed, 1 failed, 0 skipped"));
}
