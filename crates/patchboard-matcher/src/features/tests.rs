use super::{MAX_FEATURES, features};
use crate::tokenizer::tokenize;

#[test]
fn they_are_sorted_unique_and_bounded() {
    let found = features(&tokenize(&"lights in the kitchen ".repeat(500)));
    assert!(found.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(found.len() <= MAX_FEATURES);
}

#[test]
fn equal_but_for_numbers_and_case_is_equal() {
    assert_eq!(features(&tokenize("Set an alarm for 7")), features(&tokenize("set an ALARM for 23")));
    assert_ne!(features(&tokenize("set an alarm")), features(&tokenize("set a timer")));
}

#[test]
fn related_words_share_a_concept() {
    let umbrella = features(&tokenize("umbrella"));
    let drizzle = features(&tokenize("drizzle"));
    assert!(umbrella.iter().any(|feature| drizzle.contains(feature)));
}

#[test]
fn nothing_has_almost_no_features() {
    assert!(features(&[]).len() <= 1);
}
