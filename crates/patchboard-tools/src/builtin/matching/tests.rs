use proptest::prelude::*;

use super::*;

#[test]
fn lines_are_found_as_closely_as_asked() {
    let lines = ["fn a() {", "    let x = 1;  ", "\tlet  y = \u{201c}2\u{201d};", "}", "", "}"];
    let cases = [
        (&["}"][..], MatchTolerance::Exact, &[3, 5][..]),
        (&["let x = 1;"], MatchTolerance::LineEnds, &[]),
        (&["    let x = 1;"], MatchTolerance::Exact, &[]),
        (&["    let x = 1;"], MatchTolerance::LineEnds, &[1]),
        (&["let x = 1;"], MatchTolerance::Indentation, &[1]),
        (&["let y = \"2\";"], MatchTolerance::Indentation, &[]),
        (&["let y = \"2\";"], MatchTolerance::Blanks, &[2]),
        (&["}", "", "}"], MatchTolerance::Exact, &[3]),
        (&["}", "}"], MatchTolerance::Blanks, &[]),
        (&[], MatchTolerance::Exact, &[]),
    ];
    for (wanted, closeness, expected) in cases {
        assert_eq!(find_runs(&lines, wanted, closeness), expected, "{wanted:?} {closeness:?}");
    }
}

#[test]
fn new_lines_are_indented_as_the_text_is() {
    let cases = [
        (&[("a", "    a"), ("  b", "      b")][..], Some(&[("c", "    c"), ("   d", "       d"), ("", "")][..])),
        (&[("    a", "\ta"), ("        b", "\t\tb")], Some(&[("    c", "\tc"), ("            d", "\t\t    d")])),
        (&[("    a", "a")], Some(&[("      b", "  b"), ("  c", "  c")])),
        (&[("a", "  a"), ("b", "    b")], None),
        (&[("", "  "), ("a", "a")], Some(&[("b", "b")])),
    ];
    for (pairs, expected) in cases {
        let indent = IndentMap::from_pairs(pairs.iter().copied());
        assert_eq!(indent.is_some(), expected.is_some(), "{pairs:?}");
        for (told, real) in expected.unwrap_or_default() {
            assert_eq!(indent.as_ref().unwrap().apply(told), *real, "{pairs:?}");
        }
    }
}

proptest! {
    #[test]
    fn runs_are_what_looking_everywhere_finds(
        lines in prop::collection::vec("[ab]", 0..40),
        wanted in prop::collection::vec("[ab]", 1..6),
    ) {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
        let everywhere = lines.windows(wanted.len()).enumerate().filter(|(_, window)| *window == wanted);
        let expected: Vec<usize> = everywhere.map(|(start, _)| start).collect();
        prop_assert_eq!(find_runs(&lines, &wanted, MatchTolerance::Exact), expected);
    }
}
