use std::path::Path;

use secrecy::SecretString;

use super::*;
use crate::Secrets;
use crate::tests::bench::Bench;

/// Every key of the file, as a path whose chosen names are `name`; lists count as one value.
fn every_key() -> Vec<KeyPath> {
    fn visit(entry: &SchemaEntry, path: &KeyPath, keys: &mut Vec<KeyPath>) {
        match &entry.shape {
            ValueShape::Table { keys: children, .. } => {
                children.iter().for_each(|(key, child)| visit(child, &path.key(key), keys));
            }
            ValueShape::Map(child) => visit(child, &path.key("name"), keys),
            ValueShape::List(_) | ValueShape::Leaf(_) => keys.push(path.clone()),
        }
    }
    let mut keys = Vec::new();
    visit(shape::root(), &KeyPath::default(), &mut keys);
    keys
}

#[test]
fn every_key_is_in_exactly_one_class() {
    let keys = every_key();
    assert!(keys.len() > 150, "only {} keys found", keys.len());
    for key in &keys {
        let rows: Vec<&str> = RELOAD_CLASSES.iter().map(|(row, _)| *row).filter(|row| row_matches(row, key)).collect();
        assert_eq!(rows.len(), 1, "`{key}` is in the rows {rows:?} of RELOAD_CLASSES: say what a reload does with it");
    }
    for (row, _) in RELOAD_CLASSES {
        assert!(keys.iter().any(|key| row_matches(row, key)), "no key is meant by the row `{row}`");
    }
}

const BASE: &str = r#"
[providers.main]
kind = "openai"
base_url = "http://127.0.0.1:1/v1"
api_key = "env:FIRST_KEY"

[providers.other]
kind = "offline"

[agents.default]
provider = "main"
soul = "SOUL.md"

[budgets]
daily = 100

[tools.approval]
"bash" = "ask"
"#;

struct Pair {
    old: Bench,
    new: Bench,
}

impl Pair {
    /// Two benches whose files are alike but for `change`.
    fn new(change: impl Fn(&str) -> String) -> Self {
        let bench = |text: &str| {
            let bench = Bench::with_file(text).file("project/SOUL.md", "I am.").file("project/OTHER.md", "I was.");
            bench.env("FIRST_KEY", "first").env("SECOND_KEY", "second")
        };
        Self { old: bench(BASE), new: bench(&change(BASE)) }
    }

    /// What is taken over, and what waits; paths of the two benches read alike.
    fn merge(&self) -> (MergedConfig, Config) {
        let old = self.old.load().config;
        let text = toml::to_string(&self.new.load().config).unwrap();
        let folder = |bench: &Bench| bench.path("").display().to_string();
        let new: Config = toml::from_str(&text.replace(&folder(&self.new), &folder(&self.old))).unwrap();
        let merged = merge(&old, &new, &|path| path.starts_with("/protected")).unwrap();
        (merged, old)
    }
}

fn shown(paths: &[KeyPath]) -> Vec<String> {
    paths.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn check(change: impl Fn(&str) -> String, changed: &[&str], needs_restart: &[&str]) -> (MergedConfig, Config) {
    let (merged, old) = Pair::new(change).merge();
    assert_eq!((shown(&merged.changed), shown(&merged.needs_restart)), (owned(changed), owned(needs_restart)));
    (merged, old)
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn the_same_is_no_change() {
    let (merged, old) = check(str::to_owned, &[], &[]);
    assert_eq!(merged.config, old);
}

#[test]
fn what_can_be_taken_over_is_and_the_rest_keeps_its_old_value() {
    let change = |text: &str| {
        format!(
            "drain = \"1m\"\n{}\n\"read\" = \"deny\"\n[gateway]\nlisten = \"127.0.0.1:9\"\norphan_grace = \"5s\"\n\
             [limits]\nsession_queue = 3\nplugin_calls = 3\n[[bindings]]\nagent = \"default\"\nchannel = \"web\"\n",
            text.replace("daily = 100", "monthly = 7").replace("\"ask\"", "\"allow\"")
        )
    };
    let changed = [
        "gateway.orphan_grace",
        "bindings",
        "budgets.daily",
        "budgets.monthly",
        "tools.approval.bash",
        "tools.approval.read",
        "limits.session_queue",
    ];
    let (merged, old) = check(change, &changed, &["drain", "gateway.listen", "limits.plugin_calls"]);
    let config = merged.config;
    assert_eq!(
        (config.drain, config.gateway.listen, config.limits.plugin_calls),
        (old.drain, old.gateway.listen, old.limits.plugin_calls)
    );
    assert_eq!((config.budgets.daily, config.budgets.monthly, config.limits.session_queue), (None, Some(7), 3));
    assert_eq!((config.tools.approval.len(), config.bindings.len()), (2, 1));
}

#[test]
fn another_soul_waits_and_its_agent_does_not() {
    let change = |text: &str| text.replace("SOUL.md\"", "OTHER.md\"\nmodel = \"m\"");
    let (merged, old) = check(change, &["agents.default.model"], &["agents.default.soul"]);
    let agent = |config: &Config| config.agents["default"].clone();
    assert_eq!(agent(&merged.config).soul, agent(&old).soul);
    assert_eq!(agent(&merged.config).model.as_deref(), Some("m"));
}

#[test]
fn whole_tables_come_and_go_by_their_name() {
    let added =
        |text: &str| format!("{text}\n[agents.coder]\nprovider = \"other\"\nsoul = \"SOUL.md\"\nmodel = \"m\"\n");
    let (merged, _) = check(added, &["agents.coder"], &["agents.coder.soul"]);
    let coder = &merged.config.agents["coder"];
    assert_eq!((coder.model.as_deref(), coder.soul.as_deref()), (Some("m"), None));

    let removed = |text: &str| text.replace("[providers.other]\nkind = \"offline\"\n", "");
    let (merged, _) = check(removed, &["providers.other"], &[]);
    assert!(!merged.config.providers.contains_key("other"));

    let server = |text: &str| format!("{text}\n[mcp.files]\nurl = \"http://127.0.0.1:2/\"\n");
    let (merged, _) = check(server, &[], &["mcp.files"]);
    assert!(merged.config.mcp.is_empty());
}

#[test]
fn a_provider_is_taken_whole_or_not_at_all() {
    let with = |key: &'static str| {
        move |text: &str| text.replace("http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1").replace("env:FIRST_KEY", key)
    };
    let (merged, _) = check(with("env:SECOND_KEY"), &["providers.main.base_url", "providers.main.api_key"], &[]);
    assert!(merged.applies_provider("main"));

    // A file that programs could read until the next start: neither it nor the address that goes with it.
    let pair = Pair::new(with("file:/elsewhere/key"));
    let (merged, old) = pair.merge();
    assert_eq!((shown(&merged.changed), shown(&merged.needs_restart)), (vec![], owned(&["providers.main"])));
    assert_eq!(merged.config.providers["main"], old.providers["main"], "no key meets another's address");
    assert!(!merged.applies_provider("main"));

    let (merged, _) = Pair::new(with("file:/protected/key")).merge();
    assert!(merged.applies_provider("main"));
}

#[test]
fn changes_that_only_work_with_what_waits_are_problems() {
    let change = |text: &str| {
        format!("{text}\n[providers.far]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:3/v1\"\napi_key = \"file:/elsewhere/key\"\n")
        .replace("provider = \"main\"", "provider = \"far\"")
    };
    let pair = Pair::new(change);
    let (merged, _) = pair.merge();
    assert_eq!(shown(&merged.needs_restart), ["providers.far"]);
    let broken = merged.errors_from_deferred_keys(&pair.new.load().config);
    let shown: Vec<String> = broken.iter().map(|problem| problem.path.to_string()).collect();
    assert_eq!(shown, ["agents.default.provider"], "{broken:?}");
}

#[test]
fn keys_come_from_files_that_nothing_can_read() {
    let known = [PathBuf::from("/etc/key")];
    let closed = [PathBuf::from("/data")];
    let is = |path: &str| is_protected(Path::new(path), &known, &closed);
    assert!(is("/etc/key") && is("/data/keys/a"));
    assert!(!is("/etc/other") && !is("/data/../etc/other") && !is("/database"));
}

#[test]
fn secrets_that_changed_behind_their_reference_are_named() {
    let secret = |text: &str| SecretString::from(text.to_owned());
    let one = |name: &str, text: &str| [(name.to_owned(), secret(text))].into_iter().collect();
    let old = Secrets {
        gateway_token: Some(secret("a")),
        provider_keys: one("main", "a"),
        mcp_env: [("files".to_owned(), one("TOKEN", "a"))].into_iter().collect(),
        ..Secrets::default()
    };
    assert_eq!(shown(&secret_changes(&old, &old.clone())), [""; 0]);
    let new = Secrets {
        gateway_token: Some(secret("b")),
        provider_keys: one("main", "b"),
        mcp_env: [("files".to_owned(), one("TOKEN", "b"))].into_iter().collect(),
        worker_env: [("py".to_owned(), one("TOKEN", "b"))].into_iter().collect(),
        key_secrets: one("ci", "b"),
        ..Secrets::default()
    };
    assert_eq!(
        shown(&secret_changes(&old, &new)),
        ["gateway.token", "providers.main.api_key", "mcp.files.env", "workers", "keys"]
    );
}
