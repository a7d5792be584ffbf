use super::*;
use crate::tidy::testing::with_files;

fn lines(text: String) -> Vec<usize> {
    check(&with_files(&[("a.md", &text)])).iter().map(|problem| problem.line).collect()
}

#[test]
fn each_place_is_found_wherever_a_path_can_start() {
    for place in PLACES {
        for text in
            [format!("\ncd {place}x"), format!("\n\"{place}x\""), format!("\n{place}x"), format!("\nfile://{place}x")]
        {
            assert_eq!(lines(text.clone()), [2], "{text}");
        }
    }
}

#[test]
fn parts_of_other_paths_are_fine() {
    for place in PLACES {
        for text in
            [format!("~{place}x"), format!("https://example.org{place}"), format!("src{place}x"), format!("..{place}")]
        {
            assert!(lines(text.clone()).is_empty(), "{text}");
        }
    }
}
