use super::{SoftmaxClassifier, TrainingSample};
use crate::features::{FeatureHash, features};
use crate::tokenizer::tokenize;

fn of(text: &str) -> Vec<FeatureHash> {
    features(&tokenize(text))
}

fn train(samples: &[(&str, usize)], classes: usize) -> SoftmaxClassifier {
    let inputs: Vec<Vec<FeatureHash>> = samples.iter().map(|(text, _)| of(text)).collect();
    let samples: Vec<TrainingSample<'_>> = samples
        .iter()
        .zip(&inputs)
        .map(|((_, class), features)| TrainingSample { features, class: *class, weight: 1.0 })
        .collect();
    SoftmaxClassifier::train(&samples, classes)
}

#[test]
fn what_was_taught_is_told_apart() {
    let classifier = train(
        &[
            ("play some jazz", 0),
            ("put on rock music", 0),
            ("buy stamps", 1),
            ("order more stamps and envelopes", 1),
            ("water the tomatoes", 2),
        ],
        3,
    );
    let jazz = classifier.scores(&of("jazz music please"));
    assert!(jazz[0] > 0.5 && jazz[1] < 0.0 && jazz[2] < 0.0, "{jazz:?}");
    let stamps = classifier.scores(&of("we need envelopes"));
    assert!(stamps[1] > stamps[0] && stamps[1] > stamps[2], "{stamps:?}");
}

#[test]
fn without_samples_every_score_is_zero() {
    assert_eq!(train(&[], 2).scores(&of("anything")), [0.0, 0.0]);
    assert_eq!(train(&[], 0).scores(&of("anything")), [0.0; 0]);
    assert_eq!(train(&[("jazz", 0)], 2).scores(&of("quartz")), [0.0, 0.0]);
}

#[test]
fn training_twice_gives_the_same() {
    let samples = [("play some jazz", 0), ("buy stamps", 1), ("sell stamps", 1)];
    assert_eq!(train(&samples, 2).weights, train(&samples, 2).weights);
}
