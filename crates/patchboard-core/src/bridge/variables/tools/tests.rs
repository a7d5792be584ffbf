use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::id::{CallId, MemoryOwner, SessionKey};
use crate::in_memory::InMemoryStore;
use crate::model::ToolInput;
use crate::port::Clock;
use crate::port::ProgressSink;
use crate::scripted::ManualClock;
use crate::store::Store;

struct Fixture(VariableToolHost);

impl Fixture {
    fn new() -> Self {
        let store: Arc<dyn Store> = Arc::new(InMemoryStore::new());
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        Self(VariableToolHost(VariableStore::new(store, clock)))
    }

    async fn call(&self, session: &str, name: &str, arguments: Value) -> ToolOutput {
        let scope = ToolScope {
            session: SessionKey::bridge(session),
            owner: MemoryOwner::account("bridge", session),
            folder: None,
            folder_grant: None,
            progress: ProgressSink::default(),
            call_metadata: None,
        };
        let call = ToolCall {
            id: CallId("call-1".into()),
            name: name.into(),
            input: ToolInput::Json(Arc::new(arguments.clone())),
        };
        self.0.call(&scope, &call, &arguments, CancellationToken::new()).await
    }

    /// The tool's output as programs and models get it.
    async fn ok(&self, name: &str, arguments: Value) -> Value {
        let output = self.call("s", name, arguments).await;
        assert!(!output.is_error, "{name}: {}", output.content);
        let data = output.data.unwrap();
        let json: Value = serde_json::from_slice(data.json.as_ref().unwrap()).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&output.content).unwrap(), json);
        json
    }

    async fn refused(&self, name: &str, arguments: Value) -> String {
        let output = self.call("s", name, arguments).await;
        assert!(output.is_error, "{name}: {}", output.content);
        output.content.to_string()
    }
}

#[test]
fn every_tool_is_offered_with_its_arguments() {
    let fixture = Fixture::new();
    let offered = fixture.0.tools(None);
    assert!(Arc::ptr_eq(&offered, &fixture.0.tools(None)), "the list is the same one each time");
    let offered_tools: Vec<(&str, ToolEffect, Vec<&str>)> = offered
        .iter()
        .map(|spec| {
            let schema = &spec.input_schema;
            assert_eq!(schema["additionalProperties"], json!(false), "{}", spec.name);
            let arguments = schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
            (&*spec.name, spec.effect, arguments)
        })
        .collect();
    assert_eq!(
        offered_tools,
        [
            ("variable_set", ToolEffect::Writes, vec!["depends_on", "if_version", "name", "value"]),
            ("variable_get", ToolEffect::ReadOnly, vec!["name"]),
            ("variable_delete", ToolEffect::Writes, vec!["name"]),
            ("variable_list", ToolEffect::ReadOnly, vec!["prefix"]),
            ("variable_watch", ToolEffect::ReadOnly, vec!["names", "since", "timeout_ms"]),
        ]
    );
    assert!(offered[4].timeout.is_some_and(|timeout| timeout > Duration::from_millis(MAX_WAIT_MS)));
}

#[tokio::test]
async fn values_come_back_as_they_went_in() {
    let fixture = Fixture::new();
    for (version, value) in (1..).zip([json!(1), json!(1.0), json!(null), json!("1"), json!({"a": [true, null]})]) {
        let set = fixture.ok("variable_set", json!({"name": "x", "value": value})).await;
        assert_eq!(set, json!({"name": "x", "version": version, "stale": []}));
        let got = fixture.ok("variable_get", json!({"name": "x"})).await;
        let at = "2026-11-15T12:00:00Z";
        let expected = json!({"name": "x", "value": value, "version": version, "updated_at": at, "depends_on": [], "stale": false});
        assert_eq!(got, expected);
    }
}

#[tokio::test]
async fn what_is_missing_is_said() {
    let fixture = Fixture::new();
    assert_eq!(fixture.refused("variable_get", json!({"name": "x"})).await, "no variable is named x");
    assert_eq!(fixture.refused("variable_set", json!({"name": "x"})).await, "`value` must be given");
    assert_eq!(fixture.refused("variable_set", json!({"value": 1})).await, "`name` must be a text");
    let odd = json!({"name": "x", "value": 1, "depends_on": [1]});
    assert_eq!(fixture.refused("variable_set", odd).await, "`depends_on` must be a list of texts");
    let deleted = fixture.ok("variable_delete", json!({"name": "x"})).await;
    assert_eq!(deleted, json!({"name": "x", "deleted": false, "stale": []}));
    assert_eq!(fixture.refused("variable_none", json!({})).await, "unknown tool: variable_none");
}

#[tokio::test]
async fn dependencies_versions_and_lists_are_told() {
    let fixture = Fixture::new();
    fixture.ok("variable_set", json!({"name": "in.a", "value": 1})).await;
    fixture.ok("variable_set", json!({"name": "out", "value": 2, "depends_on": ["in.a", "in.b"]})).await;
    let set = fixture.ok("variable_set", json!({"name": "in.b", "value": 3, "if_version": 0})).await;
    assert_eq!(set, json!({"name": "in.b", "version": 1, "stale": ["out"]}));
    let reason = fixture.refused("variable_set", json!({"name": "in.b", "value": 3, "if_version": 0})).await;
    assert_eq!(reason, "`in.b` is at version 1, not 0");
    let listed = fixture.ok("variable_list", json!({})).await;
    let a = json!({"name": "in.a", "version": 1, "stale": false, "depends_on": []});
    let b = json!({"name": "in.b", "version": 1, "stale": false, "depends_on": []});
    let out = json!({"name": "out", "version": 1, "stale": true, "depends_on": ["in.a", "in.b"]});
    assert_eq!(listed, json!({"variables": [a, b, out]}));
    let listed = fixture.ok("variable_list", json!({"prefix": "in."})).await;
    assert_eq!(listed, json!({"variables": [a, b]}));
    let deleted = fixture.ok("variable_delete", json!({"name": "in.a"})).await;
    assert_eq!(deleted, json!({"name": "in.a", "deleted": true, "stale": ["out"]}));
}

#[tokio::test]
async fn sessions_do_not_see_each_other() {
    let fixture = Fixture::new();
    fixture.ok("variable_set", json!({"name": "x", "value": 1})).await;
    let other = fixture.call("other", "variable_get", json!({"name": "x"})).await;
    assert_eq!(&*other.content, "no variable is named x");
}

#[tokio::test(start_paused = true)]
async fn watching_is_told_in_full() {
    let fixture = Fixture::new();
    let nothing = fixture.ok("variable_watch", json!({"timeout_ms": 0})).await;
    let cursor = nothing["cursor"].as_u64().unwrap();
    assert_eq!(nothing, json!({"changes": [], "cursor": cursor}));
    fixture.ok("variable_set", json!({"name": "x", "value": null})).await;
    fixture.ok("variable_set", json!({"name": "y", "value": 1, "depends_on": ["x"]})).await;
    fixture.ok("variable_delete", json!({"name": "x"})).await;
    let update = fixture.ok("variable_watch", json!({"since": cursor})).await;
    let x = json!({"name": "x", "version": 1, "deleted": true, "stale": false});
    let y = json!({"name": "y", "version": 1, "value": 1, "deleted": false, "stale": true});
    assert_eq!(update["changes"], json!([x, y]));
    let update = fixture.ok("variable_watch", json!({"since": cursor, "names": ["z*", "y"]})).await;
    assert_eq!(update["changes"], json!([y]));
    // A cursor from before this session.
    let update = fixture.ok("variable_watch", json!({"since": 10_000_000})).await;
    assert_eq!(update, json!({"changes": [y], "cursor": cursor + 3, "reset": true}));
}
