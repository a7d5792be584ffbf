use super::{Query, addresses_assistant};
use crate::tokenizer::tokenize;

#[test]
fn who_is_spoken_to_is_not_always_spoken_about() {
    for (text, expected) in [
        ("what is your name", true),
        ("are you a robot", true),
        ("tell me about yourself", true),
        ("can you call a taxi", false),
        ("i want you to stop", false),
        ("thank you", false),
        ("set a timer", false),
        ("", false),
    ] {
        assert_eq!(addresses_assistant(&tokenize(text)), expected, "{text}");
    }
}

#[test]
fn terms_are_words_and_the_longest_phrases() {
    let query = Query::new(&tokenize("where is my bank account in yen"));
    let texts: Vec<&str> = query.terms.iter().map(|term| term.text.as_str()).collect();
    assert_eq!(texts, ["bank account", "bank", "account", "yen"]);
}

#[test]
fn repeating_a_word_says_nothing_more() {
    let once = Query::new(&tokenize("bananas"));
    let often = Query::new(&tokenize("bananas bananas banana"));
    assert_eq!(once.weight, often.weight);
}

#[test]
fn nothing_weighs_nothing() {
    assert_eq!(Query::new(&[]).weight, 0.0);
    assert_eq!(Query::new(&tokenize("the of and")).weight, 0.0);
}
