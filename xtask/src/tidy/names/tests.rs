use super::*;
use crate::tidy::testing::{shown, with_files};

fn problems(files: &[(&str, &str)]) -> Vec<String> {
    shown(check(&with_files(files)))
}

#[test]
fn a_word_of_the_house_is_found_in_any_spelling() {
    for name in ["ToolDesk", "tool_desk", "TOOL_DESK", "desk", "Shelf", "StewardTask"] {
        assert_eq!(
            problems(&[("crates/a/src/x.rs", &format!("struct S;\nfn f({name}: u8) {{}}\n"))]).len(),
            1,
            "{name}"
        );
    }
    for file in ["crates/a/src/tray.rs", "plugins/a/src/old_sieve.rs"] {
        assert_eq!(problems(&[(file, "")]).len(), 1, "{file}");
    }
}

#[test]
fn other_words_and_prose_are_fine() {
    for text in ["struct Desktop;", "fn traya() {}", "// the desk", "let a = \"a shelf\";", "fn portray() {}"] {
        assert_eq!(problems(&[("crates/a/src/x.rs", text)]), Vec::<String>::new(), "{text}");
    }
    assert_eq!(problems(&[("xtask/src/desk.rs", "struct Desk;"), ("docs/desk.md", "desk")]), Vec::<String>::new());
}

#[test]
fn a_file_of_words_is_refused() {
    let found = problems(&[("crates/a/src/words.rs", ""), ("crates/a/src/words/common.rs", "")]);
    assert_eq!(found, ["crates/a/src/words.rs: `words` says nothing: name what the file does with text"]);
}

#[test]
fn within_a_crate_a_visible_type_has_a_name_of_its_own() {
    let found = problems(&[
        ("crates/a/src/one.rs", "pub struct Reply<T>(T);\nstruct Own;\n"),
        ("crates/a/src/two.rs", "struct Own;\n    pub(super) enum Reply {\n"),
        ("crates/a/src/two/tests.rs", "pub struct Reply;"),
        ("crates/b/src/one.rs", "pub(crate) trait Reply: Send {}"),
    ]);
    assert_eq!(
        found,
        ["crates/a/src/two.rs:2: `Reply` is a type of crates/a/src/one.rs too: within a a type is found by its name"]
    );
}

#[test]
fn a_few_names_may_be_used_once_a_folder() {
    assert_eq!(
        problems(&[
            ("crates/a/src/one/wire.rs", "pub struct Request;"),
            ("crates/a/src/two/wire.rs", "pub struct Request;"),
        ]),
        Vec::<String>::new()
    );
    let same_folder =
        [("crates/a/src/one/wire.rs", "pub enum Error {}"), ("crates/a/src/one/map.rs", "pub enum Error {}")];
    assert_eq!(problems(&same_folder).len(), 1);
}

#[test]
fn a_type_does_not_repeat_its_module_where_the_rest_says_enough() {
    let refused = "crates/a/src/search.rs:1: `SearchEndpointError` repeats its module `search`, and `EndpointError` alone can \
                   be searched for: drop the word";
    let cases: &[(&str, &str, &[&str])] = &[
        ("crates/a/src/search.rs", "pub struct SearchEndpointError;", &[refused]),
        // One word is not enough to be found by.
        ("crates/a/src/search.rs", "pub struct SearchOptions;", &[]),
        ("crates/a/src/mcp.rs", "pub struct McpServerOptions;", &[]),
        // The word goes on: no repetition.
        ("crates/a/src/search.rs", "pub struct SearchableThingList;", &[]),
        ("crates/a/src/search.rs", "struct SearchEndpointError;", &[]),
    ];
    for (path, text, expected) in cases {
        assert_eq!(problems(&[(path, text)]), *expected, "{text}");
    }
    let taken =
        [("crates/a/src/log.rs", "pub enum LogLevel {}"), ("crates/a/src/worker.rs", "pub enum WorkerLogLevel {}")];
    assert_eq!(problems(&taken), Vec::<String>::new());
    let plural = problems(&[("crates/a/src/channels.rs", "pub struct ChannelRateLimit;")]);
    assert_eq!(plural.len(), 1, "{plural:?}");
}
