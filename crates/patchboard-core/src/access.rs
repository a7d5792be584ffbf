//! Access control: one table of required grants, checked in one place before a command is executed.

use crate::caller::{Caller, Grant, Principal, Surface};
use std::borrow::Cow;
use std::sync::Arc;

use crate::command::ExplainLocalRouting;
use crate::command::{
    AddWorkspaceThread, AnswerInput, AnswerMessage, ApproveApp, ApprovePlugin, ApproveTools, BudgetStatus,
    CallInSession, CallTool, CancelMessage, CancelRun, ClearSession, CloseSession, Command, ConfirmAppAlive,
    CreateWorkspace, DeregisterApp, DescribeNode, DescribeServer, DescribeSession, DetachRun, ExplainRouting, FindRun,
    FindTool, FolderChoice, ForgetApp, ListAgents, ListApps, ListHostTools, ListInputs, ListMessages, ListModels,
    ListPlugins, ListSessions, ListTools, ListWorkers, ListWorkspaceThreads, ListWorkspaces, LoadPlugin,
    NextInboxEvent, OpenSession, PairApp, ReadHistory, ReadMessage, ReadThread, ReceiveWebhook, RegisterApp,
    RegisterTools, ReloadSettings, RemoveWorkspaceThread, ResendMessage, SearchMemory, SessionRef, SetModel, StartRun,
    SubmitMessage, SummariseUsage, TouchSession, UnloadPlugin,
};
use crate::command::{
    CorrectFact, DescribeAccount, ExportAccount, ForgetAccount, ForgetFact, ForkSession, HideSession, ListAccounts,
    ListFacts, RenameSession, SearchTurns,
};
use crate::command::{CreateKey, ListKeys, RevokeKey};
use crate::command::{DescribeTools, ListMcpServers, ListToolChanges, ReadWorkerLines, RestartWorkers};
use crate::command::{ListChannels, ListDeliveries};
use crate::command::{ListFaults, ReadAudit, ReadFigures};
use crate::error::{BoardError, ErrorKind};

/// A command with its row in the access table.
pub trait Guarded: Command {
    /// Accepted while the server shuts down, because it helps running work to its end.
    const WHILE_DRAINING: bool = false;

    /// The grant it needs.
    fn required_grant(&self) -> Grant;

    /// The channel that it names, and what for.
    fn channel_use(&self) -> Option<(Cow<'_, str>, ChannelUse)> {
        None
    }
}

/// What a caller does in a channel that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelUse {
    Write,
    Read,
}

/// Refuses a command that needs a grant which the caller does not have.
pub fn authorise(caller: &Caller, command: &impl Guarded) -> Result<(), BoardError> {
    let grant = command.required_grant();
    if caller.grants.has(grant) {
        return Ok(());
    }
    Err(BoardError::new(ErrorKind::Forbidden, format!("not allowed: this needs the {} grant", name(grant))))
}

/// Rows of commands that need the same grant whatever they hold, and name no channel.
macro_rules! grants {
    ($($grant:ident (while draining: $while_draining:literal): $($command:ty),+;)+) => {
        $($(impl Guarded for $command {
            const WHILE_DRAINING: bool = $while_draining;

            fn required_grant(&self) -> Grant {
                Grant::$grant
            }
        })+)+
    };
}

grants! {
    Converse (while draining: false): FindRun, ListInputs, SubmitMessage, RegisterApp, NextInboxEvent,
        ConfirmAppAlive, AnswerMessage, OpenSession, CloseSession, TouchSession, RegisterTools, CallInSession,
        ReceiveWebhook, SetModel, CreateWorkspace, AddWorkspaceThread, RemoveWorkspaceThread;
    Converse (while draining: true): CancelRun, DetachRun, AnswerInput, DeregisterApp;
    Inspect (while draining: false): ListSessions, SummariseUsage, ListTools, ListAgents, ListModels, ListWorkspaces,
        ListWorkspaceThreads, ReadMessage, ListMessages, ExplainRouting, ListApps, ListPlugins, DescribeSession, FindTool,
        ListHostTools, ListWorkers, DescribeNode;
    Manage (while draining: false): ResendMessage, CancelMessage;
    Operate (while draining: false): ReloadSettings, ApproveTools, LoadPlugin, ApprovePlugin, UnloadPlugin, ApproveApp,
        PairApp, ForgetApp;
    Operate (while draining: true): DescribeServer;
}

grants! {
    Operate (while draining: false): CreateKey, ListKeys;
    Operate (while draining: true): RevokeKey;
}

use crate::command::{DescribeRun, ListRuns, ReadEvents};

grants! {
    Inspect (while draining: false): ListRuns, DescribeRun, ReadEvents;
}

// What the server recorded about everybody's work.
grants! {
    Oversee (while draining: false): ReadAudit;
    Operate (while draining: false): ReadFigures, ListFaults;
}

// Extensions. Lines of workers and failures of servers may hold anything that programs write.
grants! {
    Inspect (while draining: false): DescribeTools, ExplainLocalRouting;
    Operate (while draining: false): ListToolChanges, ListMcpServers, RestartWorkers, ReadWorkerLines, ListChannels,
        ListDeliveries;
}

impl Guarded for StartRun {
    fn required_grant(&self) -> Grant {
        grant_for_folder(&self.folder)
    }

    fn channel_use(&self) -> Option<(Cow<'_, str>, ChannelUse)> {
        Some((Cow::Borrowed(&self.origin.channel), ChannelUse::Write))
    }
}

impl Guarded for CallTool {
    fn required_grant(&self) -> Grant {
        grant_for_folder(&self.folder)
    }

    fn channel_use(&self) -> Option<(Cow<'_, str>, ChannelUse)> {
        Some((Cow::Borrowed(&self.origin.channel), ChannelUse::Write))
    }
}

/// Only the operator may grant a folder outside the configured roots.
fn grant_for_folder(folder: &FolderChoice) -> Grant {
    if folder.is_granted() { Grant::Operate } else { Grant::Converse }
}

impl Guarded for SearchMemory {
    fn required_grant(&self) -> Grant {
        Grant::Inspect
    }

    fn channel_use(&self) -> Option<(Cow<'_, str>, ChannelUse)> {
        Some((Cow::Borrowed(&self.channel), ChannelUse::Read))
    }
}

impl Guarded for BudgetStatus {
    fn required_grant(&self) -> Grant {
        Grant::Inspect
    }

    fn channel_use(&self) -> Option<(Cow<'_, str>, ChannelUse)> {
        self.session.as_ref().map(|session| (channel_of(session), ChannelUse::Read))
    }
}

grants! {
    Inspect (while draining: false): ListAccounts, SearchTurns;
}

/// Rows of commands about the one account that they name.
macro_rules! account_grants {
    ($($command:ty: $grant:ident),+) => {
        $(impl Guarded for $command {
            fn required_grant(&self) -> Grant {
                Grant::$grant
            }

            fn channel_use(&self) -> Option<(Cow<'_, str>, ChannelUse)> {
                Some((Cow::Borrowed(&self.account.channel), ChannelUse::Read))
            }
        })+
    };
}

account_grants!(
    DescribeAccount: Inspect, ListFacts: Inspect, ExportAccount: Inspect, CorrectFact: Manage, ForgetFact: Manage,
    ForgetAccount: Manage
);

/// Rows of commands about the one session that they name.
macro_rules! session_grants {
    ($($command:ty: $grant:ident),+) => {
        $(impl Guarded for $command {
            fn required_grant(&self) -> Grant {
                Grant::$grant
            }

            fn channel_use(&self) -> Option<(Cow<'_, str>, ChannelUse)> {
                Some((channel_of(&self.session), ChannelUse::Read))
            }
        })+
    };
}

session_grants!(ReadHistory: Inspect, ReadThread: Inspect, ClearSession: Manage);
session_grants!(RenameSession: Manage, HideSession: Manage, ForkSession: Manage);

/// The channel of a session. Keys of another shape belong to programs on the bridge.
fn channel_of(session: &SessionRef) -> Cow<'_, str> {
    match session {
        SessionRef::Origin(origin) => Cow::Borrowed(&origin.channel),
        SessionRef::Key(key) => {
            key.conversation_parts().map_or(Cow::Borrowed(Surface::Bridge.name()), |parts| Cow::Owned(parts.channel))
        }
    }
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

/// May this caller continue or clear a session created by `owner`?
pub fn owns_session(caller: &Caller, owner: Option<&str>) -> bool {
    let is_owner = |principal: &Arc<str>| owner == Some(&**principal);
    caller.grants.has(Grant::Operate) || session_owners(caller).iter().any(is_owner)
}

/// May this caller read a session created by `owner`?
pub fn may_read_session(caller: &Caller, owner: Option<&str>) -> bool {
    caller.grants.has(Grant::Oversee) || owns_session(caller, owner)
}

/// The principals whose sessions belong to this caller. When a gateway gets a token later, its clients keep the
/// sessions they created without one.
pub fn session_owners(caller: &Caller) -> Vec<Arc<str>> {
    let mut owners = vec![caller.principal.text()];
    if caller.surface == Surface::Gateway && caller.principal == Principal::Token {
        owners.push("local".into());
    }
    owners
}

/// May this caller see and steer anybody's runs, and answer anybody's approvals?
pub fn may_oversee(caller: &Caller) -> bool {
    caller.grants.has(Grant::Oversee)
}

/// May this caller see or steer what `principal` started?
pub fn can_control(caller: &Caller, principal: &str) -> bool {
    *caller.principal.text() == *principal || may_oversee(caller)
}

fn name(grant: Grant) -> &'static str {
    match grant {
        Grant::Converse => "converse",
        Grant::Inspect => "inspect",
        Grant::Manage => "manage",
        Grant::Oversee => "oversee",
        Grant::Operate => "operate",
    }
}

#[cfg(test)]
mod tests;
