//! Key-value entries: replaced, deleted, listed, measured, and deleted with their session.

use std::sync::Arc;

use patchboard_core::id::SessionKey;
use patchboard_core::store::{ExpectedVersion, KvNamespace, KvUsage, Store, StoreError, StoreWrite, WriteBatch};

use super::fixtures::{at, close_run, commit, commit_refused, event, expect_ok, run, session, text};

pub async fn kv_values_are_replaced_and_deleted(store: Arc<dyn Store>) {
    let stored = async |namespace: &KvNamespace, key: &str| expect_ok(store.kv_get(namespace, key).await);
    let namespaces = [namespace_of(&session("a")), namespace_of(&session("aa")), KvNamespace::Server];
    let keys = ["todos", "", "todos ", "Todos", "雨\0\"'"];
    for (index, namespace) in namespaces.iter().enumerate() {
        for key in keys {
            assert_eq!(stored(namespace, key).await, None, "nothing is kept yet");
            commit(&*store, vec![put_value(namespace, key, Some(value(index, key)))]).await;
        }
    }
    for (index, namespace) in namespaces.iter().enumerate() {
        for key in keys {
            assert_eq!(stored(namespace, key).await, Some(value(index, key)), "{namespace:?} {key:?}");
        }
    }
    let namespace = &namespaces[0];
    commit(&*store, vec![put_value(namespace, "todos", Some(b"second".to_vec()))]).await;
    assert_eq!(stored(namespace, "todos").await, Some(b"second".to_vec()));
    // The last write of a batch wins; values are arbitrary bytes, and an empty value differs from none.
    let twice =
        vec![put_value(namespace, "todos", Some(vec![1])), put_value(namespace, "todos", Some(vec![0, 255, 128]))];
    commit(&*store, twice).await;
    assert_eq!(stored(namespace, "todos").await, Some(vec![0, 255, 128]));
    commit(&*store, vec![put_value(namespace, "todos", Some(Vec::new()))]).await;
    assert_eq!(stored(namespace, "todos").await, Some(Vec::new()));
    let large: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    commit(&*store, vec![put_value(namespace, "large", Some(large.clone()))]).await;
    assert_eq!(stored(namespace, "large").await, Some(large));

    for _ in 0..2 {
        commit(&*store, vec![put_value(namespace, "todos", None)]).await;
        assert_eq!(stored(namespace, "todos").await, None, "deleting what is not there is fine");
    }
    assert_eq!(stored(&namespaces[1], "todos").await, Some(value(1, "todos")));
    assert_eq!(stored(&KvNamespace::Server, "todos").await, Some(value(2, "todos")));

    let refused =
        vec![put_value(namespace, "todos", Some(vec![1])), StoreWrite::Event(event(1, 9, text(&["does not follow"])))];
    commit_refused(&*store, refused).await;
    assert_eq!(stored(namespace, "todos").await, None, "a refused batch keeps nothing");
    assert_eq!(expect_ok(store.session(&session("a")).await), None, "keeping something does not begin a session");
}

pub async fn kv_values_are_deleted_with_their_session(store: Arc<dyn Store>) {
    let stored = async |namespace: &KvNamespace| expect_ok(store.kv_get(namespace, "todos").await);
    let (key, neighbour) = (session("purge"), session("purge 2"));
    let clear = |key: &SessionKey, purge| StoreWrite::ClearSession { session: key.clone(), at: at(50), purge };
    let write = |key: &SessionKey| put_value(&namespace_of(key), "todos", Some(b"buy milk".to_vec()));
    commit(&*store, vec![StoreWrite::OpenRun(run(1, &key)), write(&key), write(&neighbour)]).await;
    commit(&*store, vec![put_value(&KvNamespace::Server, "todos", Some(b"of the server".to_vec()))]).await;

    commit(&*store, vec![clear(&key, false)]).await;
    assert!(stored(&namespace_of(&key)).await.is_some(), "clearing hides turns and nothing else");
    commit(&*store, vec![clear(&key, true)]).await;
    assert_eq!(stored(&namespace_of(&key)).await, None);
    assert!(stored(&namespace_of(&neighbour)).await.is_some());
    assert_eq!(stored(&KvNamespace::Server).await, Some(b"of the server".to_vec()));

    // A running run of the purged session stores a value, which is deleted when the run ends …
    commit(&*store, vec![write(&key)]).await;
    assert!(stored(&namespace_of(&key)).await.is_some());
    commit(&*store, vec![close_run(1, 60)]).await;
    assert_eq!(stored(&namespace_of(&key)).await, None);

    // … unless the session has been started again.
    commit(&*store, vec![StoreWrite::OpenRun(run(2, &key))]).await;
    commit(&*store, vec![clear(&key, true)]).await;
    commit(&*store, vec![StoreWrite::OpenRun(run(3, &key)), write(&key)]).await;
    commit(&*store, vec![close_run(2, 70)]).await;
    assert!(stored(&namespace_of(&key)).await.is_some(), "the new run's");

    // The neighbour never had a run.
    commit(&*store, vec![clear(&neighbour, true)]).await;
    assert_eq!(stored(&namespace_of(&neighbour)).await, None);
}

pub async fn kv_keys_are_listed(store: Arc<dyn Store>) {
    let namespace = KvNamespace::Plugins("notes".into());
    let list = async |prefix: &str, after: Option<&str>, limit: usize| {
        let keys = expect_ok(store.kv_keys(&namespace, prefix, after, limit).await);
        keys.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(list("", None, 100).await, [""; 0]);
    // Sorted by bytes; the last two begin with the highest code points.
    let keys = [
        "",
        "\0",
        "\0a",
        "A",
        "a",
        "a ",
        "a%",
        "a\0",
        "a_",
        "aa",
        "ab",
        "ab\0",
        "abc",
        "b",
        "z",
        "\u{d7ff}",
        "\u{d7ff}x",
        "\u{e000}",
        "雨",
        "雨\0",
        "雨だ",
        "\u{10ffff}",
        "\u{10ffff}\u{10ffff}",
    ];
    let mut keys = keys.to_vec();
    keys.sort_unstable();
    for key in keys.iter().rev() {
        commit(&*store, vec![put_value(&namespace, key, Some(vec![1]))]).await;
    }
    // Other namespaces, some with similar names.
    for other in [
        KvNamespace::Server,
        KvNamespace::Plugins("note".into()),
        KvNamespace::Plugins("notes2".into()),
        namespace_of(&session("a")),
    ] {
        commit(&*store, vec![put_value(&other, "aaa", Some(vec![1]))]).await;
    }
    let mut afters: Vec<Option<&str>> = keys.iter().copied().map(Some).collect();
    afters.extend([None, Some("a!"), Some("not there"), Some("~")]);
    for prefix in keys.iter().copied().chain(["c", "a%b", "雨だれ", "\u{d7ff}\u{10ffff}"]) {
        for &after in &afters {
            let wanted = keys.iter().filter(|key| key.starts_with(prefix) && after.is_none_or(|after| **key > after));
            let wanted: Vec<&str> = wanted.copied().collect();
            assert_eq!(list(prefix, after, 100).await, wanted, "{prefix:?} after {after:?}");
            let few: Vec<&str> = wanted.into_iter().take(2).collect();
            assert_eq!(list(prefix, after, 2).await, few, "{prefix:?} after {after:?}, two of them");
        }
    }
    assert_eq!(list("", None, 0).await, [""; 0]);
    commit(&*store, vec![put_value(&namespace, "ab", None), put_value(&namespace, "aa", Some(vec![2]))]).await;
    assert_eq!(list("a", Some("a_"), 2).await, ["aa", "ab\0"], "what is deleted is not listed, what is replaced once");

    // The list length is bounded.
    let many = (0..1100).map(|number| put_value(&namespace, &format!("many/{number:04}"), Some(vec![1])));
    commit(&*store, many.collect()).await;
    let first = list("many/", None, usize::MAX).await;
    assert_eq!(first.len(), 1000);
    let rest = list("many/", first.last().map(String::as_str), usize::MAX).await;
    assert_eq!((rest.len(), rest.last().map(String::as_str)), (100, Some("many/1099")));
}

pub async fn kv_usage_is_measured(store: Arc<dyn Store>) {
    let namespace = KvNamespace::Plugins("notes".into());
    let size = async |namespace: &KvNamespace| {
        let KvUsage { keys, bytes } = expect_ok(store.kv_usage(namespace).await);
        (keys, bytes)
    };
    assert_eq!(size(&namespace).await, (0, 0));
    commit(
        &*store,
        vec![put_value(&namespace, "雨\0", Some(vec![0; 1000])), put_value(&namespace, "", Some(Vec::new()))],
    )
    .await;
    commit(&*store, vec![put_value(&KvNamespace::Server, "other", Some(vec![0; 5000]))]).await;
    assert_eq!(size(&namespace).await, (2, 1004), "bytes, not characters");
    commit(&*store, vec![put_value(&namespace, "雨\0", Some(vec![0; 10]))]).await;
    assert_eq!(size(&namespace).await, (2, 14), "replaced");
    commit(&*store, vec![put_value(&namespace, "雨\0", None)]).await;
    assert_eq!(size(&namespace).await, (1, 0), "deleted");
    assert_eq!(size(&KvNamespace::Server).await, (1, 5005));
}

fn namespace_of(session: &SessionKey) -> KvNamespace {
    KvNamespace::Session(session.clone())
}

fn value(index: usize, key: &str) -> Vec<u8> {
    format!("{index} {key}").into_bytes()
}

fn put_value(namespace: &KvNamespace, key: &str, value: Option<Vec<u8>>) -> StoreWrite {
    StoreWrite::put(namespace.clone(), key.into(), value, at(1))
}

pub async fn kv_values_have_versions(store: Arc<dyn Store>) {
    let namespace = KvNamespace::Server;
    let version = async |key: &str| expect_ok(store.kv_entry(&namespace, key).await).map(|entry| entry.version);
    let put = |key: &str, expected, value: &[u8]| put_value(&namespace, key, Some(value.to_vec())).expecting(expected);
    let conflicts = async |writes: Vec<StoreWrite>| {
        let answer = store.commit(WriteBatch::boundary(writes)).await;
        assert!(matches!(answer, Err(StoreError::Conflict)), "expected a conflict: {answer:?}");
    };
    conflicts(vec![put("a", ExpectedVersion::Exactly(1), b"x")]).await;
    commit(&*store, vec![put("a", ExpectedVersion::Absent, b"1")]).await;
    conflicts(vec![put("a", ExpectedVersion::Absent, b"x")]).await;
    let first = version("a").await;
    commit(&*store, vec![put("a", ExpectedVersion::Exactly(first.unwrap_or_default()), b"2")]).await;
    let second = version("a").await;
    assert_ne!(first, second, "every write makes a new version");
    conflicts(vec![put("a", ExpectedVersion::Exactly(first.unwrap_or_default()), b"x")]).await;
    conflicts(vec![put("b", ExpectedVersion::Absent, b"x"), put("a", ExpectedVersion::Absent, b"x")]).await;
    assert_eq!(version("b").await, None, "a refused batch takes nothing");
    assert_eq!(expect_ok(store.kv_get(&namespace, "a").await), Some(b"2".to_vec()));

    // A version is not used again for the same key, also when the value was deleted meanwhile.
    commit(&*store, vec![put_value(&namespace, "a", None)]).await;
    commit(&*store, vec![put("a", ExpectedVersion::Absent, b"3")]).await;
    let third = version("a").await;
    assert!(third != first && third != second, "{first:?} {second:?} {third:?}");
    conflicts(vec![put("a", ExpectedVersion::Exactly(second.unwrap_or_default()), b"x")]).await;
    // A writer may choose the version.
    let chosen = 7_000_000_000_000_007;
    commit(&*store, vec![put("c", ExpectedVersion::Absent, b"4").with_version(chosen)]).await;
    assert_eq!(version("c").await, Some(chosen));
    commit(&*store, vec![put("c", ExpectedVersion::Exactly(chosen), b"5")]).await;
}
