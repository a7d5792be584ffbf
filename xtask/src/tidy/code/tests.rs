use super::*;

#[test]
fn only_code_remains() {
    for (text, code) in [
        ("a // todo!()\nb", "a           \nb"),
        ("a /* x /* y */ z */ b", "a                   b"),
        ("f(\"dbg!\")", "f(\"    \")"),
        (r#"f("a\"b")"#, r#"f("    ")"#),
        (r##"f(r#"a"b"#)"##, "f(        )"),
        ("f(br\"x\\\")", "f(      )"),
        ("let r#type = 1;", "let r#type = 1;"),
        ("c == '\"' && d", "c ==     && d"),
        ("c == '\\'' && d", "c ==      && d"),
        ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
        ("\"unfinished", "\"          "),
        ("\"", "\""),
        ("/* unfinished", "             "),
        ("\"\" + x", "\"\" + x"),
    ] {
        assert_eq!(code_view(text), code, "{text}");
    }
}

#[test]
fn lines_keep_their_numbers() {
    let text = "one\n/* two\nthree */ let s = \"four\nfive\"; // ünï\nsix";
    let code = code_view(text);
    assert_eq!(code.lines().count(), text.lines().count());
    assert_eq!(code.lines().nth(4), Some("six"));
    assert_eq!(code.lines().nth(2), Some("         let s = \"    "));
}
