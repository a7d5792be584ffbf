use super::*;

fn entry(index: Option<usize>, embedding: &[f32]) -> EmbeddingEntry {
    EmbeddingEntry { index, embedding: embedding.to_vec() }
}

#[test]
fn vectors_are_put_in_the_order_of_the_texts() {
    let mixed = vec![entry(Some(1), &[2.0]), entry(Some(0), &[1.0])];
    assert_eq!(ordered_vectors(mixed, 2), Ok(vec![vec![1.0], vec![2.0]]));
    let unnumbered = vec![entry(None, &[1.0]), entry(None, &[2.0])];
    assert_eq!(ordered_vectors(unnumbered, 2), Ok(vec![vec![1.0], vec![2.0]]));
    assert_eq!(ordered_vectors(vec![], 0), Ok(vec![]));
}

#[test]
fn vectors_that_cannot_be_used() {
    for (entries, wanted, reason) in [
        (vec![entry(Some(0), &[1.0])], 2, "the provider left out a vector"),
        (vec![entry(Some(5), &[1.0])], 1, "the provider sent a vector that was not requested"),
        (
            vec![entry(None, &[1.0]), entry(None, &[1.0, 2.0])],
            2,
            "the provider's vectors differ in length or are not numbers",
        ),
        (vec![entry(None, &[])], 1, "the provider's vectors differ in length or are not numbers"),
        (vec![entry(None, &[f32::NAN])], 1, "the provider's vectors differ in length or are not numbers"),
    ] {
        assert_eq!(ordered_vectors(entries, wanted), Err(embed_error(reason)));
    }
}
