use super::clauses;
use crate::tokenizer::{WordToken, tokenize};

fn check(text: &str, expected: &[&str]) {
    let words = tokenize(text);
    let found: Vec<String> = clauses(&words).into_iter().map(joined).collect();
    assert_eq!(found, expected, "{text}");
}

fn joined(words: &[WordToken]) -> String {
    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn an_utterance_is_cut_where_a_request_begins() {
    check("remind me to buy milk and turn off the lights", &["remind me to buy milk and", "turn off the lights"]);
    check("Play some jazz. Set a timer for ten minutes.", &["play some jazz", "set a timer for ten minutes"]);
    check("erinnere mich an Milch und schalte das Licht aus", &["erinnere mich an milch und", "schalte das licht aus"]);
}

#[test]
fn what_cannot_stand_alone_is_not_cut_off() {
    check("a recipe with chicken and rice", &["a recipe with chicken and rice"]);
    check("salt, pepper, oil", &["salt pepper oil"]);
    check("turn the lamp on and then please", &["turn the lamp on and then please"]);
    check("", &[]);
}

#[test]
fn there_are_only_so_many() {
    let text = "play jazz and ".repeat(20);
    assert_eq!(clauses(&tokenize(&text)).len(), super::MAX_CLAUSES);
}
