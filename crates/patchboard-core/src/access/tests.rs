use super::*;
use crate::caller::GrantSet;
use crate::command::{
    AddWorkspaceThread, AnswerApproval, ApprovalRef, ApprovePlugin, ApproveTools, BudgetStatus, CallInSession,
    CallTool, CancelRun, ClearSession, CloseSession, CreateWorkspace, DescribeNode, DescribeServer, DescribeSession,
    DetachRun, FindRun, FindTool, FolderChoice, ListAgents, ListApprovals, ListHostTools, ListModels, ListPlugins,
    ListSessions, ListTools, ListWorkers, ListWorkspaceThreads, ListWorkspaces, LoadPlugin, OpenSession, PageRequest,
    ReadHistory, ReadMessages, ReceiveWebhook, RegisterTools, ReloadSettings, RemoveWorkspaceThread, RunKind, RunRef,
    SearchMemory, SessionRef, SetModel, StartRun, SummariseUsage, ToolFilter, TouchSession, UnloadPlugin,
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
        StartRun {
            origin: origin(),
            content: "x".into(),
            client_id: "1".into(),
            model: None,

            folder: FolderChoice::Configured,
            kind: RunKind::Chat { agent: None },
        },
        StartRun {
            origin: origin(),
            content: "x".into(),
            client_id: "1".into(),
            model: None,

            folder: FolderChoice::Granted("/srv".to_owned()),
            kind: RunKind::Chat { agent: None },
        },
        CancelRun(run),
        FindRun(RunRef::ClientId { id: "1".into(), within: None }),
        AnswerApproval { approval: ApprovalRef::Id(ApprovalId(uuid::Uuid::nil())), approve: true },
        ListApprovals(page.clone()),
        ListSessions { filter: SessionFilter::default(), page: page.clone() },
        ReadHistory { session: session.clone(), page: page.clone() },
        ClearSession { session, purge: true },
        SearchMemory { channel: "c".into(), account: "a".into(), query: "q".into(), page: page.clone() },
        BudgetStatus { session: None },
        SummariseUsage { since: None, group_by: UsageGrouping::Day, page: page.clone() },
        ListTools { folder: None, page },
        DetachRun(run),
        ReadMessages { session: SessionRef::Origin(origin()), before: None, limit: 1 },
        CallTool {
            name: "t".into(),
            arguments: Default::default(),
            folder: FolderChoice::Configured,
            origin: origin(),
        },
        ApproveTools { server: "s".into() },
        ListAgents,
        ListModels { agent: None },
        SetModel { thread: None, model: "m".into() },
        ListWorkspaces,
        CreateWorkspace { name: None },
        ListWorkspaceThreads { workspace: "w".into() },
        AddWorkspaceThread { workspace: "w".into(), thread: "t".into() },
        RemoveWorkspaceThread { workspace: "w".into(), thread: "t".into() },
        ListPlugins,
        LoadPlugin { named: "p".into() },
        UnloadPlugin { name: "p".into() },
        ApprovePlugin { name: "p".into() },
        ReceiveWebhook { channel: "c".into(), webhook },
        DescribeNode,
        open,
        CloseSession { id: "s".into() },
        DescribeSession { id: "s".into() },
        TouchSession { id: "s".into() },
        register,
        FindTool { session: "s".into(), name: "t".into(), filter: ToolFilter::All },
        ListHostTools { session: "s".into() },
        call,
        ListWorkers,
        DescribeServer,
        ReloadSettings,
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
