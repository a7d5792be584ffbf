use super::*;

fn judged(report: &str) -> Result<Python, String> {
    judge(serde_json::from_str(report).expect("a good report"))
}

#[test]
fn a_missing_package_is_named_and_does_not_stop_the_rest() {
    let python = judged(
        r#"{"python": "venv/bin/python", "fatal": null, "missing": [{"requirement": "a==1", "reason": "no network"}]}"#,
    )
    .expect("there is an environment");
    assert_eq!(python.program, PathBuf::from("venv/bin/python"));
    assert_eq!(python.lacks("a"), Some("`a==1` cannot be had: no network".to_owned()));
    assert_eq!(python.lacks("b"), None);
    assert_eq!(python.program_with("b"), Ok(PathBuf::from("venv/bin/python")));
}

#[test]
fn no_environment_comes_with_its_reason() {
    let fatal = r#"{"python": null, "fatal": "no pip", "missing": []}"#;
    assert_eq!(judged(fatal).expect_err("no environment"), "no pip");
}

#[test]
fn reports_of_a_driver() {
    let text =
        r#"{"passed": 2, "failed": ["Chat.test_a"], "skipped": [{"name": "Chat.test_b", "reason": "no model"}]}"#;
    assert_eq!(
        read_report("f.py", text),
        Some(Outcome {
            passed: 2,
            failed: vec!["f.py: Chat.test_a".to_owned()],
            skipped: vec!["f.py: Chat.test_b: no model".to_owned()],
        })
    );
    assert_eq!(read_report("f.py", "{}"), None);
}

#[test]
fn a_program_that_is_not_there_is_not_recent() {
    assert!(!is_recent("no-such-python-anywhere"));
}

#[test]
fn a_program_without_the_package_it_is_for_is_none() {
    let report =
        r#"{"python": "venv/bin/python", "fatal": null, "missing": [{"requirement": "a==1", "reason": "no network"}]}"#;
    let python = judged(report).expect("there is an environment");
    assert_eq!(python.program_with("a"), Err("`a==1` cannot be had: no network".to_owned()));
}
