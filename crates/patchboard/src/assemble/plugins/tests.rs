use std::time::Duration;

use patchboard_config::Config;
use patchboard_core::webhook::ChannelOptions;
use patchboard_wasm::PluginLimits;
use secrecy::ExposeSecret;

use super::{channels, host_options, limits};
use crate::test_home::Bench;

#[test]
fn plugins_as_configured() {
    let hash = "0f".repeat(32);
    let text = format!(
        r#"
        [[plugins]]
        name = "telegram"
        path = "p/telegram.wasm"
        grants = ["http:API.telegram.org", "store:notes"]
        settings = {{ api_root = "https://api.telegram.org" }}
        secrets = {{ bot_token = "env:BOT_TOKEN" }}
        sha256 = "{}"
        [[plugins]]
        name = "echo"
        path = "p/echo.wasm"
        [wasm]
        watch = false
        "#,
        hash.to_uppercase()
    );
    let bench = Bench::with_file(&text)
        .env("BOT_TOKEN", "hunter2")
        .file("project/p/telegram.wasm", "w")
        .file("project/p/echo.wasm", "w");
    let (loaded, secrets) = Config::load_for_start(bench.request()).unwrap();
    let options = host_options(&loaded.config, &secrets, std::sync::Arc::new(|_, _| Ok(())));
    let [telegram, echo] = options.plugins.as_slice() else { panic!("{:?}", options.plugins) };
    assert_eq!((&*telegram.name, &telegram.file), ("telegram", &bench.path("project/p/telegram.wasm")));
    let grants: Vec<String> = telegram.grants.iter().map(ToString::to_string).collect();
    assert_eq!(grants, ["http:api.telegram.org", "store:notes"]);
    assert_eq!(telegram.settings["api_root"], "https://api.telegram.org");
    assert_eq!(telegram.secrets["bot_token"].expose_secret(), "hunter2");
    assert_eq!(telegram.sha256, Some([0x0f; 32]));
    assert!(echo.grants.is_empty() && echo.secrets.is_empty() && echo.sha256.is_none());
    assert_eq!(options.folder, Some(bench.path(".local/share/patchboard/plugins")));
    assert_eq!(options.cache, bench.path(".local/share/patchboard/cache/plugins"));
    assert!(!options.watch);
    assert_eq!(options.limits, PluginLimits::default());
    assert!(!format!("{options:?}").contains("hunter2"));
}

#[test]
fn limits_as_configured() {
    let text = "[limits]\nplugin_memory = \"8MiB\"\nplugin_time = \"2s\"\nplugin_fuel = 5000000\nplugin_output = \"64KiB\"\nplugin_calls = 3\n";
    let wanted = PluginLimits {
        memory: 8 * 1024 * 1024,
        time: Duration::from_secs(2),
        fuel: 5_000_000,
        output: 64 * 1024,
        calls: 3,
    };
    assert_eq!(limits(&Bench::with_file(text).load().config), wanted);
}

#[test]
fn channels_as_configured() {
    let text = r#"
        [channels.hook]
        plugin = "webhook-json"
        verify = "token"
        secret = "env:TOKEN"
        reply = "sync"
        wait = "3s"
        max_waiting = 7
        replay_window = "1m"
        [channels.slack]
        verify = "slack"
        secret = "env:TOKEN"
        wait = "3s"
    "#;
    let found = channels(&Bench::with_file(text).load().config);
    let hook = ChannelOptions {
        name: "hook".into(),
        plugin: "webhook-json".into(),
        wait: Some(Duration::from_secs(3)),
        max_open_deliveries: 7,
        replay_window: Duration::from_secs(120),
    };
    let slack = ChannelOptions {
        name: "slack".into(),
        plugin: "slack".into(),
        wait: None,
        max_open_deliveries: 1000,
        replay_window: Duration::from_secs(600),
    };
    assert_eq!(found, [hook, slack]);
}
