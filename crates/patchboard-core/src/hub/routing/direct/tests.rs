use super::split_address;

#[test]
fn a_name_and_a_colon_or_comma_begin_a_direct_message() {
    let table: [(&str, (&str, &str)); 12] = [
        ("notebook:x", ("notebook", "x")),
        ("notebook,x", ("notebook", "x")),
        ("NOTEBOOK: x", ("NOTEBOOK", "x")),
        ("notebook: remember to buy milk", ("notebook", "remember to buy milk")),
        ("notebook, remember to buy milk", ("notebook", "remember to buy milk")),
        ("notebook:\nx\ny", ("notebook", "x\ny")),
        ("notebook:: x", ("notebook", ": x")),
        ("notebook: a: b", ("notebook", "a: b")),
        ("a-b_9:\t x \t", ("a-b_9", "x")),
        ("notebookpro: x", ("notebookpro", "x")),
        ("So, tomorrow", ("So", "tomorrow")),
        ("n:é", ("n", "é")),
    ];
    for (text, expected) in table {
        assert_eq!(split_address(text), Some(expected), "{text:?}");
    }
}

#[test]
fn anything_else_does_not() {
    for text in [
        "",
        ":",
        "notebook",
        "notebook:",
        "notebook: ",
        "notebook:\t\n",
        " notebook: x",
        "notebook : x",
        "notebook; x",
        "notebook， x",
        "hey notebook, x",
        "9lives: x",
        "-a: x",
        "_a: x",
        "é: x",
        "note.book: x",
    ] {
        assert_eq!(split_address(text), None, "{text:?}");
    }
}
