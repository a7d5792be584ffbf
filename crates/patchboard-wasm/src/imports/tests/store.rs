use patchboard_core::store::{KvNamespace, KvUsage, Store as _, StoreWrite, WriteBatch};

use super::*;
use crate::world::patchboard::plugin::store::{Host, StoreError};

async fn get(state: &mut CallState, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
    Host::get(state, "notes".to_owned(), key.to_owned()).await.unwrap()
}

async fn set(state: &mut CallState, key: &str, value: impl Into<Vec<u8>>) -> Result<(), StoreError> {
    Host::set(state, "notes".to_owned(), key.to_owned(), value.into()).await.unwrap()
}

async fn keys(state: &mut CallState, prefix: &str, after: Option<&str>) -> Result<Vec<String>, StoreError> {
    Host::keys(state, "notes".to_owned(), prefix.to_owned(), after.map(str::to_owned)).await.unwrap()
}

/// The sentence of an error, after its kind.
fn told<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result.unwrap_err() {
        StoreError::Denied(reason) => format!("denied: {reason}"),
        StoreError::Full(reason) => format!("full: {reason}"),
        StoreError::Failed(reason) => format!("failed: {reason}"),
    }
}

fn space() -> KvNamespace {
    KvNamespace::Plugins("notes".into())
}

/// Fills the store behind the plugin's back.
async fn fill(setting: &Setting, values: impl Iterator<Item = (String, usize)>) {
    let keep = |(key, size): (String, usize)| {
        let at = Timestamp::UNIX_EPOCH;
        StoreWrite::put(space(), key.into(), Some(vec![0; size]), at)
    };
    let writes = values.map(keep).collect();
    setting.store.commit(WriteBatch::boundary(writes)).await.unwrap();
}

#[tokio::test]
async fn values_are_kept_between_calls_and_shared_by_name() {
    let mut setting = Setting::new(&["store:notes", "store:other"]);
    let mut state = setting.call().await;
    assert_eq!(get(&mut state, "a").await.unwrap(), None);
    set(&mut state, "a", "one").await.unwrap();
    set(&mut state, "b/1", "two").await.unwrap();
    set(&mut state, "b/2", "").await.unwrap();
    set(&mut state, "a", "three").await.unwrap();
    setting.options.name = "neighbour".into();
    let mut neighbour = setting.call().await;
    assert_eq!(get(&mut neighbour, "a").await.unwrap(), Some(b"three".to_vec()));
    assert_eq!(get(&mut neighbour, "b/2").await.unwrap(), Some(vec![]));
    assert_eq!(keys(&mut neighbour, "", None).await.unwrap(), ["a", "b/1", "b/2"]);
    assert_eq!(keys(&mut neighbour, "b", Some("b/1")).await.unwrap(), ["b/2"]);
    Host::delete(&mut neighbour, "notes".to_owned(), "a".to_owned()).await.unwrap().unwrap();
    assert_eq!(get(&mut state, "a").await.unwrap(), None);
    let other = Host::keys(&mut state, "other".to_owned(), String::new(), None).await.unwrap();
    assert_eq!(other.unwrap(), [""; 0]);
    assert_eq!(setting.store.kv_usage(&space()).await.unwrap(), KvUsage { keys: 2, bytes: 9 });
}

#[tokio::test]
async fn a_store_that_is_not_granted_is_denied_and_named_in_the_log_once() {
    let logged = Logged::start();
    let mut state = Setting::new(&["store:Notes", "store:notes2", "host-function:notes"]).call().await;
    let denied = "denied: store `notes` is not granted to plugin `probe`: add \"store:notes\" to its grants";
    assert_eq!(told(get(&mut state, "a").await), denied);
    assert_eq!(told(set(&mut state, "a", "b").await), denied);
    assert_eq!(told(keys(&mut state, "", None).await), denied);
    let deleted = Host::delete(&mut state, "notes".to_owned(), "a".to_owned()).await.unwrap();
    assert_eq!(told(deleted), denied);
    let line = "WARN plugin: refused: store `notes` is not granted to plugin `probe`: add \"store:notes\" to its grants \
                plugin=probe";
    assert_eq!(logged.lines(), [line]);
    for number in 0..100 {
        let denied = Host::get(&mut state, format!("s{number}\n"), "a".to_owned()).await.unwrap();
        assert!(told(denied).contains(&format!("`s{number}\\n`")));
    }
    assert_eq!(logged.lines().len(), MAX_LOGGED_REFUSALS);
}

#[tokio::test]
async fn a_plugin_that_describes_itself_reaches_nothing() {
    let setting = Setting::new(&["store:notes"]);
    let mut state = setting.call_with(PluginRights::for_describe("probe".into(), setting.services.clone())).await;
    let denied = "denied: store `notes` is not granted to plugin `probe` while it describes itself: nothing is";
    assert_eq!(told(get(&mut state, "a").await), denied);
}

#[tokio::test]
async fn keys_and_values_are_bounded() {
    let mut state = Setting::new(&["store:notes"]).call().await;
    set(&mut state, &"k".repeat(256), vec![0; 256 * 1024]).await.unwrap();
    let long = "k".repeat(257);
    assert_eq!(told(set(&mut state, &long, "").await), "full: the key is longer than 256 bytes");
    assert_eq!(told(get(&mut state, &long).await), "full: the key is longer than 256 bytes");
    assert_eq!(told(set(&mut state, "", "").await), "failed: the key is empty");
    assert_eq!(
        told(set(&mut state, "a", vec![0; 256 * 1024 + 1]).await),
        "full: the value is larger than 262144 bytes"
    );
    assert_eq!(told(keys(&mut state, &long, None).await), "failed: no key is longer than 256 bytes");
    assert_eq!(told(keys(&mut state, "", Some(&long)).await), "failed: no key is longer than 256 bytes");
}

#[tokio::test]
async fn a_store_holds_so_many_keys() {
    let setting = Setting::new(&["store:notes"]);
    fill(&setting, (0..9_999).map(|number| (format!("{number:05}"), 1))).await;
    let mut state = setting.call().await;
    set(&mut state, "last", "").await.unwrap();
    assert_eq!(told(set(&mut state, "more", "").await), "full: store `notes` holds 10000 keys, and takes no more");
    // What is there may grow, shrink and go.
    set(&mut state, "last", "longer").await.unwrap();
    set(&mut state, "last", "").await.unwrap();
    Host::delete(&mut state, "notes".to_owned(), "00000".to_owned()).await.unwrap().unwrap();
    set(&mut state, "more", "").await.unwrap();
    assert_eq!(keys(&mut state, "", None).await.unwrap().len(), 1000);
}

#[tokio::test]
async fn a_store_holds_so_many_bytes() {
    let setting = Setting::new(&["store:notes"]);
    let value = 256 * 1024 - 4;
    fill(&setting, (0..64).map(|number| (format!("{number:04}"), value))).await;
    assert_eq!(setting.store.kv_usage(&space()).await.unwrap().bytes, 16 * 1024 * 1024);
    let mut state = setting.call().await;
    let full = "full: store `notes` would hold more than 16777216 bytes";
    assert_eq!(told(set(&mut state, "a", "").await), full);
    assert_eq!(told(set(&mut state, "0000", vec![0; value + 1]).await), full);
    set(&mut state, "0000", vec![0; value - 2]).await.unwrap();
    assert_eq!(told(set(&mut state, "ab", "c").await), full);
    set(&mut state, "ab", "").await.unwrap();
}

#[tokio::test]
async fn values_are_added_one_at_a_time() {
    let setting = Setting::new(&["store:notes"]);
    let mut state = setting.call().await;
    let gate = setting.services.store_lock(&"notes".into());
    let slot = gate.lock().await;
    let mut setting_one = std::pin::pin!(set(&mut state, "a", "b"));
    assert!(futures_util::poll!(&mut setting_one).is_pending());
    assert_eq!(setting.store.kv_usage(&space()).await.unwrap(), KvUsage::default());
    drop(slot);
    setting_one.await.unwrap();
    // The gate of another store is another one.
    let _turn = gate.lock().await;
    assert!(setting.services.store_lock(&"other".into()).try_lock().is_ok());
    assert!(setting.services.clone().store_lock(&"notes".into()).try_lock().is_err());
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_store_ends_with_the_call() {
    let setting = Setting::new(&["store:notes"]);
    let gate = setting.services.store_lock(&"notes".into());
    let _turn = gate.lock().await;
    let set = |state| Host::set(state, "notes".to_owned(), "a".to_owned(), vec![]);
    let (mut stopped, mut late) = (setting.call().await, setting.call().await);
    stopped.stop = CancellationToken::new();
    let stop = stopped.stop.clone();
    let (done, ()) = tokio::join!(set(&mut stopped), async { stop.cancel() });
    assert_eq!(ended(done), CallAborted::Cancelled);
    assert_eq!(ended(set(&mut late).await), CallAborted::OutOfTime);
}

#[tokio::test]
async fn a_store_that_fails_says_so() {
    let logged = Logged::start();
    let setting = Setting::new(&["store:notes"]);
    setting.store.close().await.unwrap();
    let mut state = setting.call().await;
    assert_eq!(told(get(&mut state, "a").await), "failed: the store is closed");
    assert_eq!(told(set(&mut state, "a", "b").await), "failed: the store is closed");
    assert_eq!(logged.lines().len(), 2);
}
