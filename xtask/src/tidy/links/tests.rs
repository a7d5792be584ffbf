use super::*;
use crate::tidy::testing::{shown, with_files};

fn problems(page: &str) -> Vec<String> {
    let files = [
        ("docs/page.md", page),
        ("docs/other.md", "# One Thing, `and` more\n## Again\n## Again\n```\n# not a heading\n```\n"),
        ("README.md", ""),
        ("crates/a/src/lib.rs", ""),
    ];
    shown(check(&with_files(&files)))
}

#[test]
fn links_that_lead_somewhere_are_fine() {
    for page in [
        "[a](other.md) and [b](../README.md \"title\") and ![c](<other.md>)",
        "[a](https://example.org/missing.md) [b](mailto:a@example.org)",
        "[folder](../crates/a) [folder](../crates/a/) [root](..)",
        "[a](other.md#one-thing-and-more) [b](other.md#again-1)",
        "# Here\n[up](#here)",
        "[ref]: other.md\n[^1]: not-a-file",
        "`[a](missing.md)`\n```\n[a](missing.md)\n```\n~~~\n[a](missing.md)\n~~~",
    ] {
        let none: Vec<String> = Vec::new();
        assert_eq!(problems(page), none, "{page}");
    }
}

#[test]
fn links_that_lead_nowhere_are_found_with_their_line() {
    for (page, expected) in [
        ("\n[a](missing.md)", "docs/page.md:2: link to `missing.md`: there is no `docs/missing.md`"),
        ("[ref]: missing.md", "docs/page.md:1: link to `missing.md`: there is no `docs/missing.md`"),
        (
            "[a](../../etc/x)",
            "docs/page.md:1: link to `../../etc/x`: leaves the repository; links are relative to their page",
        ),
        (
            "[a](/README.md)",
            "docs/page.md:1: link to `/README.md`: leaves the repository; links are relative to their page",
        ),
        ("[a](other.md#gone)", "docs/page.md:1: link to `other.md#gone`: `docs/other.md` has no heading `#gone`"),
        (
            "[a](other.md#again-2)",
            "docs/page.md:1: link to `other.md#again-2`: `docs/other.md` has no heading `#again-2`",
        ),
        (
            "[a](other.md#not-a-heading)",
            "docs/page.md:1: link to `other.md#not-a-heading`: `docs/other.md` has no heading `#not-a-heading`",
        ),
        ("[up](#gone)", "docs/page.md:1: link to `#gone`: `docs/page.md` has no heading `#gone`"),
        ("```\nx\n```\n[a](missing.md)", "docs/page.md:4: link to `missing.md`: there is no `docs/missing.md`"),
    ] {
        assert_eq!(problems(page), [expected], "{page}");
    }
}
