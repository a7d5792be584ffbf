use super::{
    LabelPolarity, LabelStrength, MAX_NEGATIVE, MOST_APPS, MOST_STRONG, MOST_WEAK, SETTLE_STEPS, TrainedModel,
    TrainingData, TrainingExample, settled,
};
use crate::features::features;
use crate::tokenizer::tokenize;

use LabelPolarity::{Negative, Positive};
use LabelStrength::{Strong, Weak};

fn kept(learned: &TrainedModel, app: &str) -> Vec<(String, LabelPolarity, LabelStrength)> {
    let lessons = learned.training_data(app).unwrap_or_default();
    lessons.examples.into_iter().map(|one| (one.text, one.polarity, one.strength)).collect()
}

fn one(text: &str, verdict: LabelPolarity, strength: LabelStrength) -> Vec<(String, LabelPolarity, LabelStrength)> {
    vec![(text.to_owned(), verdict, strength)]
}

#[test]
fn the_same_words_are_kept_once_and_a_person_has_the_last_word() {
    let mut learned = TrainedModel::default();
    let mut say = |text: &str, verdict, strength, expected: (LabelPolarity, LabelStrength)| {
        learned.add("Lamp", text, verdict, strength);
        assert_eq!(kept(&learned, "lamp"), one("lights on at 0", expected.0, expected.1), "{text}");
    };
    say("Lights on at 7", Positive, Weak, (Positive, Weak));
    say("lights ON at 8!", Positive, Weak, (Positive, Weak));
    say("lights on at 9", Positive, Strong, (Positive, Strong));
    say("lights on at 9", Negative, Weak, (Positive, Strong));
    say("lights on at 9", Negative, Strong, (Negative, Strong));
    assert_eq!(learned.label_count("LAMP"), 5);
}

#[test]
fn every_kind_has_its_own_bound() {
    let kinds =
        [("a", Positive, Strong, MOST_STRONG), ("b", Negative, Strong, MAX_NEGATIVE), ("c", Positive, Weak, MOST_WEAK)];
    let examples = kinds.iter().flat_map(|(kind, verdict, strength, most)| {
        (0..=*most as u64).map(move |number| TrainingExample {
            number,
            text: format!("{kind} {}", spelled(number)),
            polarity: *verdict,
            strength: *strength,
        })
    });
    let mut learned = TrainedModel::default();
    learned.replace_training_data("lamp", TrainingData { label_count: 1600, examples: examples.collect() });
    let kept = kept(&learned, "lamp");
    for (kind, verdict, strength, most) in kinds {
        let left: Vec<&str> =
            kept.iter().filter(|one| (one.1, one.2) == (verdict, strength)).map(|one| one.0.as_str()).collect();
        assert_eq!(left.len(), most, "{kind}");
        // The oldest was dropped.
        assert_eq!(left.first().copied(), Some(format!("{kind} b").as_str()));
    }
}

#[test]
fn names_without_end_teach_nothing() {
    let mut learned = TrainedModel::default();
    for number in 0..MOST_APPS as u64 + 5 {
        learned.replace_training_data(&spelled(number), TrainingData::default());
    }
    learned.add("one-more", "lights on", Positive, Strong);
    assert_eq!(learned.apps.len(), MOST_APPS);
    assert_eq!(learned.training_data("one-more"), None);
}

#[test]
fn what_is_forgotten_is_gone() {
    let mut learned = TrainedModel::default();
    learned.add("lamp", "lights on", Positive, Strong);
    learned.add("radio", "play jazz", Positive, Weak);
    let before = learned.evidence(&features(&tokenize("play jazz")), None, &["radio"]);
    learned.add("lamp", "play jazz louder", Negative, Strong);
    learned.forget("LAMP");
    assert_eq!(learned.training_data("lamp"), None);
    assert_eq!(learned.label_count("lamp"), 0);
    let mut fresh = TrainedModel::default();
    fresh.add("radio", "play jazz", Positive, Weak);
    let features = features(&tokenize("play jazz"));
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
    assert!(SETTLE_STEPS.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1));
}

#[test]
fn nothing_is_learned_from_nothing() {
    let mut learned = TrainedModel::default();
    for text in ["", "  ", "!?", "\u{200b}"] {
        learned.add("lamp", text, Positive, Strong);
    }
    assert_eq!(learned.training_data("lamp"), None);
}

/// Numbers would all normalise to one word.
fn spelled(number: u64) -> String {
    number.to_string().bytes().map(|digit| char::from(b'a' + digit - b'0')).collect()
}
