use proptest::prelude::*;

use super::RepetitionDetector;

/// Hears the text in pieces of so many characters; gives how many characters it took.
fn bytes_read(text: &str, pieces_of: usize) -> Option<usize> {
    let mut repetition = RepetitionDetector::default();
    let mut taken = 0;
    let characters: Vec<char> = text.chars().collect();
    for piece in characters.chunks(pieces_of) {
        taken += piece.len();
        if repetition.push(&piece.iter().collect::<String>()) {
            return Some(taken);
        }
    }
    None
}

#[test]
fn endless_texts_are_cut_soon() {
    let sentence = "The fox looked at the crow and said that it was very beautiful. ";
    let paragraph = format!("{sentence}He thought about it for a long time, and then he went home.\n\n");
    for (text, at_most) in [
        ("ha ".repeat(2000), 320),
        ("!".repeat(2000), 320),
        (sentence.repeat(100), 360),
        (format!("Once upon a time there was a fox. {}", sentence.repeat(100)), 400),
        (paragraph.repeat(50), 700),
        ("日本語のモデルも同じことを繰り返します。".repeat(100), 200),
        // Only the number changes.
        (
            (1..200).map(|n| format!("Step {n}: repeat the step before this one until the work is done.\n")).collect(),
            420,
        ),
        // The same numbers over and over.
        ("10, 20, 30, ".repeat(100), 400),
    ] {
        for pieces_of in [1, 7, 4096] {
            let cut = bytes_read(&text, pieces_of);
            let at_most = if pieces_of > at_most { pieces_of } else { at_most + pieces_of };
            assert!(cut.is_some_and(|cut| cut <= at_most), "{cut:?} of {at_most} in pieces of {pieces_of}: {text:.60}");
        }
    }
}

#[test]
fn ordinary_texts_are_left_alone() {
    let count: String = (1..=300).map(|n| format!("{n}, ")).collect();
    let table: String = (1..60).map(|n| format!("| {n} | {} | {} |\n", n * n, n * n * n)).collect();
    let tests: String = (1..40).map(|n| format!("    assert_eq!(f({n}), {});\n", n * 7)).collect();
    let rule = format!("Heading\n{}\nText below it.\n", "=".repeat(200));
    let song =
        "Row, row, row your boat, gently down the stream. Merrily, merrily, merrily, merrily, life is but a dream. "
            .repeat(3);
    let zeros = format!("let zeros = [{}];", "0, ".repeat(64));
    for text in [&count, &table, &tests, &rule, &song, &zeros, &String::new()] {
        for pieces_of in [1, 5, 4096] {
            assert_eq!(bytes_read(text, pieces_of), None, "{text:.60}");
        }
    }
}

proptest! {
    /// Words in an order that never comes back are no repetition, however few words there are.
    #[test]
    fn texts_without_a_period_are_left_alone(words in proptest::collection::vec("[a-e]{2,6}", 60..300)) {
        // A growing run of one word breaks every period.
        let text: String = words.iter().enumerate().map(|(index, word)| format!("{word}{} ", "z".repeat(index % 29))).collect();
        prop_assert_eq!(bytes_read(&text, 3), None);
    }

    #[test]
    fn whatever_is_repeated_often_enough_is_noticed(unit in "[a-z ,.]{1,120}", before in "[a-z ]{0,80}") {
        let text = format!("{before}{}", unit.repeat(1200 / unit.len() + 5));
        prop_assert!(bytes_read(&text, 4).is_some());
    }

    #[test]
    fn any_input_is_survived(pieces in proptest::collection::vec(".{0,300}", 0..20)) {
        let mut repetition = RepetitionDetector::default();
        for piece in pieces {
            repetition.push(&piece);
        }
    }
}
