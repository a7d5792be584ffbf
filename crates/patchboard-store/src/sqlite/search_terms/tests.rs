use super::{distinct_terms, match_expression, query_terms};

#[test]
fn texts_become_words() {
    let check = |text: &str, expected: &[&str]| assert_eq!(distinct_terms(text), expected, "{text:?}");
    check("", &[]);
    check("Green TEA, green tea!", &["green", "tea"]);
    check("works_at: 24/7", &["works", "at", "24", "7"]);
    check("日本のtea", &["日", "本", "の", "tea"]);
    check("\"tea\" OR * NEAR(x)", &["tea", "or", "near", "x"]);
    check("naïve İstanbul", &["naïve", "i\u{307}stanbul"]);
    check(&"x".repeat(1000), &["x".repeat(64).as_str()]);
    assert_eq!(distinct_terms(&(0..1000).map(|number| format!("{number} ")).collect::<String>()).len(), 64);
}

#[test]
fn long_words_find_their_continuations() {
    let check = |word: &str, expected: &str| assert_eq!(match_expression(12, word), expected);
    check("tea", "\"12xtea\"");
    check("coffee", "\"12xcoffee\"*");
    check("커피", "\"12x커피\"*");
    check("茶", "\"12x茶\"");
}

#[test]
fn short_words_count_when_there_is_nothing_else() {
    let check = |text: &str, expected: &[&str]| assert_eq!(query_terms(text), expected, "{text:?}");
    check("Is it my tea?", &["tea"]);
    check("is it", &["is", "it"]);
    check("at 24 é 茶", &["24", "é", "茶"]);
}
