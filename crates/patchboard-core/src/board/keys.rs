//! Keys of clients: loading them, creating and revoking them, and what their clients may start.

use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

use super::Board;
use crate::caller::{Caller, Grant, Principal};
use crate::command::CreateKey;
use crate::error::{BoardError, ErrorKind};
use crate::keys::{Key, KeyNameClash, KeyRing, KeySource, KeySpec, MAX_KEYS};
use crate::record;
use crate::reply::KeyReport;
use crate::store::{AuditRow, KvNamespace, StoreError, StoreWrite, WriteBatch};

/// Prefix of the entries of created keys in the server's namespace.
const PREFIX: &str = "keys/";

/// Why a server cannot start with its keys.
#[derive(Debug, thiserror::Error)]
pub enum OpenKeysError {
    #[error(transparent)]
    Clash(#[from] KeyNameClash),
    #[error("the created keys cannot be read")]
    Store(#[from] StoreError),
    #[error("the created key `{name}` cannot be read back")]
    Record {
        name: Arc<str>,
        #[source]
        source: record::RecordError,
    },
}

/// The keys of a new configuration, checked. No key is created or revoked until they are applied or dropped.
#[derive(Debug)]
pub struct FileKeyChange {
    keys: Vec<KeySpec>,
    _changing: OwnedMutexGuard<()>,
}

impl Board {
    /// What surfaces compare shown secrets with.
    pub fn keys(&self) -> &Arc<KeyRing> {
        &self.0.run_deps.tool_executor.keys
    }

    /// Loads the created keys and adds those of the file. To be called once, before unfinished work is adopted.
    pub async fn open_keys(&self, file: Vec<KeySpec>) -> Result<(), OpenKeysError> {
        let store = &self.0.store;
        for stored in store.kv_keys(&KvNamespace::Server, PREFIX, None, MAX_KEYS).await? {
            let Some(bytes) = store.kv_get(&KvNamespace::Server, &stored).await? else { continue };
            let key = record::decode_key(&bytes).map_err(|source| {
                let name = stored.strip_prefix(PREFIX).unwrap_or(&stored).into();
                OpenKeysError::Record { name, source }
            })?;
            self.keys().add(key);
        }
        self.keys().check_file_keys(&file)?;
        self.keys().replace_file_keys(file);
        Ok(())
    }

    /// Checks the keys of a new configuration. Changes nothing.
    pub async fn prepare_file_keys(&self, keys: Vec<KeySpec>) -> Result<FileKeyChange, KeyNameClash> {
        let changing = self.0.key_changes.clone().lock_owned().await;
        self.keys().check_file_keys(&keys)?;
        Ok(FileKeyChange { keys, _changing: changing })
    }

    /// Applies them: clients of removed and changed keys are disconnected, runs of removed ones are cancelled.
    pub fn apply_file_keys(&self, change: FileKeyChange) {
        for removed in self.keys().replace_file_keys(change.keys) {
            self.cancel_runs_of_key(&removed);
        }
    }

    pub(super) fn list_keys(&self) -> Vec<KeyReport> {
        self.keys().all().iter().map(|key| KeyReport::of(&key.spec)).collect()
    }

    pub(super) async fn create_key(&self, caller: &Caller, request: CreateKey) -> Result<KeyReport, BoardError> {
        let CreateKey { name, hash, rights } = request;
        let now = self.0.clock.now();
        let key = KeySpec { name, hash, rights, source: KeySource::Created(now) };
        if let Some(problem) = key.problem() {
            return Err(BoardError::invalid(problem));
        }
        let agents = self.0.agents.get();
        for agent in key.rights.agents.iter().flatten() {
            agents.configured(agent).map_err(|unknown| BoardError::invalid(unknown.message))?;
        }
        let _changing = self.0.key_changes.lock().await;
        self.keys().check_name(&key.name)?;
        let put = StoreWrite::put(KvNamespace::Server, entry_key(&key.name), record::encode_key(&key), now);
        let audit = self.key_audit(caller, "key.create", &key.name);
        self.0.store.commit(WriteBatch::boundary(vec![put, audit])).await?;
        let report = KeyReport::of(&key);
        self.keys().add(key);
        Ok(report)
    }

    pub(super) async fn revoke_key(&self, caller: &Caller, name: &str) -> Result<(), BoardError> {
        let _changing = self.0.key_changes.lock().await;
        let Some(key) = self.keys().get(name) else {
            return Err(BoardError::not_found(format!("no key is named `{name}`; `patchboard keys list` shows all")));
        };
        if key.spec.source == KeySource::File {
            let message = format!(
                "the key `{name}` is in the configuration: remove its entry of `[[keys]]` there, then `patchboard reload`"
            );
            return Err(BoardError::new(ErrorKind::Conflict, message));
        }
        let delete = StoreWrite::put(KvNamespace::Server, entry_key(name), None, self.0.clock.now());
        let audit = self.key_audit(caller, "key.revoke", name);
        self.0.store.commit(WriteBatch::boundary(vec![delete, audit])).await?;
        self.keys().remove(name);
        self.cancel_runs_of_key(name);
        Ok(())
    }

    fn key_audit(&self, caller: &Caller, action: &str, name: &str) -> StoreWrite {
        StoreWrite::Audit(AuditRow {
            at: self.0.clock.now(),
            principal: caller.principal.text(),
            surface: caller.surface.name().into(),
            action: action.into(),
            subject: name.into(),
            run: None,
            detail: Arc::from(""),
        })
    }

    /// Also those that have no client any more: nobody answers for them now.
    fn cancel_runs_of_key(&self, name: &str) {
        let principal = Principal::Key(name.into()).text();
        for live in self.live_runs().values().filter(|live| live.principal == principal) {
            live.control.cancel.cancel();
        }
    }

    /// Refuses a caller whose key is not in force any more.
    pub(super) fn check_key(&self, caller: &Caller) -> Result<(), BoardError> {
        match caller.principal.key() {
            Some(name) => self.keys().require(name).map(drop),
            None => Ok(()),
        }
    }

    /// The keys whose budgets a report shows to this caller.
    pub(super) fn keys_seen_by(&self, caller: &Caller) -> Vec<Key> {
        if caller.grants.has(Grant::Oversee) {
            return self.keys().all();
        }
        caller.principal.key().and_then(|name| self.keys().get(name)).into_iter().collect()
    }

    /// Refuses an agent that the key may not start.
    pub(super) fn check_key_agent(&self, key: Option<&Arc<str>>, agent: &str) -> Result<(), BoardError> {
        let Some(name) = key else { return Ok(()) };
        let key = self.keys().require(name)?;
        if key.spec.may_start(agent) {
            return Ok(());
        }
        let allowed: Vec<&str> = key.spec.rights.agents.iter().flatten().map(|agent| &**agent).collect();
        let advice = if allowed.is_empty() {
            "it may start none".to_owned()
        } else {
            format!("name one of {}", allowed.join(", "))
        };
        Err(BoardError::forbidden(format!("the key `{name}` may not start the agent `{agent}`: {advice}")))
    }
}

fn entry_key(name: &str) -> Arc<str> {
    format!("{PREFIX}{name}").into()
}
