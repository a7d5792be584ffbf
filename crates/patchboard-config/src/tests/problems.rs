//! What is said about keys and values that do not fit.

use std::fmt::Write;

use super::bench::Bench;
use crate::problem::{ConfigProblem, ProblemCode, Severity};

#[track_caller]
fn check(text: &str, wanted: &str) {
    let bench = Bench::with_file(text);
    assert_eq!(bench.complaints(), wanted.trim(), "for:\n{text}");
}

#[test]
fn everything_at_once() {
    check(
        r#"drain = 10
colour = "blue"

[gateway]
lisen = "127.0.0.1:7200"
token = "sk-hunter2"
max_connections = 0

[agents.default]
max_tokens = 0
strategy = "reakt"
fallback = "second"

[agents.other]
provider = "nowhere"

[[bindings]]
agent = "defualt"
channel = "web"

[[bindings]]
agent = "default"

[[plugins]]
name = "echo"

[limits]
message = "16M"
"#,
        r#"
error[PB0105] drain (patchboard.toml:1): must be a duration, but is a whole number
  hint: write it with a unit, in quotes: "10s"
error[PB0103] colour (patchboard.toml:2): unknown key
  hint: known keys here: data_dir, data_dir_group, trusted_users, drain, gateway, runs, hub, notifications, bridge, providers, local_model, agents, bindings, keys, budgets, prices, memory, plugins, wasm, channels, workers, mcp, tools, storage, limits, log, telemetry
error[PB0103] gateway.lisen (patchboard.toml:5): unknown key
  hint: did you mean `gateway.listen`?
error[PB0107] gateway.token (patchboard.toml:6): a secret is written into the configuration
  hint: write "env:NAME" or "file:PATH" and keep the secret there
error[PB0111] gateway.max_connections (patchboard.toml:7): must be at least 1, but is 0
error[PB0111] agents.default.max_tokens (patchboard.toml:10): must be at least 1, but is 0
error[PB0110] agents.default.strategy (patchboard.toml:11): `reakt` is not a choice here
  hint: did you mean "react"?
error[PB0104] agents.default.fallback (patchboard.toml:12): must be a list, but is text
  hint: write a list: agents.default.fallback = ["…"]
error[PB0112] agents.other.provider (patchboard.toml:15): no provider named `nowhere` is configured
  hint: add a section [providers.nowhere]
error[PB0112] bindings[0].agent (patchboard.toml:18): no agent named `defualt` is configured
  hint: did you mean "default"?
error[PB0113] bindings[1] (patchboard.toml:21): says nothing to match
  hint: set at least one of: peer, guild, team, account, channel
error[PB0117] plugins[0].path (patchboard.toml:24): is required
  hint: path: The component file.
error[PB0106] limits.message (patchboard.toml:28): `16M` is not a size such as `64KiB` or `16MiB`
"#,
    );
}

#[test]
fn single_values() {
    let cases = [
        ("drain = \"10 s\"", "PB0105", "`10 s` is not a duration such as `30s`, `500ms` or `1h30m`"),
        ("[runs]\nstall_timeout = \"0s\"", "PB0105", "must be longer than zero"),
        ("[limits]\nmessage = 16", "PB0106", "must be a size, but is a whole number"),
        ("[limits]\nmessage = \"0B\"", "PB0106", "must be larger than zero"),
        ("[gateway]\nlisten = 7200", "PB0109", "must be an address, but is a whole number"),
        (
            "[gateway]\nlisten = \"example.com:80\"",
            "PB0109",
            "`example.com:80` is not an address such as `127.0.0.1:7200`, `:0` or `off`",
        ),
        ("[gateway]\ntoken = 12345", "PB0107", "must be a reference to a secret, but is a whole number"),
        ("[gateway]\ntoken = \"\"", "PB0107", "a secret is written into the configuration"),
        ("[gateway]\ntoken = \"env:\"", "PB0107", "`env:` is not followed by a variable name"),
        ("[gateway]\ninsecure = \"yes\"", "PB0104", "must be true or false, but is text"),
        ("[gateway]\ninsecure = 1", "PB0104", "must be true or false, but is a whole number"),
        ("[gateway]\nmax_connections = 1.5", "PB0104", "must be a whole number, but is a number"),
        ("[gateway]\nmax_connections = -1", "PB0111", "must be at least 1, but is -1"),
        ("[gateway]\nmax_connections = 4294967296", "PB0111", "must be at most 4294967295, but is 4294967296"),
        ("[gateway]\nmax_connections = 99999999999999999999", "PB0111", "the number is too large"),
        ("[agents.default]\ntemperature = 3", "PB0111", "must be at most 2, but is 3"),
        ("[agents.default]\ntemperature = nan", "PB0104", "must be a number, but is a number"),
        ("[agents.default]\nmodel = 4", "PB0104", "must be text in quotes, but is a whole number"),
        ("[agents.default]\nmodel = \" \"", "PB0104", "is empty"),
        ("[agents.default]\nmodel = 1979-05-27", "PB0104", "must be text in quotes, but is a date or time"),
        ("[agents.default]\nstrategy = true", "PB0104", "must be a word in quotes, but is true or false"),
        ("[agents.default]\nsoul = [\"a\"]", "PB0104", "must be a path in quotes, but is a list"),
        ("[budgets]\ndaily = 0", "PB0111", "must be at least 1, but is 0"),
        ("gateway = 5", "PB0104", "must be a table, but is a whole number"),
        ("[[gateway]]", "PB0104", "must be a table, but is a list"),
        ("[bindings]\nagent = \"default\"", "PB0104", "must be a list, but is a table"),
        ("agents.default = \"x\"", "PB0104", "must be a table, but is text"),
        ("plugins = [5]", "PB0104", "must be a table, but is a whole number"),
        ("[telemetry]\notlp_endpoint = \"localhost:4318\"", "PB0121", "must start with http:// or https://"),
        ("[tools.approval]\n\"bash\" = \"maybe\"", "PB0110", "`maybe` is not a choice here"),
        (
            "[tools.approval]\n\"b sh\" = \"ask\"",
            "PB0119",
            "a pattern has letters, digits, `.`, `_`, `-`, `/`, `:`, `*` and `?` only",
        ),
        (
            "[agents.default]\ntools = [\"a b\"]",
            "PB0119",
            "a pattern has letters, digits, `.`, `_`, `-`, `/`, `:`, `*` and `?` only",
        ),
        ("[prices.\"gpt*\"]\ninput = -1\noutput = 1", "PB0111", "must be at least 0, but is -1"),
        ("[providers.x]\nmodel = \"m\"", "PB0117", "is required"),
        ("[providers.x]\nkind = \"openia\"", "PB0110", "`openia` is not a choice here"),
        ("[log]\nfilter = \"=,=\"", "PB0119", "is not a log filter"),
        ("[notifications]\nquiet = \"22-7\"", "PB0104", "`22-7` is not hours such as `22:00-07:00`"),
        ("[notifications]\nquiet = \"07:00-07:00\"", "PB0104", "`07:00-07:00` ends when it begins"),
        ("[notifications]\nquiet = 22", "PB0104", "must be hours of the day, but is a whole number"),
        ("[notifications]\nper_minute = 0", "PB0111", "must be at least 1, but is 0"),
        ("[notifications]\nper_minute = 601", "PB0111", "must be at most 600, but is 601"),
        ("[notifications]\nsound = true", "PB0103", "unknown key"),
        ("[[notifications.webhooks]]\nurl = \"host/path\"", "PB0121", "is not a web address"),
        (
            "[[notifications.webhooks]]\nurl = \"http://h\"\ntoken = \"tk\"",
            "PB0107",
            "a secret is written into the configuration",
        ),
    ];
    let mut wrong = String::new();
    for (text, code, message) in cases {
        let problems = Bench::with_file(text).problems();
        let found: Vec<(&str, &str)> =
            problems.iter().map(|problem| (problem.code.as_str(), problem.message.as_str())).collect();
        if found != [(code, message)] {
            writeln!(wrong, "{text}\n  wanted {code} {message}\n  found  {found:?}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn broken_files_say_where() {
    check(
        "[gateway]\nlisten = 127.0.0.1:7200\n\n[runs\n",
        r#"
error[PB0102] patchboard.toml:2: not valid TOML: invalid float, expected nothing
  hint: text values are written in quotes: key = "value"
error[PB0102] patchboard.toml:4: not valid TOML: unclosed table, expected `]`
  hint: a section begins with its name in brackets: [gateway]
"#,
    );
    let twice = Bench::with_file("drain = \"1s\"\ndrain = \"2s\"").complaints();
    assert!(twice.starts_with("error[PB0102] patchboard.toml:2: not valid TOML: duplicate key"), "{twice}");
}

#[test]
fn broken_files_do_not_hide_problems_of_other_layers() {
    let bench = Bench::with_file("x = ").env("PATCHBOARD__COLOUR", "red");
    let problems = bench.problems();
    let codes: Vec<ProblemCode> = problems.iter().map(|problem| problem.code).collect();
    assert_eq!(codes, [ProblemCode::Syntax, ProblemCode::UnknownKey], "{problems}");
}

#[test]
fn messages_never_hold_secrets() {
    let texts = [
        "[gateway]\ntoken = \"hunter2\"",
        "[gateway]\ntoken = hunter2",
        "[gateway]\ntoken = [\"hunter2\"]",
        "[gateway]\ntoken = \"env:hunter2-\"",
        "[gateway]\ntoken = \"\"\"hunter2",
        "[providers.x]\nkind = \"openai\"\nbase_url = \"https://user:hunter2@example.com\"",
        "[providers.x]\nkind = \"openai\"\napi_key = \"hunter2\"",
        "[mcp.x]\ncommand = [\"c\"]\nenv = { API_KEY = \"hunter2\" }",
    ];
    for text in texts {
        let bench = Bench::with_file(text);
        let complaints = bench.complaints();
        assert!(bench.problems().has_errors() && !complaints.contains("hunter2"), "{complaints}");
        assert!(!format!("{:?}", bench.problems()).contains("hunter2"), "{complaints}");
    }
    let bench = Bench::new().env("PATCHBOARD__GATEWAY__TOKEN", "hunter2");
    assert_eq!(
        bench.complaints(),
        "error[PB0107] gateway.token (env PATCHBOARD__GATEWAY__TOKEN): a secret is written into the configuration\n  hint: write \"env:NAME\" or \"file:PATH\" and keep the secret there"
    );
}

#[test]
fn variables_and_flags_are_named() {
    let bench = Bench::new()
        .env("PATCHBOARD__GATEWAY__LISEN", ":0")
        .env("PATCHBOARD__DRAIN__MORE", "1")
        .env("PATCHBOARD__PLUGINS__0__NAME", "x")
        .env("PATCHBOARD__AGENTS____MODEL", "x")
        .env("PATCHBOARD__", "x")
        .flag("--runs", "runs.listen", "nowhere");
    assert_eq!(
        bench.complaints(),
        r#"
error[PB0103] "" (env PATCHBOARD__): unknown key
  hint: known keys here: data_dir, data_dir_group, trusted_users, drain, gateway, runs, hub, notifications, bridge, providers, local_model, agents, bindings, keys, budgets, prices, memory, plugins, wasm, channels, workers, mcp, tools, storage, limits, log, telemetry
error[PB0103] agents."" (env PATCHBOARD__AGENTS____MODEL): `agents` has no keys below it
  hint: a list is set as a whole, in TOML: ["one", "two"]
error[PB0103] drain.more (env PATCHBOARD__DRAIN__MORE): `drain` has no keys below it
  hint: a list is set as a whole, in TOML: ["one", "two"]
error[PB0103] gateway.lisen (env PATCHBOARD__GATEWAY__LISEN): unknown key
  hint: did you mean `gateway.listen`?
error[PB0103] plugins.0 (env PATCHBOARD__PLUGINS__0__NAME): `plugins` has no keys below it
  hint: a list is set as a whole, in TOML: ["one", "two"]
error[PB0109] runs.listen (--runs): `nowhere` is not an address such as `127.0.0.1:7200`, `:0` or `off`
  hint: use an IP address and a port: 127.0.0.1:7200 for this machine alone
"#
        .trim()
    );
}

#[test]
fn one_mistake_is_one_problem() {
    let cases = [
        // A misspelt field does not also make the binding empty.
        ("[[bindings]]\nagent = \"default\"\nchanel = \"web\"", vec!["bindings[0].chanel"]),
        // An element that is no table is not also missing its keys.
        ("plugins = [5]", vec!["plugins[0]"]),
        // A missing agent is not also an unknown one; but the binding is empty all the same.
        ("[[bindings]]\nchannel = \"web\"", vec!["bindings[0].agent"]),
        ("[[bindings]]", vec!["bindings[0]", "bindings[0].agent"]),
        ("[[plugins]]\nname = 5\npath = \"x\"", vec!["plugins[0].name", "plugins[0].path"]),
        ("[bridge.tls]\ncert = 5", vec!["bridge.tls.key", "bridge.tls.cert"]),
    ];
    for (text, paths) in cases {
        let problems = Bench::with_file(text).problems();
        let found: Vec<String> = problems.iter().map(|problem| problem.path.to_string()).collect();
        assert_eq!(found, paths, "{problems}");
    }
}

#[test]
fn reports_sum_up() {
    let report = |text: &str| {
        let bench = Bench::with_file(text);
        let report = bench.report();
        (report.is_ok(), bench.tidy(report.to_string().lines().last().unwrap()))
    };
    let missing_plugin = "[[plugins]]\nname = \"x\"\npath = \"x.wasm\"\n";
    assert_eq!(report(""), (true, "~/project/patchboard.toml: no problems".to_owned()));
    assert_eq!(report(missing_plugin), (true, "~/project/patchboard.toml: 1 warning".to_owned()));
    assert_eq!(
        report(&format!("{missing_plugin}[hub]\nx = 1\ny = 2")),
        (false, "~/project/patchboard.toml: 2 errors, 1 warning".to_owned())
    );
    assert_eq!(Bench::new().report().to_string(), "no config file: no problems");
}

#[test]
fn problems_as_json() {
    let problems = Bench::with_file("[gateway]\nlisen = 1").problems();
    let rows: Vec<serde_json::Value> = problems.iter().map(|problem| serde_json::to_value(problem).unwrap()).collect();
    assert_eq!(
        rows,
        [serde_json::json!({
            "code": "PB0103",
            "severity": "error",
            "path": "gateway.lisen",
            "origin": "patchboard.toml:2",
            "message": "unknown key",
            "hint": "did you mean `gateway.listen`?",
        })]
    );
}

#[test]
fn warnings_do_not_stop_a_load() {
    let loaded = Bench::with_file("[[plugins]]\nname = \"x\"\npath = \"x.wasm\"").load();
    let warnings: Vec<&ConfigProblem> = loaded.warnings.iter().collect();
    assert_eq!(warnings.len(), 1);
    assert_eq!((warnings[0].severity, warnings[0].code), (Severity::Warning, ProblemCode::MissingFile));
    assert!(!loaded.warnings.has_errors());
}
