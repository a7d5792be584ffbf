use super::*;
use crate::tests::bench::Bench;

/// The problems of secrets of keys.
fn problems(file: &str, [first, second]: [&str; 2]) -> Vec<(ProblemCode, String)> {
    let bench = Bench::with_file(file).env("FIRST", first).env("SECOND", second);
    let Err(problems) = Config::load_for_start(bench.request()) else { return Vec::new() };
    problems.iter().map(|problem| (problem.code, problem.path.to_string())).collect()
}

#[test]
fn a_key_has_a_long_secret_of_its_own() {
    let keys = "[[keys]]\nname = \"a\"\nsecret = \"env:FIRST\"\n[[keys]]\nname = \"b\"\nsecret = \"env:SECOND\"\n";
    let token = "[gateway]\ntoken = \"env:SECOND\"\n[[keys]]\nname = \"a\"\nsecret = \"env:FIRST\"\n";
    let (one, two) = ("sixteen-letters!", "other-sixteen-ones");
    let short = (ProblemCode::ShortToken, "keys[0].secret".to_owned());
    let same = |path: &str| (ProblemCode::Conflict, path.to_owned());
    for (file, secrets, expected) in [
        (keys, [one, two], vec![]),
        (keys, ["fifteen-letters", two], vec![short]),
        (keys, [one, one], vec![same("keys[1].secret")]),
        (token, [one, two], vec![]),
        (token, [one, one], vec![same("keys[0].secret")]),
    ] {
        assert_eq!(problems(file, secrets), expected, "{file} {secrets:?}");
    }
}
