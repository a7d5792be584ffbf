use super::{SoftmaxClassifier, TrainingSample};
use crate::features::{FeatureHash, features};
use crate::tokenizer::tokenize;

fn of(text: &str) -> Vec<FeatureHash> {
    features(&tokenize(text))
}

fn train(lessons: &[(&str, usize)], classes: usize) -> SoftmaxClassifier {
    let inputs: Vec<Vec<FeatureHash>> = lessons.iter().map(|(text, _)| of(text)).collect();
    let lessons: Vec<TrainingSample<'_>> = lessons
        .iter()
        .zip(&inputs)
        .map(|((_, class), features)| TrainingSample { features, class: *class, weight: 1.0 })
        .collect();
    SoftmaxClassifier::train(&lessons, classes)
}

#[test]
fn what_was_taught_is_told_apart() {
    let linear = train(
        &[
            ("play some jazz", 0),
            ("put on rock music", 0),
            ("buy stamps", 1),
            ("order more stamps and envelopes", 1),
            ("water the tomatoes", 2),
        ],
        3,
    );
    let jazz = linear.scores(&of("jazz music please"));
    assert!(jazz[0] > 0.5 && jazz[1] < 0.0 && jazz[2] < 0.0, "{jazz:?}");
    let stamps = linear.scores(&of("we need envelopes"));
    assert!(stamps[1] > stamps[0] && stamps[1] > stamps[2], "{stamps:?}");
}

#[test]
fn without_lessons_it_says_nothing() {
    assert_eq!(train(&[], 2).scores(&of("anything")), [0.0, 0.0]);
    assert_eq!(train(&[], 0).scores(&of("anything")), [0.0; 0]);
    assert_eq!(train(&[("jazz", 0)], 2).scores(&of("quartz")), [0.0, 0.0]);
}

#[test]
fn training_twice_gives_the_same() {
    let lessons = [("play some jazz", 0), ("buy stamps", 1), ("sell stamps", 1)];
    assert_eq!(train(&lessons, 2).weights, train(&lessons, 2).weights);
}
