//! Where plugins come from, what they offer, and how they go.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use patchboard_core::plugin::PluginState;
use serde_json::json;

use super::super::*;
use super::stub::Bench;

#[tokio::test]
async fn plugins_come_in_the_order_of_the_configuration_and_then_of_the_folder() {
    let mut bench = Bench::new();
    bench.put("z.wasm", &json!({"tools": {"echo": "Echoes.", "last": "Is last."}}));
    bench.put("b.wasm", &json!({"tools": {"echo": "Echoes too."}, "edition": 2}));
    bench.configure("z", &[]);
    bench.configure("b", &["store:notes"]);
    bench.put("plugins/m.wasm", &json!({"tools": {"echo": "Echoes three."}, "edition": 3}));
    bench.put("plugins/a.wasm", &json!({"channel": true}));
    let host = bench.start().await;

    let told: Vec<_> =
        host.list().into_iter().map(|report| (report.name, report.has_tools, report.has_channel)).collect();
    let expected = [("z", true, false), ("b", true, false), ("a", false, true), ("m", true, false)];
    assert_eq!(told, expected.map(|(name, tools, channel)| (name.into(), tools, channel)));
    let tools: Vec<_> = host.tools().iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(tools, ["echo", "last", "b.echo", "m.echo"]);
    assert!(Arc::ptr_eq(&host.tools(), &host.tools()), "nothing changed");

    assert_eq!(host.say("echo").await, "echo {} of edition 0");
    assert_eq!(host.say("z.echo").await, "echo {} of edition 0");
    assert_eq!(host.say("b.echo").await, "echo {} of edition 2");
    assert_eq!(host.say("m.echo").await, "echo {} of edition 3");
    assert_eq!(host.say("b.last").await, "NotFound: plugin `b` has no tool `last` now");
    assert_eq!(host.say("x.last").await, "NotFound: there is no plugin `x`");
    assert_eq!(host.say("first").await, "NotFound: no plugin has a tool `first` now");
}

#[tokio::test]
async fn a_tool_s_name_stays_its_plugin_s_whatever_becomes_of_it() {
    let mut bench = Bench::new();
    bench.put("notes.wasm", &json!({"tools": {"note_add": "Adds."}}));
    bench.configure("notes", &[]);
    let host = bench.start().await;
    bench.put("plugins/AAA.wasm", &json!({"tools": {"note_add": "Adds, and tells others."}, "edition": 2}));
    host.load("notes", CancellationToken::new()).await.unwrap();
    host.0.scan_folder().await;
    host.load("AAA", CancellationToken::new()).await.unwrap();
    host.unload("notes").await.unwrap();
    let tools: Vec<_> = host.tools().iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(tools, ["AAA.note_add"]);
    assert_eq!(host.say("note_add").await, "NotFound: no plugin has a tool `note_add` now");

    // Not even after a restart with a file that cannot be used.
    bench.put("notes.wasm", &json!({"refused": "is broken"}));
    let host = bench.start().await;
    let tools: Vec<_> = host.tools().iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(tools, ["AAA.note_add"]);
    assert_eq!(host.say("AAA.note_add").await, "note_add {} of edition 2");
}

#[tokio::test]
async fn everything_about_a_plugin_is_reported() {
    let mut bench = Bench::new();
    bench.put("p.wasm", &json!({"tools": {"echo": "Echoes.", "fail": "Fails."}}));
    bench.configure("p", &["store:notes"]);
    let host = bench.start().await;
    host.say("echo").await;
    host.say("fail").await;
    let expected = PluginReport {
        name: "p".into(),
        state: PluginState::Ready,
        source: bench.path("p.wasm").to_str().unwrap().into(),
        sha256: None,
        has_tools: true,
        has_channel: false,
        grants: vec!["store:notes".parse().unwrap()],
        tools: vec!["echo".into(), "fail".into()],
        loaded_at: Some(patchboard_core::scripted::ManualClock::default().now()),
        calls: 2,
        failures: 1,
        problem: None,
        changes: Vec::new(),
    };
    let mut report = host.report("p");
    assert_eq!(report.sha256.take().unwrap().len(), 64);
    assert_eq!(report, expected);
}

#[tokio::test]
async fn a_plugin_of_the_folder_never_takes_a_configured_ones_name() {
    let mut bench = Bench::new();
    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes."}}));
    bench.configure("echo", &[]);
    let mut second = bench.plugins[0].clone();
    second.file = bench.path("plugins/echo.wasm");
    bench.plugins.push(second);
    bench.put("plugins/echo.wasm", &json!({"tools": {"echo": "Steals."}, "edition": 1}));
    let host = bench.start().await;
    assert_eq!(host.list().len(), 1);
    assert_eq!(host.say("echo").await, "echo {} of edition 0");
    let warned = host.0.warned.lock().unwrap();
    assert!(warned.contains("the configuration has two plugins `echo`; the second is ignored"), "{warned:?}");
    assert!(warned.iter().any(|warning| warning.contains("is ignored: the configuration has a plugin `echo`")));
}

#[tokio::test]
async fn a_plugin_that_cannot_be_loaded_is_refused_and_the_others_work() {
    let mut bench = Bench::new();
    bench.put("bad.wasm", &json!({"broken": "it exports nothing"}));
    bench.put("good.wasm", &json!({"tools": {"echo": "Echoes."}}));
    bench.configure("bad", &["store:notes"]);
    bench.configure("absent", &[]);
    bench.configure("good", &[]);
    let host = bench.start().await;
    assert_eq!(host.state("bad"), PluginState::Refused);
    assert_eq!(host.problem("bad").as_deref(), Some("it exports nothing"));
    assert!(host.report("bad").sha256.is_some());
    assert_eq!(host.report("bad").grants, ["store:notes".parse().unwrap()]);
    assert_eq!(host.state("absent"), PluginState::Refused);
    assert_eq!(host.problem("absent").as_deref(), Some("its file is gone"));
    assert_eq!(host.state("good"), PluginState::Ready);
    assert_eq!(host.say("bad.echo").await, "NotFound: plugin `bad` is not loaded: it exports nothing");

    let refused = PluginError::Refused("`bad` cannot be loaded: it exports nothing".to_owned());
    assert_eq!(host.ask_load("bad").await, Err(refused));
    let PluginError::Refused(told) = host.ask_load("absent").await.unwrap_err() else { panic!("it was loaded") };
    assert!(told.starts_with("`absent` cannot be loaded: its file is gone: "), "{told}");
}

#[tokio::test]
async fn only_the_file_of_the_configured_hash_is_loaded() {
    let mut bench = Bench::new();
    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes."}}));
    bench.configure("echo", &[]).sha256 = Some([0xab; 32]);
    let host = bench.start().await;
    assert_eq!(host.state("echo"), PluginState::Refused);
    let (problem, sha256) = (host.problem("echo").unwrap(), host.report("echo").sha256.unwrap());
    let allowed = "ab".repeat(32);
    assert_eq!(*problem, format!("the configuration allows only the SHA-256 {allowed}, and its file has {sha256}"));
    assert_eq!(host.approve("echo").await, Err(PluginError::Unknown("nothing waits for approval: `echo`".to_owned())));
    assert_eq!(bench.loader.loads.load(std::sync::atomic::Ordering::SeqCst), 0, "it was not even compiled");

    let mut right = [0; 32];
    for (at, byte) in right.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&sha256[2 * at..2 * at + 2], 16).unwrap();
    }
    bench.configure("echo", &[]).sha256 = Some(right);
    assert_eq!(bench.start().await.state("echo"), PluginState::Ready);
}

#[tokio::test]
async fn what_the_operator_unloads_stays_away_until_it_is_loaded() {
    let bench = Bench::new();
    bench.put("plugins/echo.wasm", &json!({"tools": {"echo": "Echoes."}}));
    let host = bench.start().await;
    host.unload("echo").await.unwrap();
    assert_eq!(host.state("echo"), PluginState::Unloaded);
    assert_eq!(host.tools().len(), 0);
    assert_eq!(host.say("echo").await, "NotFound: no plugin has a tool `echo` now");
    assert_eq!(host.say("echo.echo").await, "NotFound: plugin `echo` is unloaded");
    host.unload("echo").await.unwrap();

    bench.put("plugins/echo.wasm", &json!({"tools": {"echo": "Echoes."}, "edition": 1}));
    host.look_twice().await;
    bench.remove("plugins/echo.wasm");
    host.look_twice().await;
    bench.put("plugins/echo.wasm", &json!({"tools": {"echo": "Echoes."}, "edition": 2}));
    host.look_twice().await;
    assert_eq!(host.state("echo"), PluginState::Unloaded);

    assert_eq!(host.ask_load("echo").await.unwrap(), host.report("echo"));
    assert_eq!(host.say("echo").await, "echo {} of edition 2");
    let PluginError::Unknown(told) = host.unload("shout").await.unwrap_err() else { panic!("it was unloaded") };
    let folder = bench.path("plugins");
    let expected = "no plugin is named, or has the file, `shout`: there are echo";
    assert_eq!(told, format!("{expected}; a new one is put into the configuration or into {}", folder.display()));
}

#[tokio::test]
async fn a_plugin_may_be_loaded_by_the_path_of_its_file_and_by_no_other() {
    let mut bench = Bench::new();
    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes."}}));
    bench.configure("echo", &[]);
    let host = bench.start().await;
    symlink(bench.path("echo.wasm"), bench.path("alias.wasm")).unwrap();
    for path in ["echo.wasm", "alias.wasm", "plugins/../echo.wasm"] {
        let path = bench.path(path);
        assert_eq!(&*host.ask_load(path.to_str().unwrap()).await.unwrap().name, "echo", "{}", path.display());
    }
    // Not seen before: it has only just been put there.
    bench.put("plugins/new.wasm", &json!({"tools": {"new": "Is new."}}));
    assert_eq!(&*host.ask_load("new.wasm").await.unwrap().name, "new");
    bench.put("plugins/newer.wasm", &json!({"tools": {"newer": "Is newer."}}));
    assert_eq!(&*host.ask_load("newer").await.unwrap().name, "newer");

    bench.put("other.wasm", &json!({"tools": {"other": "Is other."}}));
    symlink(bench.path("other.wasm"), bench.path("plugins/out.wasm")).unwrap();
    for path in [bench.path("other.wasm"), bench.path("absent.wasm"), "/etc/passwd".into(), "".into(), "..".into()] {
        let error = host.ask_load(path.to_str().unwrap()).await.unwrap_err();
        let is_unknown = matches!(error, PluginError::Unknown(_));
        // The one that leads out is known under its own name only, and refused.
        assert!(is_unknown || path == bench.path("other.wasm"), "{}: {error}", path.display());
    }
    let PluginError::Refused(told) = host.ask_load("out").await.unwrap_err() else { panic!("it was loaded") };
    assert!(told.contains("is a link that leads out of the plugins folder"), "{told}");
    assert_eq!(host.tools().iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["echo", "new", "newer"]);
}

#[tokio::test]
async fn places_that_anybody_may_write_to_are_told_once() {
    let bench = Bench::new();
    bench.put("plugins/echo.wasm", &json!({"tools": {"echo": "Echoes."}}));
    fs::set_permissions(bench.path("plugins/echo.wasm"), fs::Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(bench.path("plugins"), fs::Permissions::from_mode(0o777)).unwrap();
    let host = bench.start().await;
    assert_eq!(host.state("echo"), PluginState::Ready);
    host.look_twice().await;
    let mut warned: Vec<String> = host.0.warned.lock().unwrap().iter().cloned().collect();
    warned.sort();
    let (file, folder) = (bench.path("plugins/echo.wasm"), bench.path("plugins"));
    let expected = [
        format!("every user of this machine may change {}; revoke that right", file.display()),
        format!("every user of this machine may put plugins into {}; revoke that right", folder.display()),
    ];
    assert_eq!(warned, expected);
}

#[tokio::test(start_paused = true)]
async fn the_watch_sees_new_changed_and_removed_files() {
    let mut bench = Bench::new();
    bench.watch = true;
    let host = bench.start().await;
    assert_eq!(host.tools().len(), 0);
    let becomes = async |expected: &str| {
        // Paused time passes by itself; a machine under load only takes longer.
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if host.say("echo").await == expected {
                return;
            }
        }
        panic!("echo says {}, not {expected}", host.say("echo").await);
    };
    bench.put("plugins/echo.wasm", &json!({"tools": {"echo": "Echoes."}}));
    becomes("echo {} of edition 0").await;
    bench.put("plugins/echo.wasm", &json!({"tools": {"echo": "Echoes."}, "edition": 1}));
    becomes("echo {} of edition 1").await;
    bench.remove("plugins/echo.wasm");
    becomes("NotFound: no plugin has a tool `echo` now").await;
    host.0.stop.cancel();
    host.0.tasks.close();
    host.0.tasks.wait().await;
}

#[tokio::test]
async fn adapters_are_asked_by_the_name_of_their_plugin() {
    let mut bench = Bench::new();
    bench.put("talk.wasm", &json!({"channel": true}));
    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes."}}));
    bench.configure("talk", &[]);
    bench.configure("echo", &[]);
    let host = bench.start().await;
    let stop = CancellationToken::new;
    let webhook = Webhook {
        method: "POST".to_owned(),
        query: "a=1".to_owned(),
        headers: Vec::new(),
        body: bytes::Bytes::new(),
        digest: "".into(),
    };
    let reply =
        ChannelReply { context: String::new(), content: "hello".to_owned(), is_error: false, is_synchronous: false };
    let url = "https://a.example/".to_owned();
    let request = ChannelRequest { method: "GET".to_owned(), url, headers: Vec::new(), body: None, timeout: None };

    let incoming = host.parse_incoming("talk", webhook.clone(), stop()).await;
    assert_eq!(incoming, Ok(ParsedWebhook::Ignore("a=1".to_owned())));
    let outgoing = host.format_outgoing("talk", reply.clone(), stop()).await;
    assert_eq!(outgoing, Err(ChannelError::Failed("hello".to_owned())));
    assert_eq!(host.send("talk", request.clone(), stop()).await.unwrap().status, 200);

    host.unload("talk").await.unwrap();
    for (name, why) in [
        ("talk", "plugin `talk` is unloaded"),
        ("echo", "plugin `echo` is no channel adapter"),
        ("other", "there is no plugin `other`"),
    ] {
        let unavailable = ChannelError::Unavailable(why.to_owned());
        assert_eq!(host.parse_incoming(name, webhook.clone(), stop()).await, Err(unavailable.clone()));
        assert_eq!(host.format_outgoing(name, reply.clone(), stop()).await, Err(unavailable));
        assert_eq!(host.send(name, request.clone(), stop()).await, Err(FetchError::Failed(why.to_owned())));
    }
}
