use super::*;
use crate::tidy::testing::tree;

#[test]
fn files_and_folders_are_told_apart() {
    let tree = tree(&[("docs/errors/PB0001.md", ""), ("docs.md", "")]);
    assert!(tree.has_file("docs.md") && !tree.has_file("docs") && !tree.has_file("docs/errors"));
    assert!(tree.has_folder("docs") && tree.has_folder("docs/errors") && !tree.has_folder("doc"));
    assert!(!tree.has_folder("docs.md"));
}

#[test]
fn a_file_that_is_not_text_is_known_but_not_read() {
    let mut tree = Tree::default();
    tree.add("logo.png".to_owned(), None);
    assert!(tree.has_file("logo.png"));
    assert_eq!((tree.len(), tree.files().count()), (1, 0));
}

#[test]
fn this_repository_is_found_with_and_without_git() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository");
    let walked = walk(root).expect("the repository can be read");
    let own = "xtask/src/tidy/tree.rs".to_owned();
    assert!(walked.contains(&own));
    assert!(walked.iter().all(|path| !path.starts_with("target/") && !path.starts_with(".git/")));
    assert!(Tree::load(root).expect("the repository can be read").has_file(&own));
}

#[test]
fn test_files_are_recognised() {
    for path in ["crates/a/src/b/tests.rs", "crates/a/tests/it/main.rs", "crates/a/src/b_tests.rs"] {
        assert!(is_test_file(path), "{path}");
    }
    for path in ["crates/a/src/b.rs", "crates/patchboard-testkit/src/lib.rs", "xtask/src/test.rs"] {
        assert!(!is_test_file(path), "{path}");
    }
}
