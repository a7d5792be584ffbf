use super::{CompactVector, TABLE, cosine, text_vector, word_vector};
use crate::tokenizer::tokenize;

fn nearness(one: &str, other: &str) -> f32 {
    let (one, _) = word_vector(one).expect(one);
    let (other, _) = word_vector(other).expect(other);
    cosine(&one, &other)
}

#[test]
fn the_table_is_sorted_and_every_word_is_found() {
    let mut previous: &[u8] = b"";
    for at in 0..TABLE.len() {
        let text = TABLE.text(at);
        assert!(previous < text, "{previous:?} {text:?}");
        previous = text;
        assert!(TABLE.find(std::str::from_utf8(text).unwrap()).is_some(), "{text:?}");
    }
    assert!(TABLE.len() > 30_000);
    for unknown in ["", "zxqvblorp", "\u{0}", "zzzzzzzzzzzz", "明日"] {
        assert!(word_vector(unknown).is_none(), "{unknown}");
    }
}

#[test]
fn like_words_point_in_like_directions() {
    for (word, near, far) in [
        ("doctor", "physician", "guitar"),
        ("invoice", "bill", "garden"),
        ("rechnung", "invoice", "dog"),
        ("chien", "dog", "invoice"),
        ("cocinar", "cook", "train"),
    ] {
        assert!(nearness(word, near) > nearness(word, far) + 0.2, "{word} {near} {far}");
    }
}

#[test]
fn compound_words_are_the_sum_of_their_parts() {
    assert!(nearness("einkaufsliste", "shopping") > 0.3);
    assert!(nearness("einkaufsliste", "list") > 0.3);
    assert!(word_vector("brxfghk").is_none());
}

#[test]
fn a_compact_vector_says_the_same() {
    let one = text_vector(&tokenize("Book a table for two at the restaurant")).unwrap();
    let other = text_vector(&tokenize("reserve seats for dinner")).unwrap();
    let compact = CompactVector::new(&one).cosine(&CompactVector::new(&other));
    assert!((compact - cosine(&one, &other)).abs() < 0.02);
    assert!(text_vector(&tokenize("the of and 42")).is_none());
}
