use std::fs;
use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;

use super::super::tests::yard::{Yard, going, owned, stopped, told};
use super::parse::{Chunk, ChunkPosition, FileChange, PatchLine};
use super::*;

fn patched(text: &str, body: &str) -> Result<String, String> {
    let patch = Patch::parse(&format!("*** Begin Patch\n*** Update File: f\n{body}\n*** End Patch"));
    let patch = patch.map_err(|error| error.to_string())?;
    let [FileChange::Update { chunks, .. }] = patch.changes.as_slice() else { panic!("{patch:?}") };
    chunk::apply_chunks(text, chunks).map_err(|error| error.to_string())
}

#[test]
fn a_patch_is_a_list_of_changes() {
    let text = "```\n*** Begin Patch\n*** Add File: a/new.txt\n+one\n++two\n+\n\n*** Delete File: old.txt\n\
                *** Update File: src/x.rs\n*** Move to: src/y.rs\n@@ class A\n@@ def f\n stays\n-goes\n+comes\n\n and\n\
                +more\n*** End of File\n@@ -1,2 +3,4 @@ fn g()\n+x\n*** Update File: z\n-a\n*** End Patch\n```\n";
    let line = |line: &str| line.to_owned();
    let expected = vec![
        FileChange::Add { path: line("a/new.txt"), content: line("one\n+two\n\n") },
        FileChange::Delete { path: line("old.txt") },
        FileChange::Update {
            path: line("src/x.rs"),
            move_to: Some(line("src/y.rs")),
            chunks: vec![
                Chunk {
                    anchors: vec![line("class A"), line("def f")],
                    lines: vec![
                        PatchLine::Context(line("stays")),
                        PatchLine::Removed(line("goes")),
                        PatchLine::Added(line("comes")),
                        PatchLine::Context(line("")),
                        PatchLine::Context(line("and")),
                        PatchLine::Added(line("more")),
                    ],
                    position: ChunkPosition::EndOfFile,
                },
                Chunk {
                    anchors: vec![line("fn g()")],
                    lines: vec![PatchLine::Added(line("x"))],
                    position: ChunkPosition::Anywhere,
                },
            ],
        },
        FileChange::Update {
            path: line("z"),
            move_to: None,
            chunks: vec![Chunk { lines: vec![PatchLine::Removed(line("a"))], ..Chunk::default() }],
        },
    ];
    assert_eq!(Patch::parse(text), Ok(Patch { changes: expected }));
    assert_eq!(Patch::parse(&text.replace('\n', "\r\n")), Patch::parse(text), "whatever ends its lines");
}

#[test]
fn a_text_that_is_no_patch_is_told_why() {
    let many = (0..201).map(|number| format!("*** Delete File: {number}\n")).collect::<String>();
    let cases = [
        ("", "the patch has no line `*** Begin Patch`"),
        ("*** Begin Patch\n*** Delete File: a", "the patch has no line `*** End Patch`"),
        ("*** End Patch\n*** Begin Patch", "the patch has no line `*** End Patch`"),
        ("*** Begin Patch\n*** End Patch", "the patch changes nothing"),
        ("*** Begin Patch\n*** Add File:\n*** End Patch", "line 2 of the patch names no file"),
        (
            "*** Begin Patch\n*** Rename File: a\n*** End Patch",
            "line 2 of the patch is `*** Rename File: a`, where `*** Add File: `, `*** Delete File: ` or \
             `*** Update File: ` is expected",
        ),
        (
            "*** Begin Patch\n*** Add File: a\n+x\ny\n*** End Patch",
            "line 4 of the patch is `y`, but every line of a new file begins with `+`",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n-x\ny\n*** End Patch",
            "line 4 of the patch is `y`, but lines of a change begin with a space, `+`, `-` or `@@`",
        ),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch", "the update at line 2 of the patch changes nothing"),
        ("*** Begin Patch\n*** Update File: a\n x\n*** End Patch", "the update at line 3 of the patch changes nothing"),
        (&format!("*** Begin Patch\n{many}*** End Patch"), "the patch changes more than 200 files"),
        (&"x".repeat(10 * 1024 * 1024 + 1), "the patch is longer than 10485760 bytes"),
    ];
    for (text, expected) in cases {
        assert_eq!(Patch::parse(text).map_err(|error| error.to_string()), Err(expected.to_owned()));
    }
}

#[test]
fn chunks_find_their_lines() {
    let twice = "fn a() {\n    x();\n}\nfn b() {\n    x();\n}\n";
    let cases = [
        ("a\nb\nc\n", " a\n-b\n+B\n c", Ok("a\nB\nc\n")),
        ("a\nb\nc", "-c\n+C", Ok("a\nb\nC")),
        ("a\nb\nc", " c\n+d", Ok("a\nb\nc\nd")),
        ("a\r\nb\r\n", " a\n+x\n b", Ok("a\r\nx\r\nb\r\n")),
        ("a\nb\n", "+c", Ok("a\nb\nc\n")),
        ("", "+c", Ok("c\n")),
        ("a\n", "-a", Ok("")),
        ("a\nb\nc\nd\n", "-a\n@@\n-c\n+C", Ok("b\nC\nd\n")),
        (twice, "@@ fn b() {\n-    x();\n+    y();", Ok("fn a() {\n    x();\n}\nfn b() {\n    y();\n}\n")),
        // The line named may be the chunk's first one too.
        (twice, "@@ fn b() {\n fn b() {\n-    x();", Ok("fn a() {\n    x();\n}\nfn b() {\n}\n")),
        (twice, "@@ fn a() {\n+    first();", Ok("fn a() {\n    first();\n    x();\n}\nfn b() {\n    x();\n}\n")),
        ("x\na\nx\n", "-x\n+y\n*** End of File", Ok("x\na\ny\n")),
        // Lines that stay do as the file has them; new ones are indented like it.
        ("\tif  a {\n\t\tb\n\t}\n", " if a {\n-\tb\n+\tc\n }", Ok("\tif  a {\n\t\tc\n\t}\n")),
        (
            twice,
            "-    x();\n+    y();",
            Err(
                "chunk 1: its lines, beginning with `    x();`, are found 2 times: give more lines around the change, or \
                 an `@@` line above it",
            ),
        ),
        ("a\nb\n", "-b\n@@\n-a", Err("chunk 2: its lines, beginning with `a`, are not found together from line 3 on")),
        ("a\nb\n", "@@ c\n-a", Err("chunk 1: no line `c` from line 1 on")),
        (
            "a\nb\n",
            "-a\n*** End of File",
            Err("chunk 1: its lines, beginning with `a`, are not found together from line 1 on"),
        ),
        (
            "  a\n      b\n",
            " a\n-b",
            Err("chunk 1: its lines are found only with other indentation, and how to indent new ones is unclear"),
        ),
    ];
    for (text, body, expected) in cases {
        assert_eq!(patched(text, body), owned(expected), "{body:?}");
    }
}

#[test]
fn a_patch_changes_files() {
    let yard = Yard::new(&[("a.txt", "one\ntwo\n"), ("b.txt", "b\n"), ("c.txt", "c\n"), ("run.sh", "old\n")]);
    fs::set_permissions(yard.at("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let patch = "*** Begin Patch\n*** Add File: new/deep.txt\n+made\n*** Delete File: b.txt\n*** Update File: a.txt\n one\n\
                 -two\n+2\n*** Update File: c.txt\n*** Move to: moved/c.txt\n*** Update File: run.sh\n\
                 *** Move to: bin/run.sh\n-old\n+new\n*** End Patch";
    let outcome = told(apply(&yard.turns, &yard.folder, patch, &going()));
    assert_eq!(outcome, owned(Ok("Applied 5 hunk(s) successfully.")));
    let mode = yard.at("bin/run.sh").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    let mut inside = yard.inside();
    inside.retain(|path, _| !path.ends_with('/'));
    let expected = [("a.txt", "one\n2\n"), ("bin/run.sh", "new\n"), ("moved/c.txt", "c\n"), ("new/deep.txt", "made\n")];
    assert_eq!(inside, expected.map(|(path, text)| (path.to_owned(), text.to_owned())).into());
}

#[test]
fn a_patch_that_fails_anywhere_changes_nothing() {
    let cases = [
        ("*** Add File: b.txt\n+x", "`b.txt` already exists"),
        ("*** Add File: sub\n+x", "`sub` is a folder"),
        ("*** Delete File: nope", "`nope` does not exist"),
        ("*** Delete File: sub", "`sub` is a folder"),
        ("*** Update File: nope\n-x", "`nope` does not exist"),
        ("*** Update File: b.txt\n*** Move to: sub\n-b", "`sub` already exists"),
        (
            "*** Update File: b.txt\n-x",
            "`b.txt` does not fit the patch: chunk 1: its lines, beginning with `x`, are not found together from line 1 on",
        ),
        ("*** Update File: binary\n-x", "`binary` is not text: it holds NUL bytes"),
        ("*** Update File: a.txt\n-two", "`a.txt` is named twice in the patch"),
        ("*** Delete File: sub/../a.txt", "`a.txt` is named twice in the patch"),
        ("*** Update File: b.txt\n*** Move to: new.txt", "`new.txt` is named twice in the patch"),
        ("*** Add File: ../x\n+x", "`../x` leads outside the working folder: only what lies inside it can be opened"),
        ("*** Delete File: token", "`token` is closed to tools: it belongs to the server's own data or keys"),
    ];
    for (change, expected) in cases {
        let yard = Yard::new(&[("a.txt", "one\ntwo\n"), ("b.txt", "b\n"), ("sub/x", "x"), ("binary", "a\0b")]);
        let before = yard.inside();
        let patch = format!(
            "*** Begin Patch\n*** Add File: new.txt\n+x\n*** Update File: a.txt\n-one\n+1\n{change}\n*** End Patch"
        );
        let outcome = told(apply(&yard.turns, &yard.folder, &patch, &going()));
        assert_eq!(outcome, Err(format!("{expected}; nothing was changed")), "{change}");
        assert_eq!(yard.inside(), before, "{change}");
    }
}

#[test]
fn a_cancelled_patch_changes_nothing() {
    let yard = Yard::new(&[("a.txt", "one\n")]);
    let before = yard.inside();
    let patch = "*** Begin Patch\n*** Update File: a.txt\n-one\n+1\n*** End Patch";
    assert!(told(apply(&yard.turns, &yard.folder, patch, &stopped())).unwrap_err().starts_with("cancelled"));
    assert_eq!(yard.inside(), before);
}

/// A text made of pieces of patches, so that the parser gets somewhere.
fn patch_like() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "*** Begin Patch\n",
        "*** End Patch\n",
        "*** Add File: a\n",
        "*** Delete File: b\n",
        "*** Update File: c\n",
        "*** Move to: d\n",
        "*** End of File\n",
        "@@\n",
        "@@ x\n",
        "@@ -1 +1 @@\n",
        "+x\n",
        "-x\n",
        " x\n",
        "\n",
        "x\n",
        "+",
        "ü",
        "***",
    ]);
    prop::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn the_parser_never_panics(text in prop_oneof![any::<String>(), patch_like()], content in "[x\\n]{0,20}") {
        if let Ok(patch) = Patch::parse(&text) {
            prop_assert!(!patch.changes.is_empty());
            for change in &patch.changes {
                if let FileChange::Update { chunks, .. } = change {
                    drop(chunk::apply_chunks(&content, chunks));
                }
            }
        }
        drop(Patch::parse(&format!("*** Begin Patch\n{text}\n*** End Patch")));
    }

    /// The patch of two texts, with all lines as context, makes one of the other.
    #[test]
    fn a_full_patch_does_what_it_says(lines in prop::collection::vec((0..3_u8, "[a-c ]{0,3}"), 1..12)) {
        prop_assume!(lines.iter().any(|(kind, _)| *kind > 0));
        let with = |wanted: [u8; 2]| {
            let kept = lines.iter().filter(|(kind, _)| wanted.contains(kind));
            kept.map(|(_, text)| format!("{text}\n")).collect::<String>()
        };
        let body: Vec<_> = lines.iter().map(|(kind, text)| format!("{}{text}", [" ", "-", "+"][usize::from(*kind)])).collect();
        prop_assert_eq!(patched(&with([0, 1]), &body.join("\n")), Ok(with([0, 2])));
    }
}
