use super::*;

fn kept(bytes: &[u8], piece: usize) -> StreamExcerpt {
    let mut kept = StreamExcerpt::default();
    for piece in bytes.chunks(piece) {
        kept.push(piece);
    }
    kept
}

#[test]
fn short_output_is_kept_whole() {
    for size in [0, 1, KEPT_BYTES - 1, KEPT_BYTES, KEPT_BYTES + 1, 2 * KEPT_BYTES] {
        let text: String = ('a'..='z').cycle().take(size).collect();
        assert_eq!(kept(text.as_bytes(), 1000).text(2 * KEPT_BYTES), text, "{size}");
    }
}

#[test]
fn of_long_output_both_ends_are_kept_and_the_rest_is_counted() {
    for piece in [7, 1000, 8192, 1_000_000] {
        let text = format!("start{}end", "x".repeat(1_000_000));
        let shown = kept(text.as_bytes(), piece).text(100);
        let expected = format!("start{}\n[… 999908 bytes left out …]\n{}end", "x".repeat(45), "x".repeat(47));
        assert_eq!(shown, expected, "pieces of {piece}");
    }
}

#[test]
fn cuts_fall_between_characters_and_bad_bytes_are_replaced() {
    let text = "€".repeat(100_000);
    let shown = kept(text.as_bytes(), 8192).text(100);
    assert_eq!(shown.matches('€').count(), 32);
    assert!(shown.len() < 200, "{shown}");
    assert_eq!(kept(b"a\xff\xfeb", 2).text(100), "a\u{fffd}\u{fffd}b");
    assert!(kept(&[0xff; 200_000], 8192).text(1000).len() < 1100);
}
