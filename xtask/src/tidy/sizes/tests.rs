use super::*;
use crate::tidy::testing::{shown, with_files};

#[test]
fn only_files_over_the_limit_are_refused() {
    let at_limit = "x\n".repeat(LIMIT);
    let over = "x\n".repeat(LIMIT + 1);
    let context = with_files(&[
        ("a.rs", &at_limit),
        ("b.rs", &over),
        ("c.py", &over),
        ("d.mjs", &over),
        ("e.ts", &over),
        ("Cargo.lock", &over),
        ("f.md", &over),
        ("patchboard.schema.json", &over),
    ]);
    assert_eq!(
        shown(check(&context)),
        [
            "b.rs:801: 801 lines, more than 800: split it",
            "c.py:801: 801 lines, more than 800: split it",
            "d.mjs:801: 801 lines, more than 800: split it",
            "e.ts:801: 801 lines, more than 800: split it",
        ]
    );
    assert_eq!(long_files(&context.tree), 5);
}
