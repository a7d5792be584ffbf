//! Access control: one table of required grants, checked in one place before a command is executed.

use crate::caller::{Caller, Grant, Surface};
use std::sync::Arc;

use crate::command::{CallTool, Command, StartRun, WorkspaceCommand};
use crate::error::{BoardError, ErrorKind};

/// The table of required grants. The match is exhaustive, so that a new command does not compile without a row.
pub fn required_grant(command: &Command) -> Grant {
    match command {
        // Only the operator may grant a folder outside the configured roots.
        Command::StartRun(StartRun { folder, .. }) | Command::CallTool(CallTool { folder, .. })
            if folder.is_granted() =>
        {
            Grant::Operate
        }
        Command::StartRun(_)
        | Command::CancelRun(_)
        | Command::DetachRun(_)
        | Command::CallTool(_)
        | Command::FindRun(_)
        | Command::AnswerApproval { .. }
        | Command::ListApprovals(_)
        | Command::SubmitMessage(_)
        | Command::RegisterApp(_)
        | Command::NextInboxEvent
        | Command::ConfirmAppAlive
        | Command::DeregisterApp
        | Command::OpenSession(_)
        | Command::ReceiveWebhook { .. }
        | Command::CloseSession { .. }
        | Command::TouchSession { .. }
        | Command::RegisterTools(_)
        | Command::CallInSession(_)
        | Command::SetModel { .. }
        | Command::Workspaces(
            WorkspaceCommand::Create { .. }
            | WorkspaceCommand::AddThread { .. }
            | WorkspaceCommand::RemoveThread { .. },
        )
        | Command::AnswerMessage { .. } => Grant::Converse,
        Command::ListSessions { .. }
        | Command::ReadHistory { .. }
        | Command::SearchMemory { .. }
        | Command::BudgetStatus { .. }
        | Command::UsageReport { .. }
        | Command::ReadMessages { .. }
        | Command::ListTools { .. }
        | Command::ListAgents
        | Command::ListModels { .. }
        | Command::Workspaces(WorkspaceCommand::List | WorkspaceCommand::ListThreads { .. })
        | Command::ReadMessage { .. }
        | Command::ListMessages { .. }
        | Command::ExplainRouting { .. }
        | Command::ListApps
        | Command::ListPlugins
        | Command::DescribeSession { .. }
        | Command::FindTool { .. }
        | Command::ListHostTools { .. }
        | Command::ListWorkers
        | Command::DescribeNode => Grant::Inspect,
        Command::ClearSession { .. } | Command::ResendMessage { .. } | Command::CancelMessage(_) => Grant::Manage,
        Command::DescribeServer
        | Command::ReloadSettings
        | Command::ApproveTools { .. }
        | Command::LoadPlugin { .. }
        | Command::ApprovePlugin { .. }
        | Command::UnloadPlugin { .. }
        | Command::ApproveApp { .. }
        | Command::PairApp { .. }
        | Command::ForgetApp { .. } => Grant::Operate,
    }
}

pub fn authorise(caller: &Caller, command: &Command) -> Result<(), BoardError> {
    let grant = required_grant(command);
    if caller.grants.has(grant) {
        return Ok(());
    }
    Err(BoardError::new(ErrorKind::Forbidden, format!("not allowed: this needs the {} grant", name(grant))))
}

/// Channels in which surfaces store conversations of their own; no other client may use them.
pub const RESERVED_CHANNELS: &[&str] = &[
    "runs",
    "hub",
    "bridge",
    "mcp",
    "webhook",
    "console",
    "openai",
    "responses",
    "acp",
    "a2a",
    "wyoming",
    "ag-ui",
    "schedule",
];
/// The channel of the operator's command line.
pub const OPERATOR_CHANNEL: &str = "cli";

/// May this caller read, steer or clear a session created by `owner`?
pub fn owns_session(caller: &Caller, owner: Option<&str>) -> bool {
    let is_owner = |principal: &Arc<str>| owner == Some(&**principal);
    caller.grants.has(Grant::Operate) || session_owners(caller).iter().any(is_owner)
}

/// The principals whose sessions belong to this caller. When a gateway gets a token later, its clients keep the
/// sessions they created without one.
pub fn session_owners(caller: &Caller) -> Vec<Arc<str>> {
    let mut owners = vec![caller.principal.clone()];
    if caller.surface == Surface::Gateway && &*caller.principal == "token" {
        owners.push("local".into());
    }
    owners
}

/// May this caller see or steer what `principal` started?
pub fn can_control(caller: &Caller, principal: &str) -> bool {
    &*caller.principal == principal || caller.grants.has(Grant::Operate)
}

fn name(grant: Grant) -> &'static str {
    match grant {
        Grant::Converse => "converse",
        Grant::Inspect => "inspect",
        Grant::Manage => "manage",
        Grant::Operate => "operate",
    }
}

#[cfg(test)]
mod tests;
