//! Keys of clients: what an entry needs, and what it may name.

use super::bench::Bench;
use super::validation::found;

#[track_caller]
fn check(settings: &str, wanted: &[&str]) {
    let text = format!("[agents.planner]\n[[keys]]\n{settings}\n");
    let bench = Bench::with_file(&text).env("KEY", "0123456789abcdef").env("OTHER", "fedcba9876543210");
    assert_eq!(found(&bench), wanted, "for:\n{settings}\n{}", bench.complaints());
}

const CI: &str = "name = \"ci\"\nsecret = \"env:KEY\"\n";

#[test]
fn a_name_and_a_secret_are_needed() {
    check(CI, &[]);
    check("name = \"ci\"", &["PB0117 keys[0].secret"]);
    check("name = \"ci\"\nsecret = \"hunter2\"", &["PB0107 keys[0].secret"]);
    check("name = \"ci\"\nsecret = \"env:UNSET_VARIABLE\"", &["PB0108 keys[0].secret"]);
    check("name = \"c i\"\nsecret = \"env:KEY\"", &["PB0118 keys[0].name"]);
    check(&format!("{CI}[[keys]]\nname = \"eye\"\nsecret = \"env:OTHER\""), &[]);
}

#[test]
fn one_name_is_one_key() {
    let twice = format!("[[keys]]\n{CI}[[keys]]\nname = \"ci\"\nsecret = \"env:OTHER\"\n");
    let bench = Bench::with_file(&twice).env("KEY", "0123456789abcdef").env("OTHER", "fedcba9876543210");
    assert_eq!(found(&bench).len(), 1, "{}", bench.complaints());
}

#[test]
fn what_it_names_exists() {
    check(
        &format!(
            "{CI}agents = [\"planner\", \"default\"]\nsurfaces = [\"gateway\", \"runs\", \"mcp\", \"hub\", \"bridge\"]"
        ),
        &[],
    );
    check(&format!("{CI}agents = [\"planer\"]"), &["PB0112 keys[0].agents"]);
    check(&format!("{CI}surfaces = [\"cli\"]"), &["PB0110 keys[0].surfaces[0]"]);
    check(&format!("{CI}tools = [\"\"]"), &["PB0104 keys[0].tools[0]"]);
    check(&format!("{CI}agents = []\ntools = []\nsurfaces = []"), &[]);
    check(&format!("{CI}budget = {{ daily = 0 }}"), &["PB0111 keys[0].budget.daily"]);
}

#[test]
fn headers_name_a_person() {
    check(&format!("{CI}trust_headers = [\"X-Forwarded-User\"]"), &[]);
    for header in ["a b", "Authorization", "host"] {
        check(&format!("{CI}trust_headers = [\"{header}\"]"), &["PB0118 keys[0].trust_headers"]);
    }
}
