use super::super::edit::parse_edit;
use super::super::tests::yard::{Yard, going, owned, stopped, told};
use super::*;

fn edits(pairs: &[(&str, &str)]) -> Vec<TextEdit> {
    pairs.iter().map(|(old, new)| parse_edit(&json!({"oldString": old, "newString": new}))).collect()
}

#[test]
fn all_edits_are_made_or_none() {
    let cases = [
        (&[("one", "1"), ("1 two", "both")][..], Ok("Applied 2 edit(s) successfully."), "both\n  three\n"),
        (
            &[("one", "1"), ("three\n", "3\n"), ("\t3", "  drei")],
            Ok("Applied 3 edit(s) successfully.\n[edit 3: found at line 2 ignoring indentation]"),
            "1 two\n  drei\n",
        ),
        (
            &[("one", "1"), ("one", "2")],
            Err(
                "edit 2 of 2: `oldString` is not in `a.txt`: `read` the file and copy the text from it; nothing was changed",
            ),
            "one two\n  three\n",
        ),
        (
            &[("t", "T"), ("one", "2")],
            Err(
                "edit 1 of 2: `oldString` is found 2 times in `a.txt`: take more lines around it, or set `replaceAll`; \
                 nothing was changed",
            ),
            "one two\n  three\n",
        ),
        (
            &[("", "new"), ("new", "x")],
            Err("edit 1 of 2: `oldString` is empty; nothing was changed"),
            "one two\n  three\n",
        ),
    ];
    for (pairs, expected, content) in cases {
        let yard = Yard::new(&[("a.txt", "one two\n  three\n")]);
        let outcome = told(multiedit(&yard.turns, &yard.folder, "a.txt", &edits(pairs), &going()));
        assert_eq!(outcome, owned(expected), "{pairs:?}");
        assert_eq!(yard.inside().into_iter().collect::<Vec<_>>(), [("a.txt".to_owned(), content.to_owned())]);
    }
}

#[test]
fn a_first_edit_of_nothing_makes_the_file() {
    let yard = Yard::new(&[]);
    let run =
        |path: &str, pairs: &[(&str, &str)]| told(multiedit(&yard.turns, &yard.folder, path, &edits(pairs), &going()));
    let made = run("new/a.txt", &[("", "one two"), ("two", "2")]);
    assert_eq!(made, owned(Ok("Applied 2 edit(s) successfully.")));
    assert_eq!(yard.text("new/a.txt"), "one 2");
    assert_eq!(run("b.txt", &[("x", "y")]), owned(Err("`b.txt` does not exist")));
    let failed =
        "edit 2 of 2: `oldString` is not in `b.txt`: `read` the file and copy the text from it; nothing was changed";
    assert_eq!(run("b.txt", &[("", "one"), ("two", "2")]), owned(Err(failed)));
    assert!(!yard.at("b.txt").exists());
    let outcome = told(multiedit(&yard.turns, &yard.folder, "new/a.txt", &edits(&[("one", "x")]), &stopped()));
    assert_eq!(outcome, owned(Err("cancelled")));
}
