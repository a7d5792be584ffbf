//! Workspaces: named groups of threads for clients of the runs API, separate for each principal.

use crate::conversation::{Workspace, WorkspaceThread};
use std::sync::Arc;

use crate::error::{BoardError, ErrorKind};
use crate::port::{Clock, IdGenerator};
use crate::record;
use crate::store::{KvNamespace, Store, StoreWrite, WriteBatch};

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
    /// Lists are read, changed and written back, so changes are serialised; of two concurrent ones, one would be lost.
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
        let mut workspaces = self.list(principal).await?;
        if workspaces.len() >= MAX_WORKSPACES {
            return Err(limit_reached(format!("there are {MAX_WORKSPACES} workspaces already")));
        }
        let name = name.unwrap_or_else(|| format!("Workspace {}", workspaces.len() + 1).into());
        check_length("name", &name)?;
        let workspace = Workspace { id: self.ids.next().to_string().into(), name, created_at: self.clock.now() };
        workspaces.push(workspace.clone());
        self.put_value(list_key(principal), record::encode_workspaces(&workspaces)).await?;
        Ok(workspace)
    }

    pub(crate) async fn add(&self, principal: &str, workspace: &str, thread: Arc<str>) -> Result<(), BoardError> {
        check_length("thread_id", &thread)?;
        if thread.is_empty() {
            return Err(BoardError::invalid("thread_id is required"));
        }
        let _guard = self.write_lock.lock().await;
        self.find(principal, workspace).await?;
        let mut threads = self.threads(principal, workspace).await?;
        if threads.iter().any(|known| known.thread == thread) {
            return Ok(());
        }
        if threads.len() >= MAX_THREADS {
            return Err(limit_reached(format!("there are {MAX_THREADS} threads in the workspace already")));
        }
        threads.push(WorkspaceThread { thread, created_at: self.clock.now() });
        self.put_value(threads_key(principal, workspace), record::encode_workspace_threads(&threads)).await?;
        Ok(())
    }

    pub(crate) async fn remove(&self, principal: &str, workspace: &str, thread: &str) -> Result<(), BoardError> {
        let _guard = self.write_lock.lock().await;
        self.find(principal, workspace).await?;
        let mut threads = self.threads(principal, workspace).await?;
        let before = threads.len();
        threads.retain(|known| *known.thread != *thread);
        if threads.len() < before {
            self.put_value(threads_key(principal, workspace), record::encode_workspace_threads(&threads)).await?;
        }
        Ok(())
    }

    async fn find(&self, principal: &str, workspace: &str) -> Result<(), BoardError> {
        let known = self.list(principal).await?.iter().any(|known| *known.id == *workspace);
        if known { Ok(()) } else { Err(BoardError::not_found(format!("no workspace has the id {workspace}"))) }
    }

    pub(crate) async fn list(&self, principal: &str) -> Result<Vec<Workspace>, BoardError> {
        let stored = self.store.kv_get(&KvNamespace::Server, &list_key(principal)).await?;
        stored.map_or_else(|| Ok(Vec::new()), |bytes| record::decode_workspaces(&bytes).map_err(decode_error))
    }

    async fn threads(&self, principal: &str, workspace: &str) -> Result<Vec<WorkspaceThread>, BoardError> {
        let stored = self.store.kv_get(&KvNamespace::Server, &threads_key(principal, workspace)).await?;
        stored.map_or_else(|| Ok(Vec::new()), |bytes| record::decode_workspace_threads(&bytes).map_err(decode_error))
    }

    async fn put_value(&self, key: String, value: Vec<u8>) -> Result<(), BoardError> {
        let write = StoreWrite::put(KvNamespace::Server, key.into(), Some(value), self.clock.now());
        Ok(self.store.commit(WriteBatch::boundary(vec![write])).await?)
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
