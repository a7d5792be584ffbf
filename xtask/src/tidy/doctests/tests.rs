use super::*;

#[test]
fn only_blocks_that_rustdoc_takes_for_rust_are_found() {
    for (text, lines) in [
        ("/// ```\n/// let a = 1;\n/// ```\n", vec![1]),
        ("//! Words.\n//! ```rust,no_run\n//! ```\n", vec![2]),
        ("    /// ``` edition2024\n    /// ```\n", vec![1]),
        ("/// ```text\n/// a picture\n/// ```\n", vec![]),
        ("/// ```toml\n/// [a]\n/// ```\nstruct A;\n/// ```\n/// ```\n", vec![5]),
        ("// ```\n// an ordinary comment\n// ```\n", vec![]),
        ("let text = \"```\";\n", vec![]),
    ] {
        assert_eq!(examples(text), lines, "{text}");
    }
}
