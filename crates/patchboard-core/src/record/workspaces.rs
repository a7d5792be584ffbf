//! Workspaces and their threads. Key-value entries have no version column, so each value names its version itself.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{RecordError, model_messages};
use crate::conversation;
use crate::error::BoxError;

/// One variant per version.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum VersionedWorkspaces {
    V1(Vec<StoredWorkspace>),
}

#[derive(Serialize, Deserialize)]
struct StoredWorkspace {
    id: Arc<str>,
    name: Arc<str>,
    created_at: String,
}

/// One variant per version.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum VersionedWorkspaceThreads {
    V1(Vec<StoredWorkspaceThread>),
}

#[derive(Serialize, Deserialize)]
struct StoredWorkspaceThread {
    thread: Arc<str>,
    created_at: String,
}

pub(crate) fn encode_workspaces(workspaces: &[conversation::Workspace]) -> Vec<u8> {
    let stored = workspaces.iter().map(|workspace| StoredWorkspace {
        id: workspace.id.clone(),
        name: workspace.name.clone(),
        created_at: workspace.created_at.to_string(),
    });
    model_messages::encode(&VersionedWorkspaces::V1(stored.collect()))
}

pub(crate) fn decode_workspaces(bytes: &[u8]) -> Result<Vec<conversation::Workspace>, RecordError> {
    let VersionedWorkspaces::V1(stored) = model_messages::decode(bytes).map_err(malformed)?;
    let read = |StoredWorkspace { id, name, created_at }| {
        Ok(conversation::Workspace { id, name, created_at: created_at.parse().map_err(BoxError::from)? })
    };
    stored.into_iter().map(read).collect::<Result<_, _>>().map_err(malformed)
}

pub(crate) fn encode_workspace_threads(threads: &[conversation::WorkspaceThread]) -> Vec<u8> {
    let stored = threads.iter().map(|thread| StoredWorkspaceThread {
        thread: thread.thread.clone(),
        created_at: thread.created_at.to_string(),
    });
    model_messages::encode(&VersionedWorkspaceThreads::V1(stored.collect()))
}

pub(crate) fn decode_workspace_threads(bytes: &[u8]) -> Result<Vec<conversation::WorkspaceThread>, RecordError> {
    let VersionedWorkspaceThreads::V1(stored) = model_messages::decode(bytes).map_err(malformed)?;
    let read = |StoredWorkspaceThread { thread, created_at }| {
        Ok(conversation::WorkspaceThread { thread, created_at: created_at.parse().map_err(BoxError::from)? })
    };
    stored.into_iter().map(read).collect::<Result<_, _>>().map_err(malformed)
}

fn malformed(source: BoxError) -> RecordError {
    RecordError::Malformed { version: 1, source }
}

#[cfg(test)]
mod tests;
