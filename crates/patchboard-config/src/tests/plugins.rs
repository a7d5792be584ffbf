//! Plugins, the folder of plugins, and what one call may use.

use secrecy::ExposeSecret;

use super::bench::Bench;
use super::validation::found;
use crate::show::{ShowOrigin, show};
use crate::{Config, problem::ProblemCode};

fn bench(text: &str) -> Bench {
    Bench::with_file(text).file("project/p.wasm", "w").env("TOKEN", "0123456789abcdef")
}

#[track_caller]
fn check(settings: &str, wanted: &[&str]) {
    let bench = bench(&plugin(settings));
    assert_eq!(found(&bench), wanted, "for:\n{settings}\n{}", bench.complaints());
}

fn plugin(settings: &str) -> String {
    format!("[[plugins]]\nname = \"a\"\npath = \"p.wasm\"\n{settings}\n")
}

#[test]
fn grants() {
    check("grants = [\"http:api.example.com\", \"http:[::1]:80\", \"store:notes\", \"host-function:log\"]", &[]);
    let bad = "grants = [\"http:\", \"fs:/\", \"http:https://a\", \"store:a/b\", \"http\", \"http:*.a\", \"http:a:0\"]";
    assert_eq!(
        found(&bench(&plugin(bad))),
        [0, 1, 2, 3, 4, 5, 6].map(|index| format!("PB0119 plugins[0].grants[{index}]"))
    );
    check("grants = [\"http:A.example\", \"http:a.example\"]", &["PB0122? plugins[0].grants[1]"]);
    let many = (0..257).map(|number| format!("\"store:s{number}\"")).collect::<Vec<_>>().join(", ");
    check(&format!("grants = [{many}]"), &["PB0111 plugins[0].grants"]);
}

#[test]
fn names_and_files() {
    let twice = plugin("") + &plugin("");
    assert_eq!(found(&bench(&twice)), ["PB0118 plugins[1].name"]);
    assert_eq!(found(&bench("[[plugins]]\nname = \"a b\"\npath = \"p.wasm\"")), ["PB0118 plugins[0].name"]);
    assert_eq!(found(&bench("[[plugins]]\nname = \"a\"\npath = \"missing.wasm\"")), ["PB0120? plugins[0].path"]);
    for taken in ["[mcp.a]\ncommand = [\"x\"]", "[[workers]]\nname = \"a\"\ncommand = [\"x\"]"] {
        check(taken, &["PB0118 plugins[0].name"]);
    }
    assert_eq!(found(&bench("[[plugins]]\nname = \"agent\"\npath = \"p.wasm\"")), ["PB0118 plugins[0].name"]);
    let many: String =
        (0..65).map(|number| format!("[[plugins]]\nname = \"p{number}\"\npath = \"p.wasm\"\n")).collect();
    assert_eq!(found(&bench(&many)), ["PB0111 plugins"]);
}

#[test]
fn settings_and_secrets() {
    check("settings = { api_root = \"https://x\", B-2 = \"y\" }\nsecrets = { bot_token = \"env:TOKEN\" }", &[]);
    check("settings = { \"a b\" = \"x\" }", &["PB0118 plugins[0].settings.\"a b\""]);
    check("settings = { a = 5 }", &["PB0104 plugins[0].settings.a"]);
    check(&format!("settings = {{ a = \"{}\" }}", "x".repeat(16 * 1024 + 1)), &["PB0111 plugins[0].settings.a"]);
    check("settings = { bot_token = \"abc\" }", &["PB0107? plugins[0].settings.bot_token"]);
    check("secrets = { \"a.b\" = \"env:TOKEN\" }", &["PB0118 plugins[0].secrets.\"a.b\""]);
    check("secrets = { a = \"abc\" }", &["PB0107 plugins[0].secrets.a"]);
    check("secrets = { a = \"env:UNSET_VARIABLE\" }", &["PB0108 plugins[0].secrets.a"]);
    check("secrets = { a = \"file:missing\" }", &["PB0108 plugins[0].secrets.a"]);
}

#[test]
fn hashes() {
    check(&format!("sha256 = \"{}\"", "0aF".repeat(21) + "0"), &[]);
    for bad in ["", "0", &"g".repeat(64), &"0".repeat(63), &"0".repeat(65), &"é".repeat(32)] {
        let problems = bench(&plugin(&format!("sha256 = \"{bad}\""))).problems();
        let codes: Vec<(ProblemCode, String)> =
            problems.iter().map(|found| (found.code, found.path.to_string())).collect();
        assert_eq!(codes, [(ProblemCode::WrongType, "plugins[0].sha256".to_owned())], "{bad}");
    }
}

#[test]
fn limits() {
    let limit = |setting: &str, wanted: &[&str]| assert_eq!(found(&bench(&format!("[limits]\n{setting}"))), wanted);
    limit("plugin_memory = \"1MiB\"\nplugin_time = \"1h\"\nplugin_output = \"64MiB\"\nplugin_calls = 1000", &[]);
    limit("plugin_memory = \"1KiB\"", &["PB0111 limits.plugin_memory"]);
    limit("plugin_memory = \"5GiB\"", &["PB0111 limits.plugin_memory"]);
    limit("plugin_time = \"2h\"", &["PB0111 limits.plugin_time"]);
    limit("plugin_time = \"0s\"", &["PB0105 limits.plugin_time"]);
    limit("plugin_fuel = 5", &["PB0111 limits.plugin_fuel"]);
    limit("plugin_output = \"65MiB\"", &["PB0111 limits.plugin_output"]);
    limit("plugin_calls = 0", &["PB0111 limits.plugin_calls"]);
    limit("plugin_calls = 1001", &["PB0111 limits.plugin_calls"]);
}

#[test]
fn the_folder() {
    let folder = |text: &str| bench(text).load().config.wasm.folder;
    let plain = bench("");
    assert_eq!(plain.load().config.wasm.folder, Some(plain.path(".local/share/patchboard/plugins")));
    assert!(folder("data_dir = \"d\"").unwrap().ends_with("project/d/plugins"));
    assert!(folder("[wasm]\nfolder = \"drop\"").unwrap().ends_with("project/drop"));
    assert_eq!(found(&bench("[wasm]\nfolder = \"p.wasm\"")), ["PB0120 wasm.folder"]);
    for around in [".", "..", "~"] {
        assert_eq!(found(&bench(&format!("[wasm]\nfolder = \"{around}\""))), ["PB0122 wasm.folder"], "{around}");
    }
    assert_eq!(found(&bench("[wasm]\nfolder = \"not/there\"\nwatch = false")), [""; 0]);
}

#[test]
fn secrets_are_read_and_never_shown() {
    let text = plugin("secrets = { one = \"env:TOKEN\", two = \"file:two\" }\nsettings = { root = \"https://x\" }")
        + "[channels.a]\nverify = \"token\"\nsecret = \"file:three\"\n";
    let bench = bench(&text).file("project/two", "second-secret\n").file("project/three", "third-secret");
    let (loaded, secrets) = Config::load_for_start(bench.request()).unwrap();
    let read = |name: &str| secrets.plugin_secrets["a"][name].expose_secret().to_owned();
    assert_eq!((read("one"), read("two")), ("0123456789abcdef".to_owned(), "second-secret".to_owned()));
    assert_eq!(secrets.channel_secrets["a"].expose_secret(), "third-secret");
    // All of them are cut out of the log.
    assert_eq!(secrets.all().count(), 3);
    assert_eq!(loaded.config.secret_files(), ["project/three", "project/two"].map(|path| bench.path(path)));
    let shown = show(&loaded, ShowOrigin::No);
    for secret in ["0123456789abcdef", "second-secret", "third-secret"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    assert!(shown.contains("one = \"env:TOKEN\"") && shown.contains("root = \"https://x\""), "{shown}");
}
