//! Host functions for named stores that persist between calls.

use std::sync::Arc;

use patchboard_core::store;
use patchboard_core::store::{KvNamespace, KvUsage, StoreWrite, WriteBatch};

use super::until_deadline;
use crate::rights::HostServices;
use crate::state::CallState;
use crate::text::quote_untrusted;
use crate::world::patchboard::plugin::store::{Host, StoreError};

const MAX_KEY_BYTES: usize = 256;
const MAX_VALUE_BYTES: usize = 256 * 1024;
const MAX_KEYS: u64 = 10_000;
const MAX_STORE_BYTES: u64 = 16 * 1024 * 1024;
const MAX_LISTED: usize = 1000;

impl Host for CallState {
    async fn get(&mut self, store: String, key: String) -> wasmtime::Result<Result<Option<Vec<u8>>, StoreError>> {
        let (services, name) = match self.granted_store(&store).await? {
            Ok(granted) => granted,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if let Err(refusal) = check_key(&key) {
            return Ok(Err(refusal));
        }
        let found =
            until_deadline(self.deadline, &self.stop, services.store.kv_get(&KvNamespace::Plugins(name), &key)).await?;
        Ok(found.map_err(|error| self.store_failure(&error)))
    }

    async fn set(&mut self, store: String, key: String, value: Vec<u8>) -> wasmtime::Result<Result<(), StoreError>> {
        let (services, name) = match self.granted_store(&store).await? {
            Ok(granted) => granted,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if let Err(refusal) = check_key(&key) {
            return Ok(Err(refusal));
        }
        if value.len() > MAX_VALUE_BYTES {
            return Ok(Err(StoreError::Full(format!("the value is larger than {MAX_VALUE_BYTES} bytes"))));
        }
        let result =
            until_deadline(self.deadline, &self.stop, put_within_limits(&services, &name, &key, value)).await?;
        Ok(result.map_err(|refusal| match refusal {
            PutError::Full(reason) => StoreError::Full(reason),
            PutError::Failed(error) => self.store_failure(&error),
        }))
    }

    async fn delete(&mut self, store: String, key: String) -> wasmtime::Result<Result<(), StoreError>> {
        let (services, name) = match self.granted_store(&store).await? {
            Ok(granted) => granted,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if let Err(refusal) = check_key(&key) {
            return Ok(Err(refusal));
        }
        let result = until_deadline(self.deadline, &self.stop, put_value(&services, &name, &key, None)).await?;
        Ok(result.map_err(|error| self.store_failure(&error)))
    }

    async fn keys(
        &mut self,
        store: String,
        prefix: String,
        after: Option<String>,
    ) -> wasmtime::Result<Result<Vec<String>, StoreError>> {
        let (services, name) = match self.granted_store(&store).await? {
            Ok(granted) => granted,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if prefix.len() > MAX_KEY_BYTES || after.as_ref().is_some_and(|after| after.len() > MAX_KEY_BYTES) {
            let reason = format!("no key is longer than {MAX_KEY_BYTES} bytes");
            return Ok(Err(StoreError::Failed(reason)));
        }
        let namespace = KvNamespace::Plugins(name);
        let listing = services.store.kv_keys(&namespace, &prefix, after.as_deref(), MAX_LISTED);
        let found = until_deadline(self.deadline, &self.stop, listing).await?;
        Ok(match found {
            Ok(keys) => Ok(keys.iter().map(|key| key.to_string()).collect()),
            Err(error) => Err(self.store_failure(&error)),
        })
    }
}

impl CallState {
    /// The store, if it is granted.
    async fn granted_store(&mut self, store: &str) -> wasmtime::Result<Result<(HostServices, Arc<str>), StoreError>> {
        self.begin_host_call().await?;
        if let Some(name) = self.rights.stores.iter().find(|granted| ***granted == *store) {
            return Ok(Ok((self.rights.services.clone(), name.clone())));
        }
        let (store, grant) = (quote_untrusted(store), format!("store:{}", quote_untrusted(store)));
        let reason = self.rights.denial_message(&format!("store `{store}`"), &grant);
        Ok(Err(StoreError::Denied(self.log_refusal(&grant, reason))))
    }

    /// The plugin receives the attempted operation only; the cause is logged.
    fn store_failure(&self, error: &store::StoreError) -> StoreError {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::warn!(target: "plugin", plugin = %self.rights.plugin, %error, cause, "a plugin store failed");
        StoreError::Failed(error.to_string())
    }
}

enum PutError {
    Full(String),
    Failed(store::StoreError),
}

impl From<store::StoreError> for PutError {
    fn from(error: store::StoreError) -> Self {
        Self::Failed(error)
    }
}

/// Serialised per store, so that its contents cannot grow between the check and the write. A call that is cancelled
/// during the write releases the lock before the value is stored; the next check sees that value.
async fn put_within_limits(
    services: &HostServices,
    name: &Arc<str>,
    key: &str,
    value: Vec<u8>,
) -> Result<(), PutError> {
    let lock = services.store_lock(name);
    let _guard = lock.lock().await;
    let namespace = KvNamespace::Plugins(name.clone());
    let previous = services.store.kv_get(&namespace, key).await?;
    if previous.as_ref().is_none_or(|previous| previous.len() < value.len()) {
        let usage = services.store.kv_usage(&namespace).await?;
        check_capacity(name, usage, key, previous.as_deref(), &value).map_err(PutError::Full)?;
    }
    Ok(put_value(services, name, key, Some(value)).await?)
}

fn check_capacity(name: &str, usage: KvUsage, key: &str, previous: Option<&[u8]>, value: &[u8]) -> Result<(), String> {
    let added = match previous {
        Some(previous) => value.len().saturating_sub(previous.len()),
        None if usage.keys >= MAX_KEYS => {
            return Err(format!("store `{name}` holds {MAX_KEYS} keys, and takes no more"));
        }
        None => key.len() + value.len(),
    };
    match usage.bytes.saturating_add(added as u64) <= MAX_STORE_BYTES {
        true => Ok(()),
        false => Err(format!("store `{name}` would hold more than {MAX_STORE_BYTES} bytes")),
    }
}

async fn put_value(
    services: &HostServices,
    name: &Arc<str>,
    key: &str,
    value: Option<Vec<u8>>,
) -> Result<(), store::StoreError> {
    let (namespace, at) = (KvNamespace::Plugins(name.clone()), services.clock.now());
    let write = StoreWrite::put(namespace, key.into(), value, at);
    services.store.commit(WriteBatch::boundary(vec![write])).await
}

fn check_key(key: &str) -> Result<(), StoreError> {
    match key.len() {
        0 => Err(StoreError::Failed("the key is empty".to_owned())),
        1..=MAX_KEY_BYTES => Ok(()),
        _ => Err(StoreError::Full(format!("the key is longer than {MAX_KEY_BYTES} bytes"))),
    }
}
