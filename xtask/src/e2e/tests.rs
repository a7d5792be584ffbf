use super::*;

fn outcome(passed: u64, failed: &[&str], skipped: &[&str]) -> Outcome {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Outcome { passed, failed: owned(failed), skipped: owned(skipped) }
}

#[test]
fn outcomes_add_up() {
    let finding = summarise(vec![outcome(3, &[], &["a.py: no network"]), outcome(1, &["b.py: one", "b.py: two"], &[])]);
    assert_eq!(
        finding,
        Finding {
            state: State::Failed("b.py: one and 1 more".to_owned()),
            counts: Counts { passed: 4, failed: 2, skipped: 1 },
            skips: vec!["a.py: no network".to_owned()],
        }
    );
}

#[test]
fn skipping_everything_is_not_failing_but_running_nothing_is() {
    assert_eq!(summarise(vec![outcome(0, &[], &["a.py: no network"])]).state, State::Passed);
    assert_eq!(summarise(vec![]).state, State::Failed("no driver was run".to_owned()));
}

#[test]
fn without_an_environment_every_file_is_skipped_with_the_reason() {
    let mut outcomes = Vec::new();
    let files = ["e2e/node/a.test.mjs".to_owned(), "e2e/node/b.test.mjs".to_owned()];
    let none: Result<&(), &String> = Err(&"no Node".to_owned());
    run_all(&files, none, &mut outcomes, |(), _| anyhow::bail!("must not run")).expect("nothing runs");
    let reasons: Vec<String> = outcomes.into_iter().flat_map(|outcome| outcome.skipped).collect();
    assert_eq!(reasons, ["e2e/node/a.test.mjs: no Node", "e2e/node/b.test.mjs: no Node"]);
}

#[test]
fn this_repository_s_drivers_are_found() {
    let workspace = Workspace::find().expect("the repository");
    let python = drivers(&workspace.root, "e2e/python", "test_", ".py").expect("the folder exists");
    assert!(python.contains(&"e2e/python/test_stub_model.py".to_owned()), "{python:?}");
    assert!(!python.iter().any(|file| file.ends_with("/stub_model.py")), "{python:?}");
    for folder in NODE_FOLDERS {
        let node = drivers(&workspace.root, folder, "", ".test.mjs").expect("the folder exists");
        assert!(!node.is_empty(), "{folder}");
        assert!(!node.iter().any(|file| file.ends_with("/server.mjs") || file.ends_with("/fake.mjs")), "{node:?}");
    }
}
