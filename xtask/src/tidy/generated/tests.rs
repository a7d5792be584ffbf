use super::*;
use crate::tidy::testing::{shown, with_files};

#[test]
fn present_and_checked_is_fine() {
    let mut files = Vec::new();
    for one in GENERATED {
        files.push((one.path.to_owned(), String::new()));
        files.push((format!("{}src/{}/tests.rs", one.folder(), one.test), format!("fn {}() {{}}", one.test)));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let none: Vec<String> = Vec::new();
    assert_eq!(shown(check(&with_files(&files))), none);
}

#[test]
fn missing_and_unchecked_are_found() {
    let found = shown(check(&with_files(&[])));
    assert_eq!(found.len(), 2 * GENERATED.len(), "{found:?}");
    assert!(found.iter().any(|problem| problem.contains("run `cargo xtask codegen`")), "{found:?}");
    assert!(found.iter().any(|problem| problem.contains("nothing checks it")), "{found:?}");
}

#[test]
fn a_test_counts_in_its_own_package_only() {
    let elsewhere = with_files(&[
        ("crates/xtask/src/tests.rs", "fn bridge_code_is_fresh() {}"),
        ("crates/patchboard-proto/src/tests.rs", "fn bridge_code_is_fresh() {}"),
    ]);
    let unchecked = |context: &Context| {
        let found = shown(check(context));
        found.iter().any(|problem| problem.contains("has no test `bridge_code_is_fresh`"))
    };
    assert!(unchecked(&elsewhere));
    assert!(!unchecked(&with_files(&[("xtask/src/tests.rs", "fn bridge_code_is_fresh() {}")])));
}
