use proptest::prelude::*;

use super::*;

#[test]
fn patterns_fit_paths() {
    let cases = [
        ("*.rs", &["a.rs", ".rs", "ü.rs"][..], &["src/a.rs", "a.rsx", "ars"][..]),
        ("**/*.rs", &["a.rs", "src/a.rs", "src/b/a.rs"], &["a.txt", "src/rs"]),
        ("src/**", &["src/a", "src/a/b"], &["src", "other/a", "xsrc/a"]),
        ("src/**/x/*.rs", &["src/x/a.rs", "src/a/b/x/a.rs"], &["src/a.rs", "src/x/y/a.rs"]),
        ("**", &["a", "a/b"], &[]),
        ("a**b", &["ab", "axb"], &["b", "a/b"]),
        ("?.md", &["a.md"], &["ab.md", "/.md", ".md"]),
        ("[a-cx].t", &["a.t", "c.t", "x.t"], &["d.t", "-.t"]),
        ("[!a-c]", &["d"], &["a", "dd"]),
        ("[]]", &["]"], &["["]),
        ("[a-]", &["a", "-"], &["b"]),
        ("[[&&b]", &["[", "&", "b"], &["a"]),
        ("{a,b/c}.ts", &["a.ts", "b/c.ts"], &["b.ts", "a,b/c.ts"]),
        ("*.{ts,t{s,}x}", &["a.ts", "a.tsx", "a.tx"], &["a.t"]),
        ("a[}]b,c", &["a}b,c"], &["ab"]),
        ("{,sub/}*.t", &["a.t", "sub/a.t"], &["x/a.t"]),
        (r"\*.md", &["*.md"], &["a.md"]),
        ("./a/b", &["a/b"], &["./a/b"]),
        ("a.b+c(d)", &["a.b+c(d)"], &["axb+c(d)"]),
    ];
    for (pattern, fitting, others) in cases {
        let compiled = PathPattern::new(pattern).unwrap();
        for path in fitting {
            assert!(compiled.matches(path), "{pattern} {path}");
        }
        for path in others {
            assert!(!compiled.matches(path), "{pattern} {path}");
        }
    }
}

#[test]
fn a_filter_without_folders_is_about_names() {
    for (pattern, path, fits) in [
        ("*.rs", "src/deep/a.rs", true),
        ("src/*.rs", "src/a.rs", true),
        ("src/*.rs", "src/deep/a.rs", false),
        ("a.rs", "src/ba.rs", false),
    ] {
        assert_eq!(PathPattern::new(pattern).unwrap().matches_filter(path), fits, "{pattern} {path}");
    }
}

#[test]
fn patterns_say_which_folders_matter() {
    for (pattern, way) in
        [("src/lib/*.rs", vec!["src", "lib"]), ("a/*/b/c", vec!["a"]), ("*.rs", vec![]), ("a", vec![])]
    {
        let pattern = PathPattern::new(pattern).unwrap();
        let demanded: Vec<_> = (0..4).map_while(|depth| pattern.required_folder(depth)).collect();
        assert_eq!(demanded, way);
    }
}

#[test]
fn what_is_no_pattern_is_told_why() {
    let cases = [
        ("../a", "`../a` holds `..`, which leads out of the folder searched"),
        ("a/../b", "`a/../b` holds `..`, which leads out of the folder searched"),
        ("/etc/*", "`/etc/*` is absolute: patterns are relative to the folder searched"),
        ("a[b", "`a[b` is not a pattern: a `[` is not closed"),
        ("a{b", "`a{b` is not a pattern: a `{` is not closed"),
        ("[b-a]", "`[b-a]` is not a pattern: a range in `[…]` runs backwards"),
        ("a\\", "`a\\` is not a pattern: nothing follows `\\`"),
        ("a}b", "`a}b` is not a pattern: a `}` was never opened: write `[}]` for the character"),
    ];
    for (pattern, expected) in cases {
        assert_eq!(PathPattern::new(pattern).unwrap_err(), expected);
    }
    assert!(PathPattern::new("a..b").is_ok(), "dots in a name are just dots");
    let nested = "{".repeat(MAX_PATTERN_CHARACTERS / 2) + &"}".repeat(MAX_PATTERN_CHARACTERS / 2);
    assert!(PathPattern::new(&nested).is_err(), "too deep for the regular expression, and no panic");
}

proptest! {
    #[test]
    fn any_text_is_a_pattern_or_told_why(pattern in "[\\PC*?\\[\\]{},/!^\\\\-]{0,40}", path in "[a-z/.]{0,10}") {
        if let Ok(pattern) = PathPattern::new(&pattern) {
            pattern.matches(&path);
        }
    }

    #[test]
    fn a_pattern_of_plain_letters_fits_itself_only(pattern in "[a-z.]{1,6}", path in "[a-z.]{1,6}") {
        prop_assume!(pattern != "..");
        let compiled = PathPattern::new(&pattern).unwrap();
        prop_assert!(compiled.matches(pattern.trim_start_matches("./")));
        prop_assert_eq!(compiled.matches(&path), pattern == path);
    }
}
