//! Commands of the board, each a type with its reply type. A command without a row in `access` and a handler in `board`
//! does not compile.

use std::fmt;

use crate::store::PageCursor;

mod accounts;
mod bridge;
mod channels;
mod conversations;
mod extensions;
mod hub;
mod keys;
mod plugins;
mod records;
mod run_list;
mod runs;
mod server;
mod sessions;
mod tools;
mod workspaces;

pub use accounts::{
    AccountRef, CorrectFact, DescribeAccount, ExportAccount, ExportPage, ExportSection, ForgetAccount, ForgetFact,
    ListAccounts, ListFacts,
};
pub use bridge::{
    CallInSession, CloseSession, DescribeSession, FindTool, ListHostTools, ListWorkers, OpenSession, RegisterTools,
    ToolFilter, ToolIds, TouchSession,
};
pub use channels::{ListChannels, ListDeliveries};
pub use conversations::{ForkPoint, ForkSession, HideSession, RenameSession, SearchTurns};
pub use extensions::{DescribeTools, ListMcpServers, ListToolChanges, ReadWorkerLines, RestartWorkers};
pub use hub::ExplainLocalRouting;
pub use hub::{
    AnswerMessage, ApproveApp, CancelMessage, ConfirmAppAlive, DeregisterApp, ExplainRouting, ForgetApp, ListApps,
    ListMessages, NextInboxEvent, PairApp, ReadMessage, RegisterApp, ResendMessage, SubmitMessage,
};
pub use keys::{CreateKey, ListKeys, RevokeKey};
pub use records::{ListFaults, ReadAudit, ReadFigures};

pub use plugins::{ApprovePlugin, ListPlugins, LoadPlugin, ReceiveWebhook, UnloadPlugin};
pub use run_list::{DescribeRun, ListRuns, MAX_EVENTS, ReadEvents, RunListFilter, RunStateFilter};
pub use runs::{
    AnswerInput, CancelRun, DetachRun, FindRun, FolderChoice, InputRef, ListInputs, MAX_CONTENT, RunKind, RunPlan,
    RunRef, StartRun,
};
pub use server::{DescribeNode, DescribeServer, ListAgents, ListModels, ReloadSettings, SetModel};
pub use sessions::{
    BudgetStatus, ClearSession, ListSessions, ReadHistory, ReadThread, SearchMemory, SessionRef, SummariseUsage,
};
pub use tools::{ApproveTools, CallTool, ListTools};
pub use workspaces::{
    AddWorkspaceThread, CreateWorkspace, ListWorkspaceThreads, ListWorkspaces, RemoveWorkspaceThread,
};

/// A request to the board.
pub trait Command: fmt::Debug + Send + 'static {
    type Reply: fmt::Debug + Send + 'static;

    /// Name of the request's span, for commands that start work of agents, tools or apps; other commands get no span.
    const SPAN: Option<&'static str> = None;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    pub limit: usize,
    pub cursor: Option<PageCursor>,
}

impl PageRequest {
    pub const DEFAULT_LIMIT: usize = 50;
    /// A larger limit is lowered to this, not refused.
    pub const MAX_LIMIT: usize = 500;

    pub fn new(limit: Option<usize>, cursor: Option<PageCursor>) -> Self {
        Self { limit: limit.unwrap_or(Self::DEFAULT_LIMIT).clamp(1, Self::MAX_LIMIT), cursor }
    }
}
