use patchboard_core::in_memory::InMemoryStore;
use patchboard_core::scripted::ManualClock;
use serde_json::json;

use super::*;
use crate::catalogue::tests::stub::{spec, version};

fn pin() -> PluginPin {
    let content = r#"{"imports": ["http", "log"], "channel": true, "tools": {"post": "Posts.", "read": "Reads."}}"#;
    let grants = ["http:a.example:443".parse().unwrap(), "store:notes".parse().unwrap()];
    PluginPin::of(&*version(content, &grants), &grants)
}

async fn keep(store: &InMemoryStore, bytes: &[u8]) {
    let at = ManualClock::default().now();
    let (space, key) = (KvNamespace::Server, "plugins/pins/poster".into());
    let keep = StoreWrite::put(space, key, Some(bytes.to_vec()), at);
    store.commit(WriteBatch::boundary(vec![keep])).await.unwrap();
}

#[tokio::test]
async fn what_is_written_is_read_again() {
    let store = InMemoryStore::new();
    assert_eq!(read(&store, "poster").await.unwrap(), PinLookup::Missing);
    write(&store, &ManualClock::default(), "poster", &pin()).await.unwrap();
    assert_eq!(read(&store, "poster").await.unwrap(), PinLookup::Known(pin()));
    assert_eq!(read(&store, "other").await.unwrap(), PinLookup::Missing);
}

#[tokio::test]
async fn a_pin_that_nobody_understands_is_not_an_absent_one() {
    let good: Value = serde_json::from_slice(&pin().to_bytes().unwrap()).unwrap();
    let with = |key: &str, value: Value| {
        let mut spoiled = good.clone();
        spoiled[key] = value;
        spoiled.to_string()
    };
    for (spoiled, says) in [
        ("{".to_owned(), "EOF"),
        ("{}".to_owned(), "version"),
        (with("version", json!(2)), "it is of form 2, and this server reads form 1"),
        (with("grants", json!(["http:"])), "is not a grant"),
        (with("tools", json!({"post": {}})), "missing field"),
        (with("more", json!(1)), "unknown field `more`"),
    ] {
        let store = InMemoryStore::new();
        keep(&store, spoiled.as_bytes()).await;
        let PinLookup::Unreadable(problem) = read(&store, "poster").await.unwrap() else {
            panic!("{spoiled} was read")
        };
        assert!(problem.contains(says), "{spoiled}: {problem}");
    }
}

#[tokio::test]
async fn a_store_that_fails_knows_nothing() {
    let store = InMemoryStore::new();
    store.close().await.unwrap();
    assert!(read(&store, "poster").await.is_err());
    assert!(write(&store, &ManualClock::default(), "poster", &pin()).await.is_err());
}

#[test]
fn the_order_of_a_schemas_keys_does_not_matter_and_everything_else_does() {
    let pinned = |schema: &str| {
        let input_schema = Arc::new(serde_json::from_str(schema).unwrap());
        PinnedTool::of(&ToolSpec { input_schema, ..spec("post", "Posts.", ToolEffect::Writes) })
    };
    let first = pinned(r#"{"type": "object", "properties": {"a": {"type": "string"}, "b": {}}}"#);
    assert_eq!(pinned(r#"{"properties": {"b": {}, "a": {"type": "string"}}, "type": "object"}"#), first);
    for other in [
        r#"{"type": "object", "properties": {"a": {"type": "number"}, "b": {}}}"#,
        r#"{"type": "object", "properties": {"a": {"type": "string", "b": {}}}}"#,
        r#"{"type": "object", "properties": ["a", {"type": "string"}, "b", {}]}"#,
        r#"{"type": "object"}"#,
    ] {
        assert_ne!(pinned(other), first, "{other}");
    }
    assert_ne!(pinned("null"), pinned(r#""null""#));
    assert_ne!(pinned(r#"["a", "b"]"#), pinned(r#"["a\ntext 1\nb"]"#));
}
