//! Workspaces: named groups of threads for clients of the runs API, separate for each principal.

use crate::conversation::{Workspace, WorkspaceThread};
use std::sync::Arc;

use crate::error::{BoardError, ErrorKind};
use crate::port::{Clock, IdGenerator};
use crate::record;
use crate::store::{ExpectedVersion, KvNamespace, Store, StoreWrite, WriteBatch};

/// Workspaces of one principal; further ones are refused.
const MAX_WORKSPACES: usize = 256;
/// Threads in one workspace; further ones are refused.
const MAX_THREADS: usize = 2_000;
/// Longer names and thread ids are refused.
const MAX_NAME_BYTES: usize = 512;

#[derive(Debug)]
pub(crate) struct WorkspaceService {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdGenerator>,
    /// Lists are read, changed and written back. Within this process changes are serialised; one of another process makes
    /// the write a conflict, which the client hears of and may try again.
    write_lock: tokio::sync::Mutex<()>,
}

impl WorkspaceService {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, ids: Arc<dyn IdGenerator>) -> Self {
        Self { store, clock, ids, write_lock: tokio::sync::Mutex::default() }
    }

    pub(crate) async fn list_threads(
        &self,
        principal: &str,
        workspace: &str,
    ) -> Result<Vec<WorkspaceThread>, BoardError> {
        self.find(principal, workspace).await?;
        self.threads(principal, workspace).await
    }

    pub(crate) async fn create(&self, principal: &str, name: Option<Arc<str>>) -> Result<Workspace, BoardError> {
        let _guard = self.write_lock.lock().await;
        let (mut workspaces, version) = self.read_list(principal).await?;
        if workspaces.len() >= MAX_WORKSPACES {
            return Err(limit_reached(format!("there are {MAX_WORKSPACES} workspaces already")));
        }
        let name = name.unwrap_or_else(|| format!("Workspace {}", workspaces.len() + 1).into());
        check_length("name", &name)?;
        let workspace = Workspace { id: self.ids.next().to_string().into(), name, created_at: self.clock.now() };
        workspaces.push(workspace.clone());
        self.put_value(list_key(principal), record::encode_workspaces(&workspaces), version).await?;
        Ok(workspace)
    }

    pub(crate) async fn add(&self, principal: &str, workspace: &str, thread: Arc<str>) -> Result<(), BoardError> {
        check_length("thread_id", &thread)?;
        if thread.is_empty() {
            return Err(BoardError::invalid("thread_id is required"));
        }
        let _guard = self.write_lock.lock().await;
        self.find(principal, workspace).await?;
        let (mut threads, version) = self.read_threads(principal, workspace).await?;
        if threads.iter().any(|known| known.thread == thread) {
            return Ok(());
        }
        if threads.len() >= MAX_THREADS {
            return Err(limit_reached(format!("there are {MAX_THREADS} threads in the workspace already")));
        }
        threads.push(WorkspaceThread { thread, created_at: self.clock.now() });
        let value = record::encode_workspace_threads(&threads);
        self.put_value(threads_key(principal, workspace), value, version).await?;
        Ok(())
    }

    pub(crate) async fn remove(&self, principal: &str, workspace: &str, thread: &str) -> Result<(), BoardError> {
        let _guard = self.write_lock.lock().await;
        self.find(principal, workspace).await?;
        let (mut threads, version) = self.read_threads(principal, workspace).await?;
        let before = threads.len();
        threads.retain(|known| *known.thread != *thread);
        if threads.len() < before {
            let value = record::encode_workspace_threads(&threads);
            self.put_value(threads_key(principal, workspace), value, version).await?;
        }
        Ok(())
    }

    async fn find(&self, principal: &str, workspace: &str) -> Result<(), BoardError> {
        let known = self.list(principal).await?.iter().any(|known| *known.id == *workspace);
        if known { Ok(()) } else { Err(BoardError::not_found(format!("no workspace has the id {workspace}"))) }
    }

    pub(crate) async fn list(&self, principal: &str) -> Result<Vec<Workspace>, BoardError> {
        Ok(self.read_list(principal).await?.0)
    }

    async fn read_list(&self, principal: &str) -> Result<(Vec<Workspace>, ExpectedVersion), BoardError> {
        self.read(&list_key(principal), record::decode_workspaces).await
    }

    async fn threads(&self, principal: &str, workspace: &str) -> Result<Vec<WorkspaceThread>, BoardError> {
        Ok(self.read_threads(principal, workspace).await?.0)
    }

    async fn read_threads(
        &self,
        principal: &str,
        workspace: &str,
    ) -> Result<(Vec<WorkspaceThread>, ExpectedVersion), BoardError> {
        self.read(&threads_key(principal, workspace), record::decode_workspace_threads).await
    }

    async fn read<T>(
        &self,
        key: &str,
        decode: impl Fn(&[u8]) -> Result<Vec<T>, record::RecordError>,
    ) -> Result<(Vec<T>, ExpectedVersion), BoardError> {
        let entry = self.store.kv_entry(&KvNamespace::Server, key).await?;
        let list = entry.as_ref().map_or_else(|| Ok(Vec::new()), |entry| decode(&entry.value).map_err(decode_error));
        Ok((list?, ExpectedVersion::of(entry.as_ref())))
    }

    async fn put_value(&self, key: String, value: Vec<u8>, version: ExpectedVersion) -> Result<(), BoardError> {
        let write = StoreWrite::put(KvNamespace::Server, key.into(), Some(value), self.clock.now());
        Ok(self.store.commit(WriteBatch::boundary(vec![write.expecting(version)])).await?)
    }
}

fn list_key(principal: &str) -> String {
    format!("workspaces:{principal}")
}

/// Ids contain no colon, so that no two principals share a key.
fn threads_key(principal: &str, workspace: &str) -> String {
    format!("workspace-threads:{workspace}:{principal}")
}

fn check_length(field: &str, text: &str) -> Result<(), BoardError> {
    if text.len() > MAX_NAME_BYTES {
        return Err(BoardError::invalid(format!("{field} is longer than {MAX_NAME_BYTES} bytes")));
    }
    Ok(())
}

fn limit_reached(message: String) -> BoardError {
    BoardError::new(ErrorKind::Exhausted, message)
}

fn decode_error(error: record::RecordError) -> BoardError {
    BoardError::new(ErrorKind::Internal, "the workspaces cannot be read back").caused_by(error)
}
