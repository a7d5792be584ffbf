use super::*;

fn counts(passed: u64, failed: u64, skipped: u64) -> Option<Counts> {
    Some(Counts { passed, failed, skipped })
}

#[test]
fn nextest_summaries() {
    for (line, expected) in [
        ("     Summary [   0.035s] 12 tests run: 12 passed, 0 skipped", counts(12, 0, 0)),
        ("     Summary [   0.035s] 1 test run: 1 passed, 3 skipped", counts(1, 0, 3)),
        (
            "     Summary [   9.1s] 12 tests run: 9 passed (1 slow, 2 leaky), 1 failed, 2 timed out, 4 skipped",
            counts(9, 3, 4),
        ),
        ("     Summary [   9.1s] 3/12 tests run: 2 passed, 1 exec failed, 4 skipped", counts(2, 1, 4)),
        ("        PASS [   0.005s] xtask test::summary [ run: 3 passed", None),
        ("    Starting 12 tests across 3 binaries", None),
    ] {
        assert_eq!(nextest_summary(line), expected, "{line}");
    }
}

#[test]
fn libtest_results() {
    for (line, expected) in [
        (
            "test result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.01s",
            counts(4, 0, 1),
        ),
        ("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out", counts(3, 2, 0)),
        ("test result_is_kept ... ok", None),
        ("running 4 tests", None),
    ] {
        assert_eq!(libtest_result(line), expected, "{line}");
    }
}
