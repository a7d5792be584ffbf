//! The tools as a host, on a store in memory; each kind of tool has a file of its own.

use crate::tool::ToolKind;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::faulty::FaultyStore;
use crate::id::{CallId, MemoryOwner, SessionKey};
use crate::memory::MemoryOptions;
use crate::model::{ModelError, ToolInput};
use crate::port::Embedder;
use crate::port::ProgressSink;
use crate::scripted::{FixedSoul, ManualClock};
use crate::store::Store;

pub(super) struct Fixture {
    pub(super) store: Arc<FaultyStore>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) tools: CoreToolHost,
}

impl Fixture {
    pub(super) fn new() -> Self {
        Self::with(MemoryOptions::default(), None)
    }

    pub(super) fn with(options: MemoryOptions, embedder: Option<Arc<dyn Embedder>>) -> Self {
        let store = FaultyStore::new();
        let clock = Arc::new(ManualClock::default());
        let memory = Memory {
            options,
            store: store.clone(),
            clock: clock.clone(),
            souls: Arc::new(FixedSoul::default()),
            embedder,
        };
        Self { store, clock, tools: CoreToolHost::new(memory) }
    }

    /// One call in the conversation of that account with that peer.
    pub(super) async fn call(&self, (account, peer): (&str, &str), name: &str, arguments: Value) -> ToolOutput {
        let call = ToolCall {
            id: CallId("call-1".into()),
            name: name.into(),
            input: ToolInput::Json(Arc::new(arguments.clone())),
        };
        self.tools.call(&scope(account, peer), &call, &arguments, CancellationToken::new()).await
    }

    pub(super) async fn ok(&self, who: (&str, &str), name: &str, arguments: Value) -> String {
        let output = self.call(who, name, arguments).await;
        assert!(!output.is_error, "{name}: {}", output.content);
        output.content.to_string()
    }

    pub(super) async fn refused(&self, who: (&str, &str), name: &str, arguments: Value) -> String {
        let output = self.call(who, name, arguments).await;
        assert!(output.is_error, "{name}: {}", output.content);
        output.content.to_string()
    }
}

pub(super) const ALICE: (&str, &str) = ("alice", "1");

pub(super) fn session(account: &str, peer: &str) -> SessionKey {
    SessionKey::conversation("main", "web", account, peer)
}

pub(super) fn scope(account: &str, peer: &str) -> ToolScope {
    ToolScope {
        session: session(account, peer),
        owner: MemoryOwner::account("web", account),
        folder: None,
        folder_grant: None,
        progress: ProgressSink::default(),
        call_metadata: None,
    }
}

/// Knows a few words; texts are alike when they hold words of the same kind.
#[derive(Debug)]
pub(super) struct KindsOfWords;

impl Embedder for KindsOfWords {
    fn space(&self) -> &str {
        "kinds"
    }

    fn embed(&self, texts: Vec<String>, _stop: CancellationToken) -> BoxFuture<'_, Result<Vec<Vec<f32>>, ModelError>> {
        let kinds = [["coffee", "espresso", "drink"], ["dog", "cat", "pet"]];
        let vector = |text: &String| {
            kinds.iter().map(|kind| if kind.iter().any(|word| text.contains(word)) { 1.0 } else { 0.0 }).collect()
        };
        Box::pin(std::future::ready(Ok(texts.iter().map(vector).collect())))
    }
}

#[test]
fn every_tool_is_offered_with_its_arguments() {
    let offered = |options| -> Vec<(String, Value, ToolEffect)> {
        let specs = Fixture::with(options, None).tools.tools(None);
        assert!(specs.iter().all(|spec| spec.kind == ToolKind::BuiltIn));
        specs.iter().map(|spec| (spec.name.to_string(), spec.input_schema["required"].clone(), spec.effect)).collect()
    };
    let none = Value::Null;
    let of = |name: &str, required: Value, effect| (name.to_owned(), required, effect);
    let own = [
        of("batch", json!(["calls"]), ToolEffect::Writes),
        of("get_recent_messages", none.clone(), ToolEffect::ReadOnly),
        of("todo_read", none, ToolEffect::ReadOnly),
        of("todo_write", json!(["todos"]), ToolEffect::Writes),
    ];
    let memories = [
        of("list_memories", json!([]), ToolEffect::ReadOnly),
        of("recall", json!(["key"]), ToolEffect::ReadOnly),
        of("remember", json!(["key", "value"]), ToolEffect::Writes),
        of("search_memories", json!([]), ToolEffect::ReadOnly),
    ];
    assert_eq!(offered(MemoryOptions::default()), [own.as_slice(), &memories].concat());
    assert_eq!(offered(MemoryOptions { semantic: false, ..MemoryOptions::default() }), own, "no facts, no memories");
}

#[tokio::test]
async fn a_store_that_fails_is_an_answer() {
    let fixture = Fixture::new();
    fixture.store.fail(|_| true);
    let todos = json!({"todos": [{"id": "1", "content": "x"}]});
    for (name, arguments) in [("todo_write", todos), ("remember", json!({"key": "k", "value": "v"}))] {
        let answer = fixture.refused(ALICE, name, arguments).await;
        assert_eq!(answer, format!("{name} failed: storage: failed to commit a batch"));
    }
    fixture.store.stop_failing();
    fixture.store.close().await.unwrap();
    for (name, arguments) in [
        ("todo_read", json!({})),
        ("recall", json!({"key": "k"})),
        ("search_memories", json!({})),
        ("list_memories", json!({})),
        ("get_recent_messages", json!({})),
    ] {
        let answer = fixture.refused(ALICE, name, arguments).await;
        assert_eq!(answer, format!("{name} failed: storage: the store is closed"));
    }
}

#[tokio::test]
async fn limits_are_whole_numbers() {
    let fixture = Fixture::new();
    for name in ["search_memories", "list_memories", "get_recent_messages"] {
        for bad in [json!(0), json!(-1), json!(1.5), json!("10"), json!([])] {
            let answer = fixture.refused(ALICE, name, json!({"limit": bad})).await;
            assert_eq!(answer, "`limit` must be a whole number, 1 or more", "{name} {bad}");
        }
        for good in [json!(1), json!(u64::MAX), json!(null)] {
            fixture.ok(ALICE, name, json!({"limit": good})).await;
        }
    }
}

#[tokio::test]
async fn a_name_that_is_not_ours_is_no_tool() {
    let fixture = Fixture::new();
    assert_eq!(fixture.refused(ALICE, "bash", json!({})).await, "unknown tool: bash");
}
