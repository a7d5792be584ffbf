//! Channels: who may post, who answers, and how long things may take.

use super::bench::Bench;
use super::validation::found;

fn bench(text: &str) -> Bench {
    Bench::with_file(text).file(".local/share/patchboard/plugins/c.wasm", "w").env("TOKEN", "0123456789abcdef")
}

/// A channel whose adapter is in the folder.
#[track_caller]
fn check(settings: &str, wanted: &[&str]) {
    let bench = bench(&format!("[channels.c]\n{settings}\n"));
    assert_eq!(found(&bench), wanted, "for:\n{settings}\n{}", bench.complaints());
}

const SECRET: &str = "secret = \"env:TOKEN\"\n";

#[test]
fn ways_to_verify() {
    for way in ["telegram", "slack", "hmac-sha256", "token"] {
        check(&format!("{SECRET}verify = \"{way}\""), &[]);
        check(&format!("verify = \"{way}\""), &["PB0117 channels.c.secret"]);
    }
    check("verify = \"none\"", &["PB0123? channels.c.verify"]);
    check(&format!("{SECRET}verify = \"none\""), &["PB0122 channels.c.secret"]);
    check(&format!("{SECRET}verify = \"hmac\""), &["PB0110 channels.c.verify"]);
    check(SECRET, &["PB0117 channels.c.verify"]);
    check("verify = \"token\"\nsecret = \"hunter2\"", &["PB0107 channels.c.secret"]);
    check("verify = \"token\"\nsecret = \"env:UNSET_VARIABLE\"", &["PB0108 channels.c.secret"]);
}

#[test]
fn names_of_other_surfaces_are_taken() {
    for name in ["websocket", "runs", "cli", "bridge", "hub"] {
        let channel = format!("[channels.{name}]\nplugin = \"c\"\nverify = \"token\"\n{SECRET}");
        let refused = found(&bench(&channel));
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert!(refused[0].ends_with(&format!(" channels.{name}")) && !refused[0].contains('?'), "{refused:?}");
    }
}

#[test]
fn a_secret_that_is_not_there_is_an_error_even_without_an_adapter() {
    let channel = "[channels.x]\nverify = \"token\"\nsecret = \"env:UNSET_VARIABLE\"";
    assert_eq!(found(&bench(channel)), ["PB0112? channels.x", "PB0108 channels.x.secret"]);
}

#[test]
fn a_missing_secret_has_a_hint() {
    let complaints = bench("[channels.c]\nverify = \"slack\"").complaints();
    assert_eq!(
        complaints,
        "error[PB0117] channels.c.secret (patchboard.toml:1): is required to know who posts\n  hint: secret = \"env:NAME\" or \
         \"file:PATH\"; verify = \"none\" takes what programs of this machine post"
    );
}

#[test]
fn headers() {
    let hmac = format!("{SECRET}verify = \"hmac-sha256\"\n");
    check(&format!("{hmac}header = \"X-Signature\"\ntimestamp_header = \"X-Timestamp\""), &[]);
    check(&format!("{hmac}header = \"X Signature\""), &["PB0118 channels.c.header"]);
    check(&format!("{hmac}header = \"X-A\"\ntimestamp_header = \"x-a\""), &["PB0122 channels.c.timestamp_header"]);
    check(&format!("{SECRET}verify = \"token\"\nheader = \"X-Token\""), &[]);
    check(
        &format!("{SECRET}verify = \"token\"\ntimestamp_header = \"X-Time\""),
        &["PB0122 channels.c.timestamp_header"],
    );
    check(&format!("{SECRET}verify = \"slack\"\nheader = \"X-Signature\""), &["PB0122 channels.c.header"]);
}

#[test]
fn times_and_numbers() {
    let channel = |setting: &str, wanted: &[&str]| check(&format!("{SECRET}verify = \"token\"\n{setting}"), wanted);
    channel("replay_window = \"24h\"\nreply = \"sync\"\nwait = \"10m\"\nmax_waiting = 1", &[]);
    channel("rate_limit = { per_second = 100, burst = 1 }", &[]);
    channel("replay_window = \"25h\"", &["PB0111 channels.c.replay_window"]);
    channel("wait = \"11m\"", &["PB0111 channels.c.wait"]);
    channel("wait = \"0s\"", &["PB0105 channels.c.wait"]);
    channel("max_waiting = 0", &["PB0111 channels.c.max_waiting"]);
    channel("rate_limit = { per_second = 0 }", &["PB0111 channels.c.rate_limit.per_second"]);
    channel("rate_limit = { speed = 1 }", &["PB0103 channels.c.rate_limit.speed"]);
    channel("reply = \"later\"", &["PB0110 channels.c.reply"]);
}

#[test]
fn adapters() {
    let channel = format!("verify = \"token\"\n{SECRET}");
    // Neither configured nor in the folder: it may come later.
    assert_eq!(found(&bench(&format!("[channels.x]\n{channel}"))), ["PB0112? channels.x"]);
    let named = format!("[channels.x]\n{channel}plugin = \"y\"\n");
    assert_eq!(found(&bench(&named)), ["PB0112? channels.x.plugin"]);
    let configured = format!("{named}[[plugins]]\nname = \"y\"\npath = \"y.wasm\"\n");
    assert_eq!(found(&bench(&configured).file("project/y.wasm", "w")), [""; 0]);
    assert_eq!(found(&bench(&format!("[channels.x]\n{channel}plugin = \"../c\""))), ["PB0118 channels.x.plugin"]);
    assert_eq!(found(&bench(&format!("[channels.\"a/b\"]\nplugin = \"c\"\n{channel}"))), ["PB0118 channels.\"a/b\""]);
    let off = format!("[channels.c]\n{channel}[gateway]\nlisten = \"off\"");
    assert_eq!(found(&bench(&off)), ["PB0122? channels"]);
    let near = format!("[channels.telegrm]\n{channel}[[plugins]]\nname = \"telegram\"\npath = \"t.wasm\"\n");
    let complaints = bench(&near).file("project/t.wasm", "w").complaints();
    assert!(complaints.contains("did you mean plugin = \"telegram\"?"), "{complaints}");
    let many: String = (0..257).map(|number| format!("[channels.c{number}]\nplugin = \"c\"\n{channel}")).collect();
    assert_eq!(found(&bench(&many)), ["PB0111 channels"]);
}
