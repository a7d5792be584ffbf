use super::*;
use crate::caller::GrantSet;
use crate::command::{
    ApprovalRef, CallInSession, CallTool, FolderChoice, OpenSession, PageRequest, RegisterTools, RunRef, SessionRef,
    StartRun, ToolFilter,
};
use crate::conversation::ConversationOrigin;
use crate::id::ConnectionId;
use crate::id::{ApprovalId, RunId};
use crate::store::{SessionFilter, UsageGrouping};
use crate::webhook::Webhook;

fn origin() -> ConversationOrigin {
    ConversationOrigin { channel: "web".into(), account: "a".into(), peer: None, guild: None, team: None }
}

/// One of each. `required_grant` has no wildcard arm, so a command missing here still cannot be without a grant;
/// this list proves that the grant is enforced.
fn every_command() -> Vec<Command> {
    let open = OpenSession { id: "s".into(), metadata: Default::default(), config: None, worker: None };
    let register = RegisterTools { session: "s".into(), tools: Vec::new(), client_name: "p".into(), worker: None };
    let (arguments, parcel) = (Default::default(), Default::default());
    let call = CallInSession { name: "t".into(), arguments, filter: ToolFilter::All, metadata: parcel };
    let webhook = Webhook {
        method: "POST".to_owned(),
        query: String::new(),
        headers: Vec::new(),
        body: bytes::Bytes::new(),
        digest: "d".into(),
    };
    let page = PageRequest::new(None, None);
    let run = RunId(uuid::Uuid::nil());
    let session = SessionRef::Origin(origin());
    vec![
        Command::StartRun(StartRun {
            origin: origin(),
            content: "x".into(),
            client_id: "1".into(),
            model: None,
            agent: None,
            folder: FolderChoice::Configured,
            plan: None,
        }),
        Command::StartRun(StartRun {
            origin: origin(),
            content: "x".into(),
            client_id: "1".into(),
            model: None,
            agent: None,
            folder: FolderChoice::Granted("/srv".to_owned()),
            plan: None,
        }),
        Command::CancelRun(run),
        Command::FindRun(RunRef::ClientId { id: "1".into(), within: None }),
        Command::AnswerApproval { approval: ApprovalRef::Id(ApprovalId(uuid::Uuid::nil())), approve: true },
        Command::ListApprovals(page.clone()),
        Command::ListSessions { filter: SessionFilter::default(), page: page.clone() },
        Command::ReadHistory { session: session.clone(), page: page.clone() },
        Command::ClearSession { session, purge: true },
        Command::SearchMemory { channel: "c".into(), account: "a".into(), query: "q".into(), page: page.clone() },
        Command::BudgetStatus { session: None },
        Command::UsageReport { since: None, group_by: UsageGrouping::Day, page: page.clone() },
        Command::ListTools { folder: None, page },
        Command::DetachRun(run),
        Command::ReadMessages { session: SessionRef::Origin(origin()), before: None, limit: 1 },
        Command::CallTool(CallTool {
            name: "t".into(),
            arguments: Default::default(),
            folder: FolderChoice::Configured,
            origin: origin(),
        }),
        Command::ApproveTools { server: "s".into() },
        Command::ListAgents,
        Command::ListModels { agent: None },
        Command::SetModel { thread: None, model: "m".into() },
        Command::Workspaces(WorkspaceCommand::List),
        Command::Workspaces(WorkspaceCommand::Create { name: None }),
        Command::Workspaces(WorkspaceCommand::ListThreads { workspace: "w".into() }),
        Command::Workspaces(WorkspaceCommand::AddThread { workspace: "w".into(), thread: "t".into() }),
        Command::Workspaces(WorkspaceCommand::RemoveThread { workspace: "w".into(), thread: "t".into() }),
        Command::ListPlugins,
        Command::LoadPlugin { named: "p".into() },
        Command::UnloadPlugin { name: "p".into() },
        Command::ApprovePlugin { name: "p".into() },
        Command::ReceiveWebhook { channel: "c".into(), webhook },
        Command::DescribeNode,
        Command::OpenSession(open),
        Command::CloseSession { id: "s".into() },
        Command::DescribeSession { id: "s".into() },
        Command::TouchSession { id: "s".into() },
        Command::RegisterTools(register),
        Command::FindTool { session: "s".into(), name: "t".into(), reach: ToolFilter::All },
        Command::ListHostTools { session: "s".into() },
        Command::CallInSession(call),
        Command::ListWorkers,
        Command::DescribeServer,
        Command::ReloadSettings,
    ]
}

fn caller(grants: GrantSet) -> Caller {
    Caller { surface: Surface::Gateway, principal: "local".into(), connection: ConnectionId(1), grants }
}

#[test]
fn without_a_grant_every_command_is_refused() {
    for command in every_command() {
        let refused = authorise(&caller(GrantSet::NONE), &command).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden, "{command:?}");
    }
}

#[test]
fn a_client_cannot_operate_and_the_operator_can_do_everything() {
    for command in every_command() {
        let for_operators_only = required_grant(&command) == Grant::Operate;
        assert_eq!(authorise(&caller(GrantSet::CLIENT), &command).is_err(), for_operators_only, "{command:?}");
        assert!(authorise(&caller(GrantSet::OPERATOR), &command).is_ok(), "{command:?}");
    }
}

#[test]
fn runs_belong_to_their_principal() {
    assert!(can_control(&caller(GrantSet::CLIENT), "local"));
    assert!(!can_control(&caller(GrantSet::CLIENT), "token"));
    assert!(can_control(&caller(GrantSet::OPERATOR), "token"));
}
