use super::{Lesson, Linear};
use crate::app::matcher::features::{Feature, features};
use crate::app::matcher::words::words;

fn of(text: &str) -> Vec<Feature> {
    features(&words(text))
}

fn train(lessons: &[(&str, usize, bool)], classes: usize) -> Linear {
    let inputs: Vec<Vec<Feature>> = lessons.iter().map(|(text, _, _)| of(text)).collect();
    let lessons: Vec<Lesson<'_>> = lessons
        .iter()
        .zip(&inputs)
        .map(|((_, class, is_right), features)| Lesson { features, class: *class, is_right: *is_right, weight: 1.0 })
        .collect();
    Linear::train(&lessons, classes)
}

#[test]
fn what_was_taught_is_told_apart() {
    let linear = train(
        &[
            ("play some jazz", 0, true),
            ("put on rock music", 0, true),
            ("buy stamps", 1, true),
            ("order more stamps and envelopes", 1, true),
            ("water the tomatoes", 2, true),
        ],
        3,
    );
    let jazz = linear.scores(&of("jazz music please"));
    assert!(jazz[0] > 0.5 && jazz[1] < 0.0 && jazz[2] < 0.0, "{jazz:?}");
    let stamps = linear.scores(&of("we need envelopes"));
    assert!(stamps[1] > stamps[0] && stamps[1] > stamps[2], "{stamps:?}");
}

#[test]
fn a_wrong_one_is_pushed_down_and_nobody_else_chosen() {
    let linear = train(&[("feed the parrot", 0, false)], 3);
    let scores = linear.scores(&of("feed the parrot"));
    assert!(scores[0] < -0.1, "{scores:?}");
    assert_eq!(scores[1], scores[2]);
}

#[test]
fn without_lessons_it_says_nothing() {
    assert_eq!(train(&[], 2).scores(&of("anything")), [0.0, 0.0]);
    assert_eq!(train(&[], 0).scores(&of("anything")), [0.0; 0]);
    assert_eq!(train(&[("jazz", 0, true)], 2).scores(&of("quartz")), [0.0, 0.0]);
}

#[test]
fn training_twice_gives_the_same() {
    let lessons = [("play some jazz", 0, true), ("buy stamps", 1, true), ("sell stamps", 1, false)];
    assert_eq!(train(&lessons, 2).weights, train(&lessons, 2).weights);
}
