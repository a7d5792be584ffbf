use super::{
    Example, Learned, Lessons, MOST_APPS, MOST_STRONG, MOST_WEAK, MOST_WRONG, STEPS, Strength, Verdict, settled,
};
use crate::app::matcher::features::features;
use crate::app::matcher::words::words;

use Strength::{Strong, Weak};
use Verdict::{Right, Wrong};

fn kept(learned: &Learned, app: &str) -> Vec<(String, Verdict, Strength)> {
    let lessons = learned.lessons(app).unwrap_or_default();
    lessons.examples.into_iter().map(|one| (one.text, one.verdict, one.strength)).collect()
}

fn one(text: &str, verdict: Verdict, strength: Strength) -> Vec<(String, Verdict, Strength)> {
    vec![(text.to_owned(), verdict, strength)]
}

#[test]
fn the_same_words_are_kept_once_and_a_person_has_the_last_word() {
    let mut learned = Learned::default();
    let mut say = |text: &str, verdict, strength, expected: (Verdict, Strength)| {
        learned.add("Lamp", text, verdict, strength);
        assert_eq!(kept(&learned, "lamp"), one("lights on at 0", expected.0, expected.1), "{text}");
    };
    say("Lights on at 7", Right, Weak, (Right, Weak));
    say("lights ON at 8!", Right, Weak, (Right, Weak));
    say("lights on at 9", Right, Strong, (Right, Strong));
    say("lights on at 9", Wrong, Weak, (Right, Strong));
    say("lights on at 9", Wrong, Strong, (Wrong, Strong));
    assert_eq!(learned.count("LAMP"), 5);
}

#[test]
fn every_kind_has_its_own_bound() {
    let kinds = [("a", Right, Strong, MOST_STRONG), ("b", Wrong, Strong, MOST_WRONG), ("c", Right, Weak, MOST_WEAK)];
    let examples = kinds.iter().flat_map(|(kind, verdict, strength, most)| {
        (0..=*most as u64).map(move |number| Example {
            number,
            text: format!("{kind} {}", spelled(number)),
            verdict: *verdict,
            strength: *strength,
        })
    });
    let mut learned = Learned::default();
    learned.replace("lamp", Lessons { count: 1600, examples: examples.collect() });
    let kept = kept(&learned, "lamp");
    for (kind, verdict, strength, most) in kinds {
        let left: Vec<&str> =
            kept.iter().filter(|one| (one.1, one.2) == (verdict, strength)).map(|one| one.0.as_str()).collect();
        assert_eq!(left.len(), most, "{kind}");
        // The oldest went.
        assert_eq!(left.first().copied(), Some(format!("{kind} b").as_str()));
    }
}

#[test]
fn names_without_end_teach_nothing() {
    let mut learned = Learned::default();
    for number in 0..MOST_APPS as u64 + 5 {
        learned.replace(&spelled(number), Lessons::default());
    }
    learned.add("one-more", "lights on", Right, Strong);
    assert_eq!(learned.apps.len(), MOST_APPS);
    assert_eq!(learned.lessons("one-more"), None);
}

#[test]
fn what_is_forgotten_is_gone() {
    let mut learned = Learned::default();
    learned.add("lamp", "lights on", Right, Strong);
    learned.add("radio", "play jazz", Right, Weak);
    let before = learned.evidence(&features(&words("play jazz")), None, &["radio"]);
    learned.add("lamp", "play jazz louder", Wrong, Strong);
    learned.forget("LAMP");
    assert_eq!(learned.lessons("lamp"), None);
    assert_eq!(learned.count("lamp"), 0);
    let mut fresh = Learned::default();
    fresh.add("radio", "play jazz", Right, Weak);
    let features = features(&words("play jazz"));
    assert_eq!(
        learned.evidence(&features, None, &["lamp", "radio"]),
        fresh.evidence(&features, None, &["lamp", "radio"])
    );
    assert_ne!(before, fresh.evidence(&features, None, &["radio"]));
}

#[test]
fn acknowledgements_settle_in_steps() {
    for (count, expected) in [(0, 0), (5, 5), (9, 8), (17, 16), (50, 48), (127, 120), (128, 128), (1000, 992)] {
        assert_eq!(settled(count), expected, "{count}");
    }
    assert!(STEPS.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1));
}

#[test]
fn nothing_is_learned_from_nothing() {
    let mut learned = Learned::default();
    for text in ["", "  ", "!?", "\u{200b}"] {
        learned.add("lamp", text, Right, Strong);
    }
    assert_eq!(learned.lessons("lamp"), None);
}

/// Numbers would all be one word.
fn spelled(number: u64) -> String {
    number.to_string().bytes().map(|digit| char::from(b'a' + digit - b'0')).collect()
}
