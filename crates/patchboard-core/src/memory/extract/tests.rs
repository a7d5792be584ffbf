use proptest::prelude::*;

use super::*;

fn check(text: &str, expected: &[(&str, &str)]) {
    let facts = stated_facts(text);
    let found: Vec<(&str, &str)> = facts.iter().map(|fact| (fact.predicate.as_str(), fact.object.as_str())).collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn plain_statements() {
    check("My name is Alice.", &[("name", "Alice")]);
    check("hi! my name is Alice, nice to meet you", &[("name", "Alice")]);
    check("I live in New York.", &[("location", "New York")]);
    check("I'm from Lyon; it is nice.", &[("from", "Lyon")]);
    check("I’m from Lyon", &[("from", "Lyon")]);
    check(
        "I moved from Berlin to Paris last year",
        &[("previous_location", "Berlin"), ("location", "Paris last year")],
    );
    check("I moved to Oslo.", &[("location", "Oslo")]);
    check("I work for Acme (the big one)", &[("employer", "Acme")]);
    check("my favourite colour is dark blue!", &[("favourite_colour", "dark blue")]);
    check("my dog's name is Rex", &[("dog's_name", "Rex")]);
    check("My name is Bob and I live in Paris.", &[("name", "Bob"), ("location", "Paris")]);
    check("my name is Bob but call me Bobby", &[("name", "Bob"), ("name", "Bobby")]);
}

#[test]
fn what_states_nothing() {
    for text in [
        "",
        "is my name Alice?",
        "my",
        "my is",
        "my name is",
        "my name is .",
        "I live in",
        "what is my name?",
        "my, is x",
    ] {
        check(text, &[]);
    }
}

#[test]
fn any_script() {
    check("İİ my name is x", &[("name", "x")]);
    check("my name is Ľubomír Ďuriš", &[("name", "Ľubomír Ďuriš")]);
    check("My name is 李小龍。", &[("name", "李小龍")]);
    check("ẞẞẞ I live in İstanbul", &[("location", "İstanbul")]);
}

#[test]
fn bounded() {
    let many = "my name is x. ".repeat(1000);
    assert_eq!(stated_facts(&many).len(), MAX_FACTS);
    let long = format!("my name is {}", "x".repeat(MAX_OBJECT + 1));
    check(&long, &[]);
    let huge = "é".repeat(MAX_TEXT_BYTES);
    check(&huge, &[]);
}

proptest! {
    #[test]
    fn never_panics(text in ".*") {
        stated_facts(&text);
    }

    #[test]
    fn a_stated_name_is_found_whatever_stands_before(prefix in "[^.!?\n]{0,40}") {
        let text = format!("{prefix}\nmy name is Zoë");
        let found = stated_facts(&text);
        prop_assert!(found.iter().any(|fact| fact.predicate == "name" && fact.object == "Zoë"));
    }
}
