use super::*;
use crate::tidy::testing::{shown, with_files};

#[test]
fn codes_and_pages_in_step_are_fine() {
    let none: Vec<String> = Vec::new();
    let files = [
        ("docs/errors/PB0101.md", ""),
        ("docs/errors/README.md", ""),
        ("crates/patchboard/src/fail.rs", "const CODE: &str = \"PB0101\"; // not APB9999, PB99999 or PB999"),
        ("crates/patchboard/src/fail/tests.rs", "\"PB9999\""),
        ("xtask/src/x.rs", "\"PB9998\""),
    ];
    assert_eq!(shown(check(&with_files(&files))), none);
}

#[test]
fn a_page_without_code_and_a_code_without_page_are_found() {
    let files = [("docs/errors/PB0101.md", ""), ("crates/patchboard/src/fail.rs", "\n\"PB0102\" \"PB0102\"")];
    assert_eq!(
        shown(check(&with_files(&files))),
        [
            "docs/errors/PB0101.md: no code of the product leads here: remove the page or use the code",
            "crates/patchboard/src/fail.rs:2: `PB0102` has no page: write `docs/errors/PB0102.md`",
        ]
    );
}
