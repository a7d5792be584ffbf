use proptest::prelude::*;

use super::*;

#[test]
fn estimates_lean_high_on_known_texts() {
    // (text, tokens as counted by a common BPE tokenizer)
    for (text, known) in [
        ("", 0),
        ("Hello, how are you?", 6),
        ("The quick brown fox jumps over the lazy dog.", 10),
        ("2026-11-15T12:00:00Z", 15),
        ("fn main() { println!(\"{}\", 42); }", 13),
        ("Привет, как дела?", 6),
        ("你好世界", 4),
    ] {
        let estimated = estimate(text);
        assert!(estimated >= known, "{text}: {estimated} < {known}");
        assert!(estimated <= known * 2 + 4, "{text}: {estimated} is far above {known}");
    }
}

proptest! {
    #[test]
    fn a_cut_fits_and_is_as_long_as_it_can_be(text in ".{0,200}", limit in 0u64..60) {
        let cut = truncate(&text, limit);
        prop_assert!(estimate(cut) <= limit);
        if let Some(next) = text.get(cut.len()..).and_then(|rest| rest.chars().next()) {
            let longer = &text[..cut.len() + next.len_utf8()];
            prop_assert!(estimate(longer) > limit);
        }
    }

    #[test]
    fn a_longer_text_never_counts_less(text in ".{0,100}", more in ".{0,100}") {
        let longer = format!("{text}{more}");
        prop_assert!(estimate(&longer) >= estimate(&text));
    }
}
