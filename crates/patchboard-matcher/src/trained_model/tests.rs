use super::{
    LabelPolarity, LabelStrength, MAX_APPS, MAX_NEGATIVE, MAX_STRONG, MAX_WEAK, SETTLE_STEPS, TrainedModel,
    TrainingData, TrainingExample, settled,
};
use crate::features::features;
use crate::tokenizer::tokenize;

use LabelPolarity::{Negative, Positive};
use LabelStrength::{Strong, Weak};

fn stored(model: &TrainedModel, app: &str) -> Vec<(String, LabelPolarity, LabelStrength)> {
    let data = model.training_data(app).unwrap_or_default();
    data.examples.into_iter().map(|one| (one.text, one.polarity, one.strength)).collect()
}

fn one(text: &str, polarity: LabelPolarity, strength: LabelStrength) -> Vec<(String, LabelPolarity, LabelStrength)> {
    vec![(text.to_owned(), polarity, strength)]
}

#[test]
fn the_same_words_are_kept_once_and_a_person_has_the_last_word() {
    let mut model = TrainedModel::default();
    let mut add = |text: &str, polarity, strength, expected: (LabelPolarity, LabelStrength)| {
        model.add("Lamp", text, polarity, strength);
        assert_eq!(stored(&model, "lamp"), one("lights on at 0", expected.0, expected.1), "{text}");
    };
    add("Lights on at 7", Positive, Weak, (Positive, Weak));
    add("lights ON at 8!", Positive, Weak, (Positive, Weak));
    add("lights on at 9", Positive, Strong, (Positive, Strong));
    add("lights on at 9", Negative, Weak, (Positive, Strong));
    add("lights on at 9", Negative, Strong, (Negative, Strong));
    assert_eq!(model.label_count("LAMP"), 5);
}

#[test]
fn every_kind_has_its_own_bound() {
    let kinds =
        [("a", Positive, Strong, MAX_STRONG), ("b", Negative, Strong, MAX_NEGATIVE), ("c", Positive, Weak, MAX_WEAK)];
    let examples = kinds.iter().flat_map(|(kind, polarity, strength, limit)| {
        (0..=*limit as u64).map(move |number| TrainingExample {
            number,
            text: format!("{kind} {}", spelled(number)),
            polarity: *polarity,
            strength: *strength,
        })
    });
    let mut model = TrainedModel::default();
    model.replace_training_data("lamp", TrainingData { label_count: 1600, examples: examples.collect() });
    let stored = stored(&model, "lamp");
    for (kind, polarity, strength, limit) in kinds {
        let remaining: Vec<&str> =
            stored.iter().filter(|one| (one.1, one.2) == (polarity, strength)).map(|one| one.0.as_str()).collect();
        assert_eq!(remaining.len(), limit, "{kind}");
        // The oldest was dropped.
        assert_eq!(remaining.first().copied(), Some(format!("{kind} b").as_str()));
    }
}

#[test]
fn apps_past_the_bound_are_not_learned() {
    let mut model = TrainedModel::default();
    for number in 0..MAX_APPS as u64 + 5 {
        model.replace_training_data(&spelled(number), TrainingData::default());
    }
    model.add("one-more", "lights on", Positive, Strong);
    assert_eq!(model.apps.len(), MAX_APPS);
    assert_eq!(model.training_data("one-more"), None);
}

#[test]
fn what_is_forgotten_is_gone() {
    let mut model = TrainedModel::default();
    model.add("lamp", "lights on", Positive, Strong);
    model.add("radio", "play jazz", Positive, Weak);
    let before = model.evidence(&features(&tokenize("play jazz")), None, &["radio"]);
    model.add("lamp", "play jazz louder", Negative, Strong);
    model.forget("LAMP");
    assert_eq!(model.training_data("lamp"), None);
    assert_eq!(model.label_count("lamp"), 0);
    let mut fresh = TrainedModel::default();
    fresh.add("radio", "play jazz", Positive, Weak);
    let features = features(&tokenize("play jazz"));
    assert_eq!(
        model.evidence(&features, None, &["lamp", "radio"]),
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
    let mut model = TrainedModel::default();
    for text in ["", "  ", "!?", "\u{200b}"] {
        model.add("lamp", text, Positive, Strong);
    }
    assert_eq!(model.training_data("lamp"), None);
}

/// Numbers would all normalise to one word.
fn spelled(number: u64) -> String {
    number.to_string().bytes().map(|digit| char::from(b'a' + digit - b'0')).collect()
}
