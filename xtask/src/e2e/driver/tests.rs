use super::*;

fn check(ended: Ended, reported: Option<Outcome>, failed: &[&str]) {
    assert_eq!(judge("f", ended.clone(), reported.clone()).failed, failed, "{ended:?} {reported:?}");
}

#[test]
fn only_a_readable_report_of_passed_tests_is_good() {
    let good = || Some(Outcome { passed: 2, ..Outcome::default() });
    let bad = || Some(Outcome { passed: 2, failed: vec!["f: t".to_owned()], ..Outcome::default() });
    let status = || Ended::Failure("exit status: 1".to_owned());
    check(Ended::Success, good(), &[]);
    check(Ended::Success, Some(Outcome::skipped("f", "why")), &[]);
    check(Ended::Success, None, &["f: left no report"]);
    check(Ended::Success, Some(Outcome::default()), &["f: has no tests"]);
    check(status(), bad(), &["f: t"]);
    check(status(), good(), &["f: failed (exit status: 1)"]);
    check(status(), None, &["f: failed (exit status: 1)"]);
    check(Ended::TimedOut(Duration::from_secs(9)), good(), &["f: took longer than 9 s"]);
}
