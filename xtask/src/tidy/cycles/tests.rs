use super::*;
use crate::tidy::testing::{shown, with_files};

fn problems(files: &[(&str, &str)]) -> Vec<String> {
    shown(check(&with_files(files)))
}

#[test]
fn one_direction_is_fine() {
    let files = [
        ("crates/a/src/lib.rs", "pub mod high;\npub mod low;\npub use high::High;\n"),
        ("crates/a/src/high.rs", "use crate::low::{Low, other};\n"),
        ("crates/a/src/high/part.rs", "use super::High;\nuse crate::high::x;\n"),
        ("crates/a/src/low.rs", "// crate::high\nlet a = \"crate::high\";\nuse other_crate::high;\n"),
        ("crates/a/src/low/tests.rs", "use crate::high::High;\n"),
    ];
    assert_eq!(problems(&files), Vec::<String>::new());
}

#[test]
fn a_cycle_is_refused_with_both_arrows() {
    let files = [
        ("crates/a/src/lib.rs", "mod one;\nmod two;\n"),
        ("crates/a/src/one.rs", "\nuse crate::two::Two;\n"),
        ("crates/a/src/two/part.rs", "fn f() { crate::one::run(); }\n"),
    ];
    assert_eq!(
        problems(&files),
        [
            "crates/a/src/one.rs:2: `one` needs `two`, which needs `one`, itself or through others: modules depend in one direction",
            "crates/a/src/two/part.rs:1: `two` needs `one`, which needs `two`, itself or through others: modules depend in one direction",
        ]
    );
}

#[test]
fn every_spelling_of_an_arrow_counts() {
    for spelling in [
        "use crate::two::Two;",
        "use crate::{other::{X, Y}, two};",
        "use super::two::Two;",
        "let a = crate::two::f();",
        "use crate::Two;",
        "use crate::{\n    Two,\n};",
    ] {
        let files = [
            ("crates/a/src/lib.rs", "pub use two::{Two, Other};\npub use elsewhere::Thing;\n"),
            ("crates/a/src/one.rs", spelling),
            ("crates/a/src/two.rs", "use crate::one::One;"),
        ];
        assert_eq!(problems(&files).len(), 2, "{spelling}");
    }
}

#[test]
fn deeper_files_reach_the_root_by_more_supers() {
    let from = |spelling| {
        problems(&[("crates/a/src/one/part.rs", spelling), ("crates/a/src/two.rs", "use crate::one::One;")]).len()
    };
    assert_eq!(from("use super::super::two::Two;"), 2);
    assert_eq!(from("use super::two::Two;"), 0);
}

#[test]
fn crates_are_looked_at_apart() {
    let files = [
        ("crates/a/src/one.rs", "use crate::two::X;"),
        ("crates/a/src/two.rs", ""),
        ("crates/b/src/two.rs", "use crate::one::X;"),
        ("crates/b/src/one.rs", ""),
    ];
    assert_eq!(problems(&files), Vec::<String>::new());
}
