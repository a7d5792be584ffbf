use crate::todo::Todo;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::executor::builtin::tests::{ALICE, Fixture, scope, session};
use crate::record::{decode_todos, encode_todos};
use crate::store::WriteBatch;

fn todo(id: &str, content: &str, status: TodoStatus, priority: TodoPriority) -> Todo {
    Todo { id: id.to_owned(), content: content.to_owned(), status, priority }
}

#[tokio::test]
async fn a_list_is_kept_for_each_session() {
    let fixture = Fixture::new();
    assert_eq!(fixture.ok(ALICE, READ, json!({})).await, "0 todos\n[]");
    let list = json!({"todos": [
        {"id": "1", "content": "buy milk"},
        {"id": 2, "content": "pay", "status": "in_progress", "priority": "high"},
        {"id": "3", "content": "rest", "status": "completed", "priority": null},
        {"id": "4", "content": "run", "status": "cancelled", "priority": "low"}
    ]});
    let written = fixture.ok(ALICE, WRITE, list).await;
    assert_eq!(fixture.ok(ALICE, READ, json!({})).await, written);
    let (head, listed) = written.split_once('\n').unwrap();
    assert_eq!(head, "2 todos");
    let expected = json!([
        {"id": "1", "content": "buy milk", "status": "pending", "priority": "medium"},
        {"id": "2", "content": "pay", "status": "in_progress", "priority": "high"},
        {"id": "3", "content": "rest", "status": "completed", "priority": "medium"},
        {"id": "4", "content": "run", "status": "cancelled", "priority": "low"}
    ]);
    assert_eq!(serde_json::from_str::<Value>(listed).unwrap(), expected);

    for other in [("alice", "2"), ("bob", "1")] {
        assert_eq!(fixture.ok(other, READ, json!({})).await, "0 todos\n[]", "{other:?} has none");
    }
    let shorter = fixture.ok(ALICE, WRITE, json!({"todos": [{"id": "1", "content": "sleep"}]})).await;
    assert!(shorter.starts_with("1 todos\n") && shorter.contains("sleep") && !shorter.contains("milk"), "{shorter}");
    assert_eq!(fixture.ok(ALICE, READ, json!({})).await, shorter);
    assert_eq!(fixture.ok(ALICE, WRITE, json!({"todos": []})).await, "0 todos\n[]");
    let namespace = KvNamespace::Session(session("alice", "1"));
    assert_eq!(fixture.store.kv_get(&namespace, STORAGE_KEY).await.unwrap(), None, "an empty list is not kept");
}

#[tokio::test]
async fn a_list_goes_with_its_session() {
    let fixture = Fixture::new();
    fixture.ok(ALICE, WRITE, json!({"todos": [{"id": "1", "content": "secret"}]})).await;
    let purge = StoreWrite::ClearSession { session: session("alice", "1"), at: Timestamp::UNIX_EPOCH, purge: true };
    fixture.store.commit(WriteBatch::boundary(vec![purge])).await.unwrap();
    assert_eq!(fixture.ok(ALICE, READ, json!({})).await, "0 todos\n[]");
}

#[tokio::test]
async fn bad_lists_are_refused_and_change_nothing() {
    let fixture = Fixture::new();
    let before = fixture.ok(ALICE, WRITE, json!({"todos": [{"id": "1", "content": "stay"}]})).await;
    let many: Vec<_> = (0..=MAX_TODOS).map(|id| json!({"id": id, "content": "x"})).collect();
    let long: Vec<_> = (0..30).map(|id| json!({"id": id, "content": "é".repeat(MAX_CONTENT_CHARACTERS)})).collect();
    for (todos, expected) in [
        (json!(null), "`todos` must be a list"),
        (json!("x"), "`todos` must be a list"),
        (json!(many), "a list holds at most 200 todos, not 201"),
        (json!(["x"]), "todos[0]: `id` must be a text"),
        (json!([{"content": "x"}]), "todos[0]: `id` must be a text"),
        (json!([{"id": "1"}]), "todos[0]: `content` must be a text"),
        (json!([{"id": "", "content": "x"}]), "todos[0]: `id` must not be empty"),
        (json!([{"id": "1", "content": ""}]), "todos[0]: `content` must not be empty"),
        (json!([{"id": "i".repeat(101), "content": "x"}]), "todos[0]: `id` is longer than 100 characters"),
        (json!([{"id": "1", "content": "c".repeat(2001)}]), "todos[0]: `content` is longer than 2000 characters"),
        (json!([{"id": "1", "content": "x"}, {"id": 1, "content": "y"}]), "todos[1]: the id `1` is used twice"),
        (
            json!([{"id": "1", "content": "x", "status": "done"}]),
            "todos[0]: `status` must be one of pending, in_progress, completed, cancelled",
        ),
        (json!([{"id": "1", "content": "x", "priority": 1}]), "todos[0]: `priority` must be one of high, medium, low"),
        (json!(long), "the list is longer than 49152 bytes; keep todos short"),
    ] {
        assert_eq!(fixture.refused(ALICE, WRITE, json!({"todos": todos})).await, expected);
    }
    assert_eq!(fixture.ok(ALICE, READ, json!({})).await, before);
}

#[tokio::test]
async fn a_list_that_cannot_be_read_is_said_so() {
    let fixture = Fixture::new();
    for bytes in ["", "[]", r#"{"v2":[]}"#] {
        let namespace = KvNamespace::Session(scope("alice", "1").session);
        let value = Some(bytes.as_bytes().to_vec());
        let write = StoreWrite::put(namespace, STORAGE_KEY.into(), value, Timestamp::UNIX_EPOCH);
        fixture.store.commit(WriteBatch::boundary(vec![write])).await.unwrap();
        let answer = fixture.refused(ALICE, READ, json!({})).await;
        assert_eq!(answer, "todo_read failed: storage: stored todos cannot be read");
    }
    // And it can be written anew.
    fixture.ok(ALICE, WRITE, json!({"todos": [{"id": "1", "content": "again"}]})).await;
    assert!(fixture.ok(ALICE, READ, json!({})).await.contains("again"));
}

#[test]
fn the_stored_form_stays_readable_and_is_written_as_it_always_was() {
    let todos = [
        todo("1", "é", TodoStatus::Pending, TodoPriority::High),
        todo("2", "b", TodoStatus::InProgress, TodoPriority::Medium),
        todo("3", "c", TodoStatus::Completed, TodoPriority::Low),
        todo("4", "d", TodoStatus::Cancelled, TodoPriority::Low),
    ];
    let fixture = concat!(
        r#"{"v1":[{"id":"1","content":"é","status":"pending","priority":"high"},"#,
        r#"{"id":"2","content":"b","status":"in_progress","priority":"medium"},"#,
        r#"{"id":"3","content":"c","status":"completed","priority":"low"},"#,
        r#"{"id":"4","content":"d","status":"cancelled","priority":"low"}]}"#,
    );
    assert_eq!(String::from_utf8(encode_todos(&todos)).unwrap(), fixture);
    assert_eq!(decode_todos(fixture.as_bytes()).unwrap(), todos);
}

proptest! {
    #[test]
    fn lists_survive_storage(listed in proptest::collection::vec(("\\PC{1,8}", ".{1,20}", 0..4_usize, 0..3_usize), 0..8)) {
        let todos: Vec<Todo> = listed
            .iter()
            .map(|(id, content, status, priority)| todo(id, content, TodoStatus::ALL[*status], TodoPriority::ALL[*priority]))
            .collect();
        prop_assert_eq!(decode_todos(&encode_todos(&todos)).unwrap(), todos);
    }
}
