//! References to secrets and what they lead to.

use std::io;
use std::path::Path;
use std::sync::Arc;

use secrecy::ExposeSecret;

use super::bench::Bench;
use crate::{
    Config, LoadRequest, Secrets,
    files::{ConfigFile, ConfigFileReader, DiskReader},
};

fn secrets(bench: &Bench) -> Secrets {
    Config::load_for_start(bench.request()).unwrap().1
}

fn text(secret: Option<&secrecy::SecretString>) -> Option<&str> {
    secret.map(ExposeSecret::expose_secret)
}

#[test]
fn references_are_read() {
    let bench = Bench::with_file(
        r#"
        [gateway]
        token = "env:GATEWAY"
        [bridge]
        token = "file:secrets/bridge"
        [providers.x]
        kind = "openai"
        api_key = "file:~/key"
        [mcp.web]
        url = "https://mcp.example.com"
        token = "env:MCP"
        [mcp.files]
        command = ["x"]
        env = { A = "env:GATEWAY", B = "text" }
        [[workers]]
        name = "py"
        command = ["x"]
        env = { C = "file:secrets/bridge" }
        [notifications.ntfy]
        topic = "t"
        token = "env:NTFY"
        [[notifications.webhooks]]
        url = "https://one.example"
        [[notifications.webhooks]]
        url = "https://two.example"
        token = "env:MCP"
        "#,
    )
    .env("GATEWAY", " gateway-token\n")
    .env("MCP", "mcp-token")
    .env("NTFY", "ntfy-token")
    .file("project/secrets/bridge", "bridge-token\n")
    .file("key", "\n provider-key \n");
    let secrets = secrets(&bench);
    assert_eq!(text(secrets.gateway_token.as_ref()), Some("gateway-token"));
    assert_eq!(text(secrets.runs_token.as_ref()), Some("gateway-token"));
    assert_eq!(text(secrets.bridge_token.as_ref()), Some("bridge-token"));
    assert_eq!(text(secrets.provider_keys.get("x")), Some("provider-key"));
    assert_eq!(text(secrets.mcp_tokens.get("web")), Some("mcp-token"));
    assert_eq!(text(secrets.mcp_env["files"].get("A")), Some("gateway-token"));
    assert_eq!(text(secrets.mcp_env["files"].get("B")), Some("text"));
    assert_eq!(text(secrets.worker_env["py"].get("C")), Some("bridge-token"));
    assert_eq!(text(secrets.ntfy_token.as_ref()), Some("ntfy-token"));
    assert_eq!((text(secrets.webhook_tokens.get(&0)), text(secrets.webhook_tokens.get(&1))), (None, Some("mcp-token")));
    // Not the text that stands in the configuration anyway.
    assert_eq!(secrets.all().count(), 9);
    assert_eq!(format!("{secrets:?}"), "Secrets { .. }");
}

/// Tools are kept from them.
#[test]
fn files_with_secrets_are_known() {
    let bench = Bench::with_file(
        r#"
        [gateway]
        token = "file:secrets/gateway"
        [providers.x]
        kind = "openai"
        api_key = "file:~/key"
        [mcp.files]
        command = ["x"]
        env = { A = "file:secrets/mcp", B = "text", C = "env:HOME" }
        [[workers]]
        name = "py"
        command = ["x"]
        env = { D = "file:secrets/worker" }
        [notifications.ntfy]
        topic = "t"
        token = "file:secrets/ntfy"
        [[notifications.webhooks]]
        url = "https://one.example"
        token = "file:secrets/hook"
        "#,
    );
    let expected = [
        "project/secrets/gateway",
        "key",
        "project/secrets/hook",
        "project/secrets/ntfy",
        "project/secrets/mcp",
        "project/secrets/worker",
    ];
    assert_eq!(bench.load().config.secret_files(), expected.map(|path| bench.path(path)));
}

#[test]
fn runs_may_have_a_token_of_their_own() {
    let bench = Bench::with_file("[gateway]\ntoken = \"env:A\"\n[runs]\ntoken = \"env:B\"").env("A", "a").env("B", "b");
    assert_eq!(text(secrets(&bench).runs_token.as_ref()), Some("b"));
    let none = secrets(&Bench::new());
    assert!(none.gateway_token.is_none() && none.runs_token.is_none() && none.bridge_token.is_none());
}

#[test]
fn references_that_lead_nowhere() {
    let bench = Bench::with_file(
        r#"
[gateway]
token = "env:UNSET"
[runs]
token = "env:EMPTY"
[bridge]
token = "file:missing"
[providers.a]
kind = "openai"
api_key = "file:empty"
[providers.main]
kind = "openai"
api_key = "file:."
[mcp.x]
url = "https://h"
token = "file:binary"
"#,
    )
    .env("EMPTY", "")
    .file("project/empty", " \n");
    std::fs::write(bench.path("project/binary"), [0xff]).unwrap();
    assert_eq!(
        bench.complaints(),
        r#"
error[PB0108] gateway.token (patchboard.toml:3): environment variable `UNSET` is not set
  hint: set it before starting: export UNSET=…
error[PB0108] runs.token (patchboard.toml:5): environment variable `EMPTY` is not set
  hint: set it before starting: export EMPTY=…
error[PB0108] bridge.token (patchboard.toml:7): file `~/project/missing` cannot be read: no such file
  hint: create ~/project/missing with mode 0600
error[PB0108] providers.a.api_key (patchboard.toml:10): file `~/project/empty` is empty
  hint: put the secret and nothing else into ~/project/empty
error[PB0108] providers.main.api_key (patchboard.toml:13): file `~/project` does not hold a secret: not text, or over 64 KiB
  hint: put the secret and nothing else into ~/project
error[PB0108] mcp.x.token (patchboard.toml:16): file `~/project/binary` does not hold a secret: not text, or over 64 KiB
  hint: put the secret and nothing else into ~/project/binary
"#
        .trim()
    );
    // Looking at the configuration works without them; starting does not.
    assert!(bench.load().config.gateway.token.is_some());
    assert_eq!(Config::load_for_start(bench.request()).unwrap_err().iter().count(), 6);
}

#[test]
fn an_oversized_file_is_no_secret() {
    let bench = Bench::with_file("[gateway]\ntoken = \"file:big\"").file("project/big", &"x".repeat(64 * 1024 + 1));
    assert!(bench.complaints().contains("over 64 KiB"));
    let fits = Bench::with_file("[gateway]\ntoken = \"file:big\"").file("project/big", &"x".repeat(64 * 1024));
    assert_eq!(fits.complaints(), "");
}

#[test]
fn keys_of_providers_that_name_none() {
    let stored = ".config/patchboard/credentials";
    type Pairs<'a> = &'a [(&'a str, &'a str)];
    let cases: [(&str, Pairs<'_>, Pairs<'_>, Option<&str>); 9] = [
        ("kind = \"openai\"", &[("OPENAI_API_KEY", "from-env")], &[("x", "stored")], Some("from-env")),
        ("kind = \"openai\"", &[("OPENAI_API_KEY", "")], &[("x", "stored")], Some("stored")),
        ("kind = \"openai\"", &[("ANTHROPIC_API_KEY", "other")], &[], None),
        ("kind = \"anthropic\"", &[("ANTHROPIC_API_KEY", "from-env")], &[], Some("from-env")),
        ("kind = \"anthropic\"", &[], &[("y", "stored")], None),
        ("kind = \"offline\"", &[("OPENAI_API_KEY", "from-env")], &[("x", "stored")], None),
        // A vendor's key does not go to another server.
        ("kind = \"openai\"\nbase_url = \"http://127.0.0.1:1\"", &[("OPENAI_API_KEY", "from-env")], &[], None),
        ("kind = \"openai\"\nbase_url = \"http://127.0.0.1:1\"", &[], &[("x", "stored")], Some("stored")),
        (
            "kind = \"openai\"\napi_key = \"env:MINE\"",
            &[("MINE", "mine"), ("OPENAI_API_KEY", "e")],
            &[("x", "s")],
            Some("mine"),
        ),
    ];
    for (provider, variables, files, wanted) in cases {
        let mut bench = Bench::with_users_file(&format!("[providers.x]\n{provider}"));
        for (name, value) in variables {
            bench = bench.env(name, value);
        }
        for (name, key) in files {
            bench = bench.file(&format!("{stored}/{name}.key"), key);
        }
        assert_eq!(text(secrets(&bench).provider_keys.get("x")), wanted, "{provider} {variables:?}");
    }
}

/// Takes every file with a secret for one that an agent put there.
#[derive(Debug)]
struct RefusesSecrets;

impl ConfigFileReader for RefusesSecrets {
    fn read(&self, file: &ConfigFile) -> io::Result<Option<String>> {
        DiskReader.read(file)
    }

    fn untrusted_secret_reason(&self, path: &Path) -> Option<String> {
        Some(format!("never trusted: {}", path.display()))
    }
}

#[test]
fn a_secret_that_waits_to_be_trusted_opens_nothing_and_stops_nothing() {
    let bench = Bench::with_file(
        r#"
        [gateway]
        token = "file:planted"
        [bridge]
        token = "file:planted"
        [channels.hook]
        plugin = "json"
        verify = "hmac-sha256"
        secret = "file:planted"
        [providers.x]
        kind = "openai"
        api_key = "file:planted"
        [[workers]]
        name = "py"
        command = ["x"]
        env = { C = "file:planted", D = "text" }
        "#,
    )
    .file("project/planted", "known-to-an-agent");
    let request = LoadRequest { reader: Arc::new(RefusesSecrets), ..bench.request() };
    let (loaded, secrets) = Config::load_for_start(request).unwrap();
    let doors = [&secrets.gateway_token, &secrets.runs_token, &secrets.bridge_token].map(Option::as_ref);
    for door in doors.into_iter().chain([secrets.channel_secrets.get("hook")]) {
        let unknown = text(door).expect("none would let everybody in");
        assert!(unknown.len() >= 32 && unknown != "known-to-an-agent");
    }
    assert_eq!(text(secrets.provider_keys.get("x")), None);
    assert_eq!(secrets.worker_env["py"].keys().collect::<Vec<_>>(), ["D"]);
    let warnings: Vec<String> = loaded.warnings.iter().map(|warning| bench.tidy(&warning.to_string())).collect();
    let told = warnings.iter().filter(|warning| warning.contains("`patchboard trust ~/project/planted`"));
    assert_eq!(told.count(), 5, "{warnings:#?}");
}
