use super::*;

#[test]
fn only_tests_that_ran_and_passed_are_good() {
    let counts = |passed, failed| Counts { passed, failed, skipped: 0 };
    let status = Ended::Failure("exit status: 101".to_owned());
    let failed = |why: &str| State::Failed(why.to_owned());
    for (ended, counts, expected) in [
        (&Ended::Success, counts(3, 0), State::Passed),
        (&Ended::Success, counts(0, 0), failed("no test of `plugins` was counted")),
        (&Ended::Success, counts(3, 1), failed("tests of `plugins` failed")),
        (&status, counts(3, 1), failed("tests of `plugins` failed")),
        (&status, counts(3, 0), failed("the tests of `plugins` did not run")),
    ] {
        assert_eq!(judge(ended, counts), expected, "{ended:?} {counts:?}");
    }
}
