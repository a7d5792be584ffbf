use super::*;

const REPORT: &str = "\
TAP version 13
# Subtest: chat
    # Subtest: answers
    ok 1 - answers
      ---
      duration_ms: 2.1
      ...
    # Subtest: cancels
    not ok 2 - cancels
      ---
      error: 'not ok 7 - in a message'
      ...
    1..2
not ok 1 - chat
# Subtest: local model
ok 2 - local model # SKIP no weights
1..2
# tests 3
# suites 1
# pass 1
# fail 1
# cancelled 0
# skipped 1
# todo 0
# duration_ms 90.1
";

#[test]
fn figures_and_names_are_read() {
    assert_eq!(
        read("f", REPORT),
        Some(Outcome {
            passed: 1,
            failed: vec!["f: cancels".to_owned()],
            skipped: vec!["f: local model: no weights".to_owned()],
        })
    );
}

#[test]
fn a_report_that_breaks_off_says_nothing() {
    assert_eq!(read("f", "TAP version 13\nok 1 - a\n"), None);
    assert_eq!(read("f", ""), None);
}

#[test]
fn cancelled_tests_have_failed_even_when_not_named() {
    let outcome = read("f", "# pass 0\n# fail 1\n# cancelled 1\n# skipped 0\n# todo 0\n").expect("complete");
    assert_eq!(outcome.failed, ["f: not named", "f: not named"]);
}
