//! Workspaces: names under which clients of runs put threads together, each principal's own.

use std::sync::Arc;

use jiff::Timestamp;

use crate::command::WorkspaceCommand;
use crate::error::{BoardError, ErrorKind};
use crate::port::{Batch, Clock, Durability, Ids, Space, Store, Write};
use crate::record;
use crate::reply::Reply;

/// Of one principal; the next one is refused.
const MAX_WORKSPACES: usize = 256;
/// In one workspace; the next one is refused.
const MAX_THREADS: usize = 2_000;
/// A longer name or thread id is refused.
const MAX_NAME_BYTES: usize = 512;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    pub id: Arc<str>,
    pub name: Arc<str>,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceThread {
    pub thread: Arc<str>,
    /// When it was put into the workspace.
    pub created_at: Timestamp,
}

#[derive(Debug)]
pub(crate) struct WorkspaceDesk {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    /// Lists are read, changed and written back; one change at a time, or one of two would be lost.
    changing: tokio::sync::Mutex<()>,
}

impl WorkspaceDesk {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        Self { store, clock, ids, changing: tokio::sync::Mutex::default() }
    }

    pub(crate) async fn answer(&self, principal: &str, command: WorkspaceCommand) -> Result<Reply, BoardError> {
        match command {
            WorkspaceCommand::List => Ok(Reply::Workspaces(self.workspaces(principal).await?)),
            WorkspaceCommand::Create { name } => self.create(principal, name).await,
            WorkspaceCommand::ListThreads { workspace } => {
                self.find(principal, &workspace).await?;
                Ok(Reply::WorkspaceThreads(self.threads(principal, &workspace).await?))
            }
            WorkspaceCommand::AddThread { workspace, thread } => self.add(principal, &workspace, thread).await,
            WorkspaceCommand::RemoveThread { workspace, thread } => self.remove(principal, &workspace, &thread).await,
        }
    }

    async fn create(&self, principal: &str, name: Option<Arc<str>>) -> Result<Reply, BoardError> {
        let _alone = self.changing.lock().await;
        let mut workspaces = self.workspaces(principal).await?;
        if workspaces.len() >= MAX_WORKSPACES {
            return Err(full(format!("there are {MAX_WORKSPACES} workspaces already")));
        }
        let name = name.unwrap_or_else(|| format!("Workspace {}", workspaces.len() + 1).into());
        check_length("name", &name)?;
        let workspace = Workspace { id: self.ids.next().to_string().into(), name, created_at: self.clock.now() };
        workspaces.push(workspace.clone());
        self.keep(list_key(principal), record::encode_workspaces(&workspaces)).await?;
        Ok(Reply::Workspace(workspace))
    }

    async fn add(&self, principal: &str, workspace: &str, thread: Arc<str>) -> Result<Reply, BoardError> {
        check_length("thread_id", &thread)?;
        if thread.is_empty() {
            return Err(BoardError::invalid("thread_id is required"));
        }
        let _alone = self.changing.lock().await;
        self.find(principal, workspace).await?;
        let mut threads = self.threads(principal, workspace).await?;
        if threads.iter().any(|known| known.thread == thread) {
            return Ok(Reply::Done);
        }
        if threads.len() >= MAX_THREADS {
            return Err(full(format!("there are {MAX_THREADS} threads in the workspace already")));
        }
        threads.push(WorkspaceThread { thread, created_at: self.clock.now() });
        self.keep(threads_key(principal, workspace), record::encode_workspace_threads(&threads)).await?;
        Ok(Reply::Done)
    }

    async fn remove(&self, principal: &str, workspace: &str, thread: &str) -> Result<Reply, BoardError> {
        let _alone = self.changing.lock().await;
        self.find(principal, workspace).await?;
        let mut threads = self.threads(principal, workspace).await?;
        let before = threads.len();
        threads.retain(|known| *known.thread != *thread);
        if threads.len() < before {
            self.keep(threads_key(principal, workspace), record::encode_workspace_threads(&threads)).await?;
        }
        Ok(Reply::Done)
    }

    async fn find(&self, principal: &str, workspace: &str) -> Result<(), BoardError> {
        let known = self.workspaces(principal).await?.iter().any(|known| *known.id == *workspace);
        if known { Ok(()) } else { Err(BoardError::not_found(format!("no workspace has the id {workspace}"))) }
    }

    async fn workspaces(&self, principal: &str) -> Result<Vec<Workspace>, BoardError> {
        let kept = self.store.kept(&Space::Server, &list_key(principal)).await?;
        kept.map_or_else(|| Ok(Vec::new()), |bytes| record::decode_workspaces(&bytes).map_err(unreadable))
    }

    async fn threads(&self, principal: &str, workspace: &str) -> Result<Vec<WorkspaceThread>, BoardError> {
        let kept = self.store.kept(&Space::Server, &threads_key(principal, workspace)).await?;
        kept.map_or_else(|| Ok(Vec::new()), |bytes| record::decode_workspace_threads(&bytes).map_err(unreadable))
    }

    async fn keep(&self, key: String, value: Vec<u8>) -> Result<(), BoardError> {
        let write = Write::Keep { space: Space::Server, key: key.into(), value: Some(value), at: self.clock.now() };
        Ok(self.store.commit(Batch { durability: Durability::Boundary, writes: vec![write] }).await?)
    }
}

fn list_key(principal: &str) -> String {
    format!("workspaces:{principal}")
}

/// Ids hold no colon, so that no two principals share a key.
fn threads_key(principal: &str, workspace: &str) -> String {
    format!("workspace-threads:{workspace}:{principal}")
}

fn check_length(field: &str, text: &str) -> Result<(), BoardError> {
    if text.len() > MAX_NAME_BYTES {
        return Err(BoardError::invalid(format!("{field} is longer than {MAX_NAME_BYTES} bytes")));
    }
    Ok(())
}

fn full(message: String) -> BoardError {
    BoardError::new(ErrorKind::Exhausted, message)
}

fn unreadable(error: record::RecordError) -> BoardError {
    BoardError::new(ErrorKind::Internal, "the workspaces cannot be read back").caused_by(error)
}
