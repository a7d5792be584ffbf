use proptest::prelude::*;

use super::super::file_runtime::content::MAX_FILE_BYTES;
use super::super::tests::yard::{Yard, going, owned, stopped, told};
use super::*;

fn change(old: &str, new: &str, occurrences: Occurrences) -> TextEdit {
    TextEdit { old: old.to_owned(), new: new.to_owned(), occurrences }
}

/// The text after the edit with the remark, or what the model is told.
fn applied(text: &str, edit: &TextEdit) -> Result<(String, String), String> {
    let replaced = edit.apply(text).map_err(|error| error.into_refusal("`f`").0)?;
    let remark = replaced.remark().unwrap_or_default();
    Ok((replaced.text, remark))
}

#[test]
fn the_only_place_is_replaced() {
    let cases = [
        // As told.
        ("one two three", "two", "2", "one 2 three", ""),
        ("one\ntwo\n", "one\n", "", "two\n", ""),
        ("a\r\nb\r\n", "a\nb", "c\nd", "c\r\nd\r\n", ""),
        ("a\r\nb\r\n", "a", "c\nd", "c\r\nd\r\nb\r\n", ""),
        ("a\nb\n", "a\r\nb", "c", "c\n", ""),
        ("größe", "ö", "oe", "groeße", ""),
        // Blanks at line ends.
        ("a  \nb\nc\n", "a\nb", "x", "x\nc\n", "found at line 1 ignoring blanks at line ends"),
        ("a\nb \r\nc", "a\nb\nc", "x\ny", "x\ny", "found at line 1 ignoring blanks at line ends"),
        // Indentation, which new lines get too.
        (
            "fn f() {\n    if x {\n        y();\n    }\n}\n",
            "if x {\n    y();\n}",
            "if x {\n    z();\n    y();\n}",
            "fn f() {\n    if x {\n        z();\n        y();\n    }\n}\n",
            "found at line 2 ignoring indentation",
        ),
        (
            "class A:\n\tdef f(self):\n\t\tpass\n",
            "    def f(self):\n        pass\n",
            "    def f(self):\n        return 1\n",
            "class A:\n\tdef f(self):\n\t\treturn 1\n",
            "found at line 2 ignoring indentation",
        ),
        ("x\n  a\n  b\n", "a\nb\n", "", "x\n", "found at line 2 ignoring indentation"),
        ("x\n  a\n  b", "a\nb\n", "c\n", "x\n  c", "found at line 2 ignoring indentation"),
        // Blanks and marks.
        (
            "let  a =  f( 1 );\nb\n",
            "let a = f( 1 );",
            "c",
            "c\nb\n",
            "found at line 1 ignoring differences in blanks and punctuation marks",
        ),
        (
            "say \u{201c}hi\u{201d}\n",
            "say \"hi\"",
            "x",
            "x\n",
            "found at line 1 ignoring differences in blanks and punctuation marks",
        ),
        // Empty lines around.
        ("a\n  b\nc\n", "\n\nb\n\n", "\nd\n", "a\n  d\nc\n", "found at line 2 ignoring indentation"),
        // Escapes.
        ("a\n\t\"b\"", r#"a\n\t\"b\""#, r"c\n", "c\n", "found at line 1 after reading escapes such as `\\n`"),
    ];
    for (text, old, new, expected, remark) in cases {
        let edit = change(old, new, Occurrences::Unique);
        assert_eq!(applied(text, &edit), Ok((expected.to_owned(), remark.to_owned())), "{text:?} {old:?}");
    }
}

#[test]
fn every_place_is_replaced_when_asked() {
    let cases = [
        ("a b a", "a", "aa", "aa b aa", "2 occurrences replaced"),
        ("aaa", "aa", "b", "ba", ""),
        (
            "  a\n  b\nx\n    a\n    b\n",
            "a\nb",
            "c\nd",
            "  c\n  d\nx\n    c\n    d\n",
            "2 occurrences found ignoring indentation",
        ),
    ];
    for (text, old, new, expected, remark) in cases {
        let edit = change(old, new, Occurrences::All);
        assert_eq!(applied(text, &edit), Ok((expected.to_owned(), remark.to_owned())), "{text:?} {old:?}");
    }
}

#[test]
fn what_is_not_sure_is_refused() {
    let many = "a".repeat(5000);
    let cases = [
        ("a b a", "a", "c", "`oldString` is found 2 times in `f`: take more lines around it, or set `replaceAll`"),
        ("aaa", "aa", "c", "`oldString` is found 2 times in `f`: take more lines around it, or set `replaceAll`"),
        (
            &many,
            "a",
            "c",
            "`oldString` is found at least 1000 times in `f`: take more lines around it, or set `replaceAll`",
        ),
        (
            "  a\n  b\n    a\n    b\n",
            "a\nb",
            "c",
            "`oldString` is found 2 times in `f` ignoring indentation: take more lines around it, or set `replaceAll`",
        ),
        (
            "  a\n      b\n",
            "a\nb",
            "c",
            "`oldString` fits `f` at line 1 only when indentation is ignored, and how to indent `newString` cannot be \
             told from it: copy the text exactly",
        ),
        ("abc", "x", "y", "`oldString` is not in `f`: `read` the file and copy the text from it"),
        ("abc", "   ", "y", "`oldString` is not in `f`: `read` the file and copy the text from it"),
        ("abc", "ab c", "y", "`oldString` is not in `f`: `read` the file and copy the text from it"),
        ("one\ntwo", "one\nthree", "y", "`oldString` is not in `f`: `read` the file and copy the text from it"),
        ("abc", "b", "b", "nothing would change: `oldString` and `newString` come to the same"),
        ("  a\n  b\n", "a\nb", "a\nb", "nothing would change: `oldString` and `newString` come to the same"),
        ("abc", "", "x", "`oldString` is empty"),
    ];
    for (text, old, new, expected) in cases {
        let edit = change(old, new, Occurrences::Unique);
        assert_eq!(applied(text, &edit), Err(expected.to_owned()), "{old:?}");
    }
    let huge = change("a", &"x".repeat(1024 * 1024), Occurrences::All);
    assert_eq!(applied("aaaaaaaaaaa", &huge), Err(format!("`f` would become larger than {MAX_FILE_BYTES} bytes")));
}

#[test]
fn files_are_edited_made_or_left_alone() {
    let yard = Yard::new(&[("a.txt", "one two"), ("sub/", "")]);
    yard.put("binary", b"a\0b");
    yard.put("latin", b"caf\xe9");
    yard.put("huge", vec![b'x'; MAX_FILE_BYTES + 1]);
    yard.link("a.txt", "link");
    let run = |path: &str, old: &str, new: &str| {
        told(edit(&yard.turns, &yard.folder, path, &change(old, new, Occurrences::Unique), &going()))
    };
    let too_large = format!("`huge` is, or would be, larger than {MAX_FILE_BYTES} bytes");
    let cases = [
        ("a.txt", "one", "1", Ok("Edit applied successfully.")),
        ("a.txt", "1 zwei", "x", Err("`oldString` is not in `a.txt`: `read` the file and copy the text from it")),
        ("a.txt", "  1 two", "  1  two", Ok("Edit applied successfully.\n[found at line 1 ignoring indentation]")),
        ("link", "two", "2", Ok("Edit applied successfully.")),
        ("new/b.txt", "", "made", Ok("Edit applied successfully.")),
        (
            "a.txt",
            "",
            "x",
            Err("`a.txt` already exists: an empty `oldString` makes a new file; use `write_file` to replace one"),
        ),
        ("nope", "a", "b", Err("`nope` does not exist")),
        ("sub", "a", "b", Err("`sub` is a folder")),
        ("binary", "a", "b", Err("`binary` is not text: it holds NUL bytes")),
        ("latin", "a", "b", Err("`latin` is not UTF-8 text")),
        ("huge", "a", "b", Err(&too_large)),
    ];
    for (path, old, new, expected) in cases {
        assert_eq!(run(path, old, new), owned(expected), "{path} {old}");
    }
    assert_eq!((yard.text("a.txt"), yard.text("new/b.txt")), ("1  2".to_owned(), "made".to_owned()));
    let before = yard.inside();
    let edit_stopped = edit(&yard.turns, &yard.folder, "a.txt", &change("1", "x", Occurrences::All), &stopped());
    assert_eq!(told(edit_stopped), owned(Err("cancelled")));
    assert_eq!(yard.inside(), before);
}

proptest! {
    /// Replacing what is there once and replacing it back gives the same text.
    #[test]
    fn replacing_back_is_the_identity(
        before in "[ab \\n\\t]{0,12}", old in "[ab \\n\\tx]{1,8}", after in "[ab \\n\\t]{0,12}", new in "[ab \\n\\ty]{1,8}",
    ) {
        let text = format!("{before}{old}{after}");
        let once = |text: &str, piece: &str| {
            (0..text.len()).filter(|start| text.get(*start..).is_some_and(|rest| rest.starts_with(piece))).count() == 1
        };
        prop_assume!(old != new && once(&text, &old));
        let there = change(&old, &new, Occurrences::Unique).apply(&text).unwrap();
        let expected = format!("{before}{new}{after}");
        prop_assert_eq!(&there.text, &expected);
        prop_assume!(once(&there.text, &new));
        let back = change(&new, &old, Occurrences::Unique).apply(&there.text).unwrap();
        prop_assert_eq!(back.text, text);
    }

    /// Whatever is forgiven: the lines before and after the only place stay, and an edit never panics.
    #[test]
    fn only_the_place_found_changes(text in "[ab \\r\\n\\t\"\\\\]{0,60}", old in "[ab \\r\\n\\t\"\\\\]{0,12}", new in "[cd \\n]{0,8}") {
        for occurrences in [Occurrences::Unique, Occurrences::All] {
            if let Ok(replaced) = change(&old, &new, occurrences).apply(&text) {
                // Only characters of the new text, or of indentation, were added.
                let kept: String = replaced.text.chars().filter(|character| "ab".contains(*character)).collect();
                let had: String = text.chars().filter(|character| "ab".contains(*character)).collect();
                prop_assert!(kept.len() <= had.len());
                prop_assert!(replaced.text != text);
            }
        }
    }
}
