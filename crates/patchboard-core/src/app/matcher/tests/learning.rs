use super::{app, chosen, confidence, household, rank, teach};
use crate::app::matcher::{Matcher, Strength, Verdict};

use Strength::{Strong, Weak};
use Verdict::{Right, Wrong};

/// Words that no description and no lexicon knows.
const STRANGE: &[&str] =
    &["fribble", "gonzle", "trumpf", "quaddle", "snorf", "wibbet", "plonker", "drozz", "yimmer", "vosk"];

#[test]
fn a_few_strong_labels_move_an_utterance() {
    let mut matcher = Matcher::new();
    let apps = household();
    assert_eq!(chosen(&matcher, "fribble the gonzle", &apps), [""; 0]);
    for text in ["fribble the gonzle", "please fribble it", "gonzle and fribble now"] {
        teach(&mut matcher, text, "chef", Right, Strong);
    }
    assert_eq!(chosen(&matcher, "fribble the gonzle", &apps), ["chef"]);
    assert_eq!(rank(&matcher, "could you fribble my gonzle", &apps).candidates[0].app, "chef".into());
}

#[test]
fn a_rejection_lowers_and_a_correction_turns() {
    let mut matcher = Matcher::new();
    let apps = household();
    let text = "switch off the lights in the hall";
    let before = confidence(&matcher, text, &apps, "lamps");
    teach(&mut matcher, text, "lamps", Wrong, Strong);
    let after = confidence(&matcher, text, &apps, "lamps");
    assert!(after < before / 2.0, "{before} {after}");
    teach(&mut matcher, text, "notebook", Right, Strong);
    assert_eq!(chosen(&matcher, text, &apps), ["notebook"]);
    // Other rooms are still the lamps' own.
    assert_eq!(rank(&matcher, "turn on the kitchen lamp", &apps).candidates[0].app, "lamps".into());
}

#[test]
fn a_thousand_acknowledgements_do_not_drown_ten_words_of_the_user() {
    let mut matcher = Matcher::new();
    let apps = [app("one", "Does this."), app("two", "Does that.")];
    for number in 0..1000 {
        let (first, second) = (STRANGE[number % 10], STRANGE[number / 10 % 10]);
        teach(&mut matcher, &format!("zorp {first} {second} {}", STRANGE[number / 100]), "one", Right, Weak);
    }
    for word in STRANGE {
        teach(&mut matcher, &format!("zorp the {word} flurb"), "two", Right, Strong);
    }
    assert_eq!(chosen(&matcher, "zorp the snorf flurb", &apps), ["two"]);
    assert_eq!(rank(&matcher, "zorp my quaddle flurb", &apps).candidates[0].app, "two".into());
    assert!(matcher.learned("one").unwrap().len() < 64 * 1024);
}

#[test]
fn what_a_person_said_of_the_same_words_wins() {
    let mut matcher = Matcher::new();
    let apps = household();
    for _ in 0..50 {
        teach(&mut matcher, "fribble the gonzle", "chef", Right, Weak);
    }
    teach(&mut matcher, "fribble the gonzle", "mailman", Right, Strong);
    assert_eq!(rank(&matcher, "fribble the gonzle", &apps).candidates[0].app, "mailman".into());
}

#[test]
fn an_app_that_comes_late_is_not_shut_out() {
    let mut matcher = Matcher::new();
    let mut apps = household();
    let rows = [
        ("lamps", "lights in the {} on"),
        ("jukebox", "play {} songs"),
        ("chef", "a recipe with {}"),
        ("mailman", "email {} about it"),
    ];
    for (name, text) in rows {
        for word in STRANGE {
            teach(&mut matcher, &text.replace("{}", word), name, Right, Weak);
        }
    }
    apps.push(app("forecast", "Tells the weather."));
    assert_eq!(chosen(&matcher, "what is the weather tomorrow", &apps), ["forecast"]);
    assert_eq!(chosen(&matcher, "play happy songs", &apps), ["jukebox"]);
}

#[test]
fn forgetting_brings_back_the_beginning() {
    let apps = household();
    let mut matcher = Matcher::new();
    let fresh = rank(&matcher, "fribble the lights", &apps);
    teach(&mut matcher, "fribble the lights", "chef", Right, Strong);
    teach(&mut matcher, "fribble the lights", "lamps", Wrong, Strong);
    assert_eq!(matcher.lessons("Chef"), 1);
    assert_ne!(rank(&matcher, "fribble the lights", &apps), fresh);
    matcher.forget("chef");
    matcher.forget("LAMPS");
    assert_eq!(rank(&matcher, "fribble the lights", &apps), fresh);
    assert_eq!((matcher.learned("chef"), matcher.lessons("chef")), (None, 0));
}

#[test]
fn what_cannot_be_read_changes_nothing() {
    let mut matcher = Matcher::new();
    teach(&mut matcher, "fribble", "chef", Right, Strong);
    let before = matcher.learned("chef");
    assert!(matcher.restore("chef", b"{").is_err());
    assert_eq!(matcher.learned("chef"), before);
}
