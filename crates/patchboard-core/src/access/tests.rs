use std::fmt;

use super::*;
use crate::app::message::AppResponse;
use crate::app::{AppProfile, InputMethod};
use crate::caller::GrantSet;
use crate::command::{AccountRef, ExportSection, ForkPoint, InputRef, PageRequest, RunKind, RunRef, ToolFilter};
use crate::command::{DescribeRun, ListRuns, ReadEvents, RunListFilter};
use crate::conversation::ConversationOrigin;
use crate::event::InputAnswer;
use crate::id::{ConnectionId, InputId, MessageId, RunId};
use crate::store::{AuditFilter, SessionFilter, UsageGrouping};
use crate::webhook::Webhook;

/// The row of a command of any type.
trait AccessRow: fmt::Debug {
    fn required_grant(&self) -> Grant;
    fn authorise(&self, caller: &Caller) -> Result<(), BoardError>;
}

impl<C: Guarded> AccessRow for C {
    fn required_grant(&self) -> Grant {
        Guarded::required_grant(self)
    }

    fn authorise(&self, caller: &Caller) -> Result<(), BoardError> {
        authorise(caller, self)
    }
}

fn origin() -> ConversationOrigin {
    ConversationOrigin { channel: "web".into(), account: "a".into(), peer: None, guild: None, team: None }
}

fn start_run(folder: FolderChoice) -> StartRun {
    let kind = RunKind::Chat { agent: None };
    StartRun {
        origin: origin(),
        content: "x".into(),
        client_id: "1".into(),
        model: None,
        client_tools: Vec::new(),
        folder,
        kind,
    }
}

fn call_tool(folder: FolderChoice) -> CallTool {
    CallTool { name: "t".into(), arguments: Default::default(), folder, origin: origin() }
}

macro_rules! boxed {
    ($($command:expr),+ $(,)?) => {
        vec![$(Box::new($command) as Box<dyn AccessRow>),+]
    };
}

/// One of each. A command without a row does not compile; this list proves that the grant of the row is enforced.
fn every_command() -> Vec<Box<dyn AccessRow>> {
    let mut commands = run_commands();
    commands.extend(session_commands());
    commands.extend(account_commands());
    commands.extend(server_commands());
    commands.extend(hub_commands());
    commands.extend(bridge_commands());
    commands
}

fn run_commands() -> Vec<Box<dyn AccessRow>> {
    let run = RunId(uuid::Uuid::nil());
    boxed![
        start_run(FolderChoice::Configured),
        start_run(FolderChoice::Granted("/srv".to_owned())),
        CancelRun(run),
        DetachRun(run),
        FindRun(RunRef::ClientId { id: "1".into(), within: None }),
        AnswerInput { input: InputRef::Id(InputId(uuid::Uuid::nil())), answer: InputAnswer::Approved },
        ListInputs(PageRequest::new(None, None)),
        ListRuns { filter: RunListFilter::default(), page: PageRequest::new(None, None) },
        DescribeRun(run),
        ReadEvents { run, from: crate::id::Seq::FIRST, limit: 1 },
        call_tool(FolderChoice::Configured),
        call_tool(FolderChoice::Granted("/srv".to_owned())),
        ListTools { folder: None, page: PageRequest::new(None, None) },
        ApproveTools { server: "s".into() },
    ]
}

fn session_commands() -> Vec<Box<dyn AccessRow>> {
    let page = PageRequest::new(None, None);
    let session = SessionRef::Origin(origin());
    boxed![
        ListSessions { filter: SessionFilter::default(), page: page.clone() },
        ReadHistory { session: session.clone(), page: page.clone() },
        ReadThread { session: session.clone(), before: None, limit: 1 },
        ClearSession { session, purge: true },
        SearchMemory { channel: "c".into(), account: "a".into(), query: "q".into(), page: page.clone() },
        BudgetStatus { session: None },
        SummariseUsage { since: None, group_by: UsageGrouping::Day, then_by: None, page },
        ListWorkspaces,
        CreateWorkspace { name: None },
        ListWorkspaceThreads { workspace: "w".into() },
        AddWorkspaceThread { workspace: "w".into(), thread: "t".into() },
        RemoveWorkspaceThread { workspace: "w".into(), thread: "t".into() },
    ]
}

fn account_commands() -> Vec<Box<dyn AccessRow>> {
    let page = || PageRequest::new(None, None);
    let account = || AccountRef { channel: "c".into(), account: "a".into() };
    let session = || SessionRef::Origin(origin());
    boxed![
        ListAccounts(page()),
        DescribeAccount { account: account() },
        ListFacts { account: account(), with_superseded: false, page: page() },
        CorrectFact { account: account(), fact: 1, object: "x".into() },
        ForgetFact { account: account(), fact: 1 },
        ForgetAccount { account: account() },
        ExportAccount { account: account(), section: ExportSection::Facts, page: page() },
        RenameSession { session: session(), title: "t".into() },
        HideSession { session: session(), hidden: true },
        SearchTurns { text: "x".into(), page: page() },
        ForkSession { session: session(), after: ForkPoint::LastTurn },
    ]
}

fn server_commands() -> Vec<Box<dyn AccessRow>> {
    let webhook = Webhook {
        method: "POST".to_owned(),
        query: String::new(),
        headers: Vec::new(),
        body: bytes::Bytes::new(),
        digest: "d".into(),
    };
    boxed![
        ListAgents,
        ListModels { agent: None },
        SetModel { thread: None, model: "m".into() },
        DescribeNode,
        DescribeServer,
        ReloadSettings,
        CreateKey { name: "k".into(), hash: crate::keys::KeyHash([0; 32]), rights: Default::default() },
        ListKeys,
        RevokeKey { name: "k".into() },
        ListPlugins,
        LoadPlugin { named: "p".into() },
        UnloadPlugin { name: "p".into() },
        ApprovePlugin { name: "p".into() },
        ReceiveWebhook { channel: "c".into(), webhook },
        ReadFigures { series: Vec::new(), since: None },
        ListFaults,
        DescribeTools { name: None, page: PageRequest::new(None, None) },
        ListToolChanges,
        ListChannels,
        ListDeliveries { channel: None, state: None, page: PageRequest::new(None, None) },
        ListMcpServers,
        RestartWorkers { pool: "p".into(), worker: None },
        ReadWorkerLines { worker: "w".into(), after: 0 },
        ReadAudit { filter: AuditFilter::default(), page: PageRequest::new(None, None) },
    ]
}

fn hub_commands() -> Vec<Box<dyn AccessRow>> {
    let message = MessageId(uuid::Uuid::nil());
    let profile = AppProfile { name: "a".into(), description: "d".into(), version: None, capabilities: Vec::new() };
    boxed![
        SubmitMessage { text: "x".into(), input: InputMethod::Text, confidence: None, only_app: None },
        ReadMessage { message, newer_than: None },
        ListMessages { state: None, page: PageRequest::new(None, None) },
        ResendMessage { message, app: None },
        CancelMessage(message),
        ExplainRouting { text: "x".into() },
        ExplainLocalRouting { text: "x".into() },
        RegisterApp { profile, token: None, origin: None },
        NextInboxEvent,
        ConfirmAppAlive,
        DeregisterApp,
        AnswerMessage { message, response: AppResponse::Ack },
        ListApps,
        ApproveApp { app: "a".into() },
        PairApp { app: "a".into(), token: [0; 32] },
        ForgetApp { app: "a".into(), unpair: false },
    ]
}

fn bridge_commands() -> Vec<Box<dyn AccessRow>> {
    let (arguments, metadata) = (Default::default(), Default::default());
    boxed![
        OpenSession { id: "s".into(), metadata: Default::default(), config: None, worker: None },
        CloseSession { id: "s".into() },
        DescribeSession { id: "s".into() },
        TouchSession { id: "s".into() },
        RegisterTools { session: "s".into(), tools: Vec::new(), client_name: "p".into(), worker: None },
        FindTool { session: "s".into(), name: "t".into(), filter: ToolFilter::All },
        ListHostTools { session: "s".into() },
        CallInSession { name: "t".into(), arguments, filter: ToolFilter::All, metadata },
        ListWorkers,
    ]
}

fn caller(grants: GrantSet) -> Caller {
    Caller { surface: Surface::Gateway, principal: "local".into(), connection: ConnectionId(1), grants }
}

#[test]
fn without_a_grant_every_command_is_refused() {
    for command in every_command() {
        let refused = command.authorise(&caller(GrantSet::NONE)).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden, "{command:?}");
    }
}

#[test]
fn a_client_cannot_operate_and_the_operator_can_do_everything() {
    for command in every_command() {
        let for_operators_only = matches!(command.required_grant(), Grant::Operate | Grant::Oversee);
        assert_eq!(command.authorise(&caller(GrantSet::CLIENT)).is_err(), for_operators_only, "{command:?}");
        assert!(command.authorise(&caller(GrantSet::OPERATOR)).is_ok(), "{command:?}");
    }
}

#[test]
fn runs_belong_to_their_principal() {
    assert!(can_control(&caller(GrantSet::CLIENT), "local"));
    assert!(!can_control(&caller(GrantSet::CLIENT), "token"));
    assert!(can_control(&caller(GrantSet::OPERATOR), "token"));
    assert!(can_control(&caller(GrantSet::CLIENT.with(Grant::Oversee)), "token"));
}

#[test]
fn an_overseer_has_no_other_grant() {
    let overseer = GrantSet::NONE.with(Grant::Oversee);
    for grant in [Grant::Converse, Grant::Inspect, Grant::Manage, Grant::Operate] {
        assert!(!overseer.has(grant), "{grant:?}");
    }
    assert!(overseer.has(Grant::Oversee) && GrantSet::OPERATOR.has(Grant::Oversee));
    assert!(!GrantSet::CLIENT.has(Grant::Oversee));
    assert!(may_read_session(&caller(overseer), Some("token")) && !owns_session(&caller(overseer), Some("token")));
}
