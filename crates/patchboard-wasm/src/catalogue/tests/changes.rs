//! Files that change, and what has to be approved.

use patchboard_core::plugin::PluginState;
use patchboard_core::store::{KvNamespace, StoreWrite, WriteBatch};
use serde_json::json;

use super::super::*;
use super::stub::Bench;

fn listed(changes: &[&str]) -> Vec<Arc<str>> {
    changes.iter().map(|change| (*change).into()).collect()
}

#[tokio::test]
async fn a_file_that_wants_no_more_takes_over_when_it_is_stable() {
    let mut bench = Bench::new();
    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes.", "slow": "Waits."}, "imports": ["log"]}));
    bench.configure("echo", &[]);
    let host = bench.start().await;
    host.look_twice().await;
    let before = host.tools();
    let under_way = TaskTracker::new().spawn({
        let host = host.clone();
        async move { host.say("slow").await }
    });
    tokio::task::yield_now().await;

    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes.", "slow": "Waits."}, "edition": 1}));
    host.look_once().await;
    assert_eq!(host.say("echo").await, "echo {} of edition 0", "it may still be written to");
    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes.", "slow": "Waits."}, "edition": 2}));
    host.look_once().await;
    assert_eq!(host.say("echo").await, "echo {} of edition 0", "it was written to again");
    host.look_once().await;
    assert_eq!(host.say("echo").await, "echo {} of edition 2");
    assert!(Arc::ptr_eq(&host.tools(), &before), "the tools are the same");

    bench.loader.gate.add_permits(1);
    assert_eq!(under_way.await.unwrap(), "slow {} of edition 0", "it ends on the version it began with");
    assert_eq!(host.report("echo").calls, 4, "those of all versions");
    host.unload("echo").await.unwrap();
    assert_eq!(host.report("echo").calls, 4);
}

#[tokio::test]
async fn a_file_that_wants_more_is_held_and_the_old_version_goes_on() {
    let mut bench = Bench::new();
    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes."}}));
    bench.configure("echo", &[]);
    let host = bench.start().await;
    let greedy = json!({"tools": {"echo": "Obey me.", "more": "More."}, "imports": ["http"], "edition": 1});
    bench.put("echo.wasm", &greedy);
    host.look_twice().await;
    let changes = ["asks for interface http", "tool echo: other description", "new tool more"];
    let report = host.report("echo");
    assert_eq!((report.state, report.changes), (PluginState::Ready, listed(&changes)));
    assert_eq!(host.say("echo").await, "echo {} of edition 0");
    assert_eq!(host.tools().len(), 1);
    let PluginError::AwaitingApproval(told) = host.ask_load("echo").await.unwrap_err() else { panic!("it was loaded") };
    let old = host.report("echo").sha256.unwrap();
    let expected = format!("`echo` waits for approval: {}; version {} goes on working", changes.join("; "), &old[..12]);
    assert_eq!(told, expected);

    // The old one comes back: nothing waits any more.
    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes."}}));
    host.look_twice().await;
    assert_eq!((host.state("echo"), host.changes("echo")), (PluginState::Ready, Vec::new()));
    let nothing = PluginError::Unknown("nothing waits for approval: `echo`".to_owned());
    assert_eq!(host.approve("echo").await, Err(nothing.clone()));

    bench.put("echo.wasm", &greedy);
    host.look_twice().await;
    let report = host.approve("echo").await.unwrap();
    assert_eq!((report.state, report.changes.len(), report.tools.len()), (PluginState::Ready, 0, 2));
    assert_eq!(host.say("more").await, "more {} of edition 1");
    assert_eq!(host.approve("echo").await, Err(nothing));

    // What was approved is remembered.
    let host = bench.start().await;
    assert_eq!(host.say("more").await, "more {} of edition 1");
}

#[tokio::test]
async fn after_a_restart_what_is_held_is_not_offered() {
    let mut bench = Bench::new();
    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes."}}));
    bench.configure("echo", &[]);
    bench.start().await;
    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes."}, "imports": ["store"], "channel": true}));
    let host = bench.start().await;
    let report = host.report("echo");
    assert_eq!((report.state, report.has_tools, report.has_channel), (PluginState::AwaitingApproval, true, true));
    assert_eq!(report.tools, Vec::<Arc<str>>::new());
    assert_eq!(report.changes, listed(&["asks for interface store", "is a channel adapter now"]));
    assert_eq!(host.tools().len(), 0);
    assert_eq!(host.say("echo.echo").await, "NotFound: plugin `echo` waits for the operator's approval");
    assert_eq!(host.approve("echo").await.unwrap().state, PluginState::Ready);
    assert_eq!(host.say("echo").await, "echo {} of edition 0");
}

#[tokio::test]
async fn a_pin_that_cannot_be_read_is_never_replaced_unasked() {
    let mut bench = Bench::new();
    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes."}}));
    bench.configure("echo", &[]);
    bench.start().await;
    let (namespace, key) = (KvNamespace::Server, Arc::from("plugins/pins/echo"));
    let spoiled = StoreWrite::put(namespace, key, Some(b"{".to_vec()), jiff::Timestamp::UNIX_EPOCH);
    bench.store.commit(WriteBatch::boundary(vec![spoiled])).await.unwrap();
    for _ in 0..2 {
        let host = bench.start().await;
        assert_eq!(host.state("echo"), PluginState::AwaitingApproval);
        assert!(host.changes("echo")[0].starts_with("what was approved of it cannot be read: "));
    }
    bench.start().await.approve("echo").await.unwrap();
    assert_eq!(bench.start().await.state("echo"), PluginState::Ready);
}

#[tokio::test]
async fn grants_in_the_configuration_are_the_operators_word_about_the_same_file() {
    let mut bench = Bench::new();
    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes."}}));
    bench.configure("echo", &[]);
    bench.start().await;
    bench.configure("echo", &["store:notes"]);
    let host = bench.start().await;
    assert_eq!((host.state("echo"), host.report("echo").grants.len()), (PluginState::Ready, 1));

    // It was pinned: another file with the same grants is not asked about.
    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes."}, "edition": 1}));
    assert_eq!(bench.start().await.state("echo"), PluginState::Ready);
    // Both at once: the operator may not have meant this file.
    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes."}, "edition": 2}));
    bench.configure("echo", &["store:notes", "store:more"]);
    assert_eq!(bench.start().await.changes("echo"), listed(&["new grant store:more"]));
    // Less is at once.
    bench.configure("echo", &[]);
    let host = bench.start().await;
    assert_eq!((host.state("echo"), host.report("echo").grants.len()), (PluginState::Ready, 0));
}

#[tokio::test]
async fn grants_beside_a_plugin_in_the_folder_have_to_be_approved() {
    let bench = Bench::new();
    bench.put("plugins/echo.wasm", &json!({"tools": {"echo": "Echoes."}}));
    bench.put_text("plugins/echo.toml", "grant store:notes\nset root=/");
    let host = bench.start().await;
    assert_eq!(host.report("echo").grants, ["store:notes".parse().unwrap()]);

    bench.put_text("plugins/echo.toml", "grant store:notes\ngrant http:a.example\nset root=/");
    host.look_twice().await;
    assert_eq!(host.changes("echo"), listed(&["new grant http:a.example"]));
    assert_eq!(host.report("echo").grants, ["store:notes".parse().unwrap()]);
    host.approve("echo").await.unwrap();
    assert_eq!(host.report("echo").grants.len(), 2);

    // Less, and other settings, are at once.
    bench.put_text("plugins/echo.toml", "grant store:notes\nset root=/other");
    host.look_twice().await;
    assert_eq!((host.report("echo").grants.len(), host.changes("echo")), (1, Vec::new()));
    bench.put_text("plugins/echo.toml", "nonsense");
    host.look_twice().await;
    let file = bench.path("plugins/echo.toml");
    assert_eq!(*host.problem("echo").unwrap(), format!("{}: `nonsense` is neither", file.display()));
    assert_eq!(host.state("echo"), PluginState::Ready, "with what it was given before");
    bench.remove("plugins/echo.toml");
    host.look_twice().await;
    assert_eq!((host.report("echo").grants.len(), host.problem("echo")), (0, None));
}

#[tokio::test]
async fn a_grant_that_is_taken_away_is_gone_even_while_the_new_version_is_held() {
    let bench = Bench::new();
    bench.put("plugins/echo.wasm", &json!({"tools": {"echo": "Echoes."}}));
    bench.put_text("plugins/echo.toml", "grant http:a.example\ngrant store:notes");
    let host = bench.start().await;
    bench.put("plugins/echo.wasm", &json!({"tools": {"echo": "Echoes."}, "imports": ["http"]}));
    host.look_twice().await;
    assert_eq!(host.state("echo"), PluginState::Ready);
    bench.put_text("plugins/echo.toml", "grant store:notes");
    host.look_twice().await;
    assert_eq!((host.state("echo"), host.tools().len()), (PluginState::AwaitingApproval, 0));
    assert_eq!(host.approve("echo").await.unwrap().grants, ["store:notes".parse().unwrap()]);
}

#[tokio::test]
async fn a_bad_new_file_leaves_the_old_version_at_work() {
    let mut bench = Bench::new();
    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes."}}));
    bench.configure("echo", &[]);
    let host = bench.start().await;
    bench.put("echo.wasm", &json!({"broken": "it is truncated"}));
    host.look_twice().await;
    let report = host.report("echo");
    assert_eq!((report.state, report.problem.as_deref()), (PluginState::Ready, Some("it is truncated")));
    assert_eq!(host.say("echo").await, "echo {} of edition 0");
    let told = "`echo` cannot be loaded: it is truncated; the earlier version goes on working";
    assert_eq!(host.ask_load("echo").await, Err(PluginError::Refused(told.to_owned())));
    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes."}, "edition": 1}));
    host.look_twice().await;
    assert_eq!((host.say("echo").await.as_str(), host.problem("echo")), ("echo {} of edition 1", None));
}

#[tokio::test]
async fn without_its_file_a_configured_plugin_goes_on_and_one_of_the_folder_does_not() {
    let mut bench = Bench::new();
    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes."}}));
    bench.configure("echo", &[]);
    bench.put("plugins/shout.wasm", &json!({"tools": {"shout": "Shouts."}}));
    let host = bench.start().await;
    bench.remove("echo.wasm");
    bench.remove("plugins/shout.wasm");
    host.look_once().await;
    assert_eq!(host.tools().len(), 2, "others may be on their way");
    host.look_twice().await;
    for (name, state) in [("echo", PluginState::Ready), ("shout", PluginState::Unloaded)] {
        assert_eq!((host.state(name), host.problem(name).as_deref()), (state, Some("its file is gone")));
    }
    assert_eq!(host.say("echo").await, "echo {} of edition 0");
    assert_eq!(host.say("shout.shout").await, "NotFound: plugin `shout` is unloaded");

    bench.put("echo.wasm", &json!({"tools": {"echo": "Echoes."}}));
    bench.put("plugins/shout.wasm", &json!({"tools": {"shout": "Shouts."}, "edition": 1}));
    host.look_twice().await;
    assert_eq!((host.problem("echo"), host.problem("shout")), (None, None));
    assert_eq!(host.say("shout").await, "shout {} of edition 1");
}
