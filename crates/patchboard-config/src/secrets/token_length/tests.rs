use super::*;
use crate::tests::bench::Bench;

/// The keys of tokens that are too short.
fn short(text: &str, token: &str) -> Vec<String> {
    let bench = Bench::with_file(text).env("TOKEN", token);
    let Err(problems) = Config::load_for_start(bench.request()) else { return Vec::new() };
    problems.iter().filter(|problem| problem.code == ProblemCode::ShortToken).map(|one| one.path.to_string()).collect()
}

#[test]
fn off_loopback_a_token_has_sixteen_bytes() {
    let open = |section: &str| format!("[{section}]\nlisten = \"0.0.0.0:0\"\ninsecure = true\ntoken = \"env:TOKEN\"\n");
    for section in ["gateway", "runs", "bridge"] {
        assert_eq!(short(&open(section), "fifteen-letters"), [format!("{section}.token")]);
        assert!(short(&open(section), "sixteen-letters!").is_empty());
    }
    let by_gateway = "[gateway]\ntoken = \"env:TOKEN\"\n[runs]\nlisten = \"0.0.0.0:0\"\ninsecure = true\n";
    assert_eq!(short(by_gateway, "short"), ["gateway.token"], "runs takes the gateway's");
    assert!(short("[gateway]\ntoken = \"env:TOKEN\"\n", "short").is_empty(), "on loopback");
}
