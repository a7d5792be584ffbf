//! Workspaces. Each principal has its own.

use std::sync::Arc;

use super::Command;
use crate::conversation::{Workspace, WorkspaceThread};

/// In the order in which they were created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListWorkspaces;

impl Command for ListWorkspaces {
    type Reply = Vec<Workspace>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateWorkspace {
    /// Generated if missing.
    pub name: Option<Arc<str>>,
}

impl Command for CreateWorkspace {
    type Reply = Workspace;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListWorkspaceThreads {
    pub workspace: Arc<str>,
}

impl Command for ListWorkspaceThreads {
    type Reply = Vec<WorkspaceThread>;
}

/// Adding a thread twice changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddWorkspaceThread {
    pub workspace: Arc<str>,
    pub thread: Arc<str>,
}

impl Command for AddWorkspaceThread {
    type Reply = ();
}

/// Removing a thread that is not in the workspace changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoveWorkspaceThread {
    pub workspace: Arc<str>,
    pub thread: Arc<str>,
}

impl Command for RemoveWorkspaceThread {
    type Reply = ();
}
