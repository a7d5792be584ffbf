use std::time::Duration;

use super::driver::Outcome;
use super::*;

fn finished(file: &str, seconds: u64, passed: u64, failed: &[&str], skipped: &[&str]) -> Finished {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let outcome = Outcome { passed, failed: owned(failed), skipped: owned(skipped) };
    Finished { file: file.to_owned(), took: Duration::from_secs(seconds), outcome }
}

#[test]
fn outcomes_add_up_in_the_order_of_the_files() {
    let finding = summarise(vec![
        finished("b.py", 2, 1, &["b.py: one", "b.py: two"], &["b.py: no bus"]),
        finished("a.py", 5, 3, &[], &["a.py: no network"]),
    ]);
    assert_eq!(
        finding,
        Finding {
            state: State::Failed("b.py: one and 1 more".to_owned()),
            counts: Counts { passed: 4, failed: 2, skipped: 2 },
            skips: vec!["a.py: no network".to_owned(), "b.py: no bus".to_owned()],
            slowest: vec![("a.py".to_owned(), Duration::from_secs(5)), ("b.py".to_owned(), Duration::from_secs(2))],
        }
    );
}

#[test]
fn only_the_slowest_files_are_named() {
    let all = (0..9).map(|seconds| finished(&format!("{seconds}.py"), seconds, 1, &[], &[])).collect();
    let names: Vec<String> = summarise(all).slowest.into_iter().map(|(file, _)| file).collect();
    assert_eq!(names, ["8.py", "7.py", "6.py", "5.py", "4.py"]);
}

#[test]
fn skipping_everything_is_not_failing_but_running_nothing_is() {
    assert_eq!(summarise(vec![finished("a.py", 0, 0, &[], &["a.py: no network"])]).state, State::Passed);
    assert_eq!(summarise(vec![]).state, State::Failed("no driver was run".to_owned()));
}

#[test]
fn without_an_environment_every_file_is_skipped_with_the_reason() {
    let scratch = tempfile::tempdir().expect("a folder");
    let path = scratch.path().to_owned();
    let places = Places { root: path.clone(), scratch: path.clone(), binary: path.clone(), plugins: path };
    let environments = Environments { python: Err("no pip".to_owned()), node: Err("no Node".to_owned()) };
    let driver =
        |file: &str, language| Driver { file: file.to_owned(), language, place: schedule::Place::SideBySide, size: 0 };
    let drivers = vec![driver("a.py", Language::Python), driver("b.test.mjs", Language::Node)];
    let finding = summarise(schedule::run_all(&places, &environments, drivers, 2).expect("nothing runs"));
    assert_eq!(finding.skips, ["a.py: no pip", "b.test.mjs: no Node"]);
}

#[test]
fn this_repository_s_drivers_are_found() {
    let workspace = Workspace::find().expect("the repository");
    let python = files(&workspace.root, "e2e/python", "test_", ".py").expect("the folder exists");
    assert!(python.contains(&"e2e/python/test_stub_model.py".to_owned()), "{python:?}");
    assert!(!python.iter().any(|file| file.ends_with("/stub_model.py")), "{python:?}");
    for folder in NODE_FOLDERS {
        let node = files(&workspace.root, folder, "", ".test.mjs").expect("the folder exists");
        assert!(!node.is_empty(), "{folder}");
        assert!(!node.iter().any(|file| file.ends_with("/server.mjs") || file.ends_with("/fake.mjs")), "{node:?}");
    }
}
