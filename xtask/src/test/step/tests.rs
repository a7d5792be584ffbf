use super::*;

const GOOD: Counts = Counts { passed: 3, failed: 0, skipped: 0 };
const BAD: Counts = Counts { passed: 3, failed: 1, skipped: 0 };

#[test]
fn names_are_unique_and_parse_back() {
    for step in Step::ALL {
        assert_eq!(Step::parse(step.name()).expect("its own name"), step);
    }
    let message = Step::parse("lint").expect_err("no such step").to_string();
    assert!(message.contains("fmt, clippy, tidy, plugins, tests, build, e2e"), "{message}");
}

#[test]
fn success_needs_a_figure() {
    assert_eq!(judge(Ended::Success, Some(GOOD)).state, State::Passed);
    assert_eq!(judge(Ended::Success, None).state, State::Failed("no test was counted".to_owned()));
}

#[test]
fn failed_tests_fail_the_step_whatever_the_exit_status() {
    assert_eq!(judge(Ended::Success, Some(BAD)).state, State::Failed("tests failed".to_owned()));
    let finding = judge(Ended::Failure("exit status: 100".to_owned()), Some(BAD));
    assert_eq!((finding.state, finding.counts), (State::Failed("tests failed".to_owned()), BAD));
}

#[test]
fn a_build_failure_is_told_from_a_test_failure() {
    let finding = judge(Ended::Failure("exit status: 101".to_owned()), None);
    assert_eq!(finding.state, State::Failed("did not get as far as a result (exit status: 101)".to_owned()));
}
