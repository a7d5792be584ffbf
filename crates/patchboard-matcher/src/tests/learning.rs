use super::{app, chosen, confidence, household, rank, train};
use crate::{LabelPolarity, LabelStrength, Matcher, NO_APP};

use LabelPolarity::{Negative, Positive};
use LabelStrength::{Strong, Weak};

/// Words that no description and no lexicon contains.
const STRANGE: &[&str] =
    &["fribble", "gonzle", "trumpf", "quaddle", "snorf", "wibbet", "plonker", "drozz", "yimmer", "vosk"];

#[test]
fn a_few_strong_labels_move_an_utterance() {
    let mut matcher = Matcher::new();
    let apps = household();
    assert_eq!(chosen(&matcher, "fribble the gonzle", &apps), [""; 0]);
    for text in ["fribble the gonzle", "please fribble it", "gonzle and fribble now"] {
        train(&mut matcher, text, "chef", Positive, Strong);
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
    train(&mut matcher, text, "lamps", Negative, Strong);
    let after = confidence(&matcher, text, &apps, "lamps");
    assert!(after < before / 2.0, "{before} {after}");
    train(&mut matcher, text, "notebook", Positive, Strong);
    assert_eq!(chosen(&matcher, text, &apps), ["notebook"]);
    // Other rooms still go to `lamps`.
    assert_eq!(rank(&matcher, "turn on the kitchen lamp", &apps).candidates[0].app, "lamps".into());
}

#[test]
fn a_refusal_makes_nobody_else_more_probable() {
    let apps = household();
    let texts =
        ["play the lights", "zxqv blorp wub", "write a recipe to Anna", "switch off the radio in the hall", "note"];
    let shares = |matcher: &Matcher, text: &str| -> Vec<f32> {
        apps.iter().map(|app| confidence(matcher, text, &apps, &app.name)).collect()
    };
    for text in texts {
        for other in texts {
            let mut matcher = Matcher::new();
            train(&mut matcher, "play jazz in the hall", "jukebox", Positive, Weak);
            train(&mut matcher, "mail the recipe", "mailman", Positive, Weak);
            for refusing in &apps {
                let before = shares(&matcher, other);
                train(&mut matcher, text, &refusing.name, Negative, Strong);
                let after = shares(&matcher, other);
                let rose = after.iter().zip(&before).any(|(after, before)| *after > before + 1e-6);
                assert!(!rose, "{text} / {other}, refused by {}: {before:?} {after:?}", refusing.name);
            }
        }
    }
}

#[test]
fn what_is_given_up_is_for_none_of_them_until_an_app_gets_it() {
    let mut matcher = Matcher::new();
    let apps = household();
    let text = "turn on the lamp of the lighthouse";
    let before = confidence(&matcher, text, &apps, "lamps");
    train(&mut matcher, text, NO_APP, Positive, Strong);
    let after = confidence(&matcher, text, &apps, "lamps");
    assert!(after < 0.1 && before > 0.3, "{before} {after}");
    let like = "turn on the lamp of that lighthouse again";
    assert!(confidence(&matcher, like, &apps, "lamps") < before);
    assert_eq!(chosen(&matcher, "switch off the lights", &apps), ["lamps"]);
    train(&mut matcher, text, "lamps", Positive, Strong);
    assert_eq!(chosen(&matcher, text, &apps), ["lamps"]);
    let kept = matcher.export_training(NO_APP);
    train(&mut matcher, text, NO_APP, Positive, Strong);
    assert_ne!(matcher.export_training(NO_APP), kept);
    matcher.forget(NO_APP);
    assert_eq!(matcher.export_training(NO_APP), None);
}

#[test]
fn a_thousand_acknowledgements_do_not_drown_ten_words_of_the_user() {
    let mut matcher = Matcher::new();
    let apps = [app("one", "Does this."), app("two", "Does that.")];
    for number in 0..1000 {
        let (first, second) = (STRANGE[number % 10], STRANGE[number / 10 % 10]);
        train(&mut matcher, &format!("zorp {first} {second} {}", STRANGE[number / 100]), "one", Positive, Weak);
    }
    for word in STRANGE {
        train(&mut matcher, &format!("zorp the {word} flurb"), "two", Positive, Strong);
    }
    assert_eq!(chosen(&matcher, "zorp the snorf flurb", &apps), ["two"]);
    assert_eq!(rank(&matcher, "zorp my quaddle flurb", &apps).candidates[0].app, "two".into());
    // As much as the stored form of an example takes besides its text.
    const RECORD_BYTES: usize = 64;
    let stored = matcher.export_training("one").unwrap();
    assert!(stored.examples.iter().map(|example| RECORD_BYTES + example.text.len()).sum::<usize>() < 64 * 1024);
}

#[test]
fn what_a_person_said_of_the_same_words_wins() {
    let mut matcher = Matcher::new();
    let apps = household();
    for _ in 0..50 {
        train(&mut matcher, "fribble the gonzle", "chef", Positive, Weak);
    }
    train(&mut matcher, "fribble the gonzle", "mailman", Positive, Strong);
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
            train(&mut matcher, &text.replace("{}", word), name, Positive, Weak);
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
    train(&mut matcher, "fribble the lights", "chef", Positive, Strong);
    train(&mut matcher, "fribble the lights", "lamps", Negative, Strong);
    assert_eq!(matcher.label_count("Chef"), 1);
    assert_ne!(rank(&matcher, "fribble the lights", &apps), fresh);
    matcher.forget("chef");
    matcher.forget("LAMPS");
    assert_eq!(rank(&matcher, "fribble the lights", &apps), fresh);
    assert_eq!((matcher.export_training("chef"), matcher.label_count("chef")), (None, 0));
}
