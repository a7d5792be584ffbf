use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::{findings, plugin_finding, report_running};
use crate::cli::doctor::DoctorFinding;
use crate::cli::plugins::report::{self, PluginReport};
use crate::test_home::Bench;

/// What it says, with `bad` before what is wrong.
fn said(finding: &DoctorFinding, bench: &Bench) -> String {
    bench.tidy(&match finding {
        DoctorFinding::Good(text) => text.clone(),
        DoctorFinding::Note(text) => format!("note {text}"),
        DoctorFinding::Bad { problem, hint } => format!("bad {problem} ({hint})"),
    })
}

fn all(bench: &Bench) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(findings(&bench.load())).iter().map(|finding| said(finding, bench)).collect()
}

fn plugin(value: serde_json::Value) -> PluginReport {
    report::parse(&value).unwrap()
}

#[test]
fn nothing_is_said_without_plugins() {
    assert_eq!(all(&Bench::new()), Vec::<String>::new());
}

#[test]
fn files_that_are_missing_or_bad() {
    let bench = Bench::with_file(
        "[runs]\nallowed_roots = []\n[[plugins]]\nname = \"gone\"\npath = \"gone.wasm\"\n[[plugins]]\nname = \"bad\"\npath = \"bad.wasm\"\n",
    )
    .file("project/bad.wasm", "text")
    .file(".local/share/patchboard/plugins/more.wasm", "text")
    .file(".local/share/patchboard/plugins/bad.wasm", "text")
    .file(".local/share/patchboard/plugins/more.toml", "");
    let found = all(&bench);
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(
        found[0],
        "bad plugin gone: ~/project/gone.wasm cannot be used: no such file (put the file there, or remove the plugin)"
    );
    assert!(found[1].starts_with("bad plugin bad: ~/project/bad.wasm cannot be used: "), "{found:?}");
    assert!(found[2].starts_with("bad plugin more: ~/.local/share/patchboard/plugins/more.wasm cannot"), "{found:?}");
}

#[test]
fn places_that_everybody_may_change() {
    let bench = Bench::with_file("[wasm]\nfolder = \"drop\"").folder("project/drop");
    fs::set_permissions(bench.path("project/drop"), fs::Permissions::from_mode(0o777)).unwrap();
    let wanted = "bad plugins: ~/project/drop can be changed by every user of this machine (chmod o-w ~/project/drop)";
    assert_eq!(all(&bench), [wanted]);
    fs::set_permissions(bench.path("project/drop"), fs::Permissions::from_mode(0o775)).unwrap();
    assert_eq!(all(&bench), Vec::<String>::new());
}

#[test]
fn files_that_agents_could_change() {
    let text = "[[plugins]]\nname = \"a\"\npath = \"a.wasm\"\n[[plugins]]\nname = \"b\"\npath = \"../b.wasm\"\n";
    let found = all(&Bench::with_file(text));
    let noted: Vec<&String> = found.iter().filter(|line| line.starts_with("note")).collect();
    assert_eq!(noted.len(), 1, "{found:?}");
    assert!(noted[0].starts_with("note plugins a: their files lie where agents work"), "{noted:?}");
}

#[test]
fn what_the_server_says() {
    let check = |value, wanted: &str| assert_eq!(said(&plugin_finding(&plugin(value)), &Bench::new()), wanted);
    check(json!({"name": "echo", "state": "ready", "source": "/p/echo.wasm"}), "plugin echo: ready, from /p/echo.wasm");
    check(
        json!({"name": "bad", "state": "refused", "error": "not a\u{1b} component"}),
        "bad plugin bad: refused: not a\\u{1b} component (`patchboard plugins check FILE` tells more about a file)",
    );
    check(
        json!({"name": "n", "state": "held", "waiting_for_approval": {"changes": ["asks for http", "new tool x"]}}),
        "bad plugin n: held; a newer version waits for approval: asks for http; new tool x (`patchboard plugins approve \
         n` takes it over)",
    );
}

#[test]
fn channels_and_their_adapters() {
    let mut findings = Vec::new();
    let known = report_running(
        &[
            plugin(json!({"name": "telegram", "state": "ready", "kinds": ["channel"]})),
            plugin(json!({"name": "echo", "state": "ready", "kinds": ["tools"]})),
            plugin(json!({"name": "slack", "state": "refused", "kinds": ["channel"]})),
        ],
        &mut findings,
    );
    assert_eq!(findings.len(), 3);
    let bench = Bench::with_file(
        "[channels.telegram]\nverify = \"telegram\"\nsecret = \"env:T\"\n[channels.open]\nverify = \"none\"\nplugin = \"telegram\"\n\
         [channels.slack]\nverify = \"slack\"\nsecret = \"env:T\"\n[channels.echo]\nverify = \"token\"\nsecret = \"env:T\"\n",
    );
    let config = bench.load().config;
    let found: Vec<String> = config
        .channels
        .iter()
        .map(|(name, channel)| said(&super::channel_finding(name, channel, &known), &bench))
        .collect();
    assert_eq!(
        found,
        [
            "bad channel echo: the plugin `echo` is no channel adapter (name another one as `channels.echo.plugin`)",
            "note channel open: POST /webhook/open is not verified; every program on this machine may post",
            "bad channel slack: its adapter `slack` is not there, so webhooks are refused (add [[plugins]] with name = \
             \"slack\", or put slack.wasm into the plugins folder)",
            "channel telegram: POST /webhook/telegram, verified, adapter telegram",
        ]
    );
}
