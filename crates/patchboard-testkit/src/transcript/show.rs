//! A readable form of the commands that dialects use.

use std::any::Any;

use patchboard_core::app::AppProfile;
use patchboard_core::app::message::{AppNotice, AppResponse};
use patchboard_core::command::{
    AddWorkspaceThread, AnswerInput, AnswerMessage, ApprovePlugin, ApproveTools, BudgetStatus, CallTool, CancelRun,
    ClearSession, ConfirmAppAlive, CreateWorkspace, DeregisterApp, DescribeNode, DescribeServer, DetachRun, FindRun,
    FolderChoice, InputRef, ListAgents, ListInputs, ListModels, ListPlugins, ListSessions, ListTools, ListWorkers,
    ListWorkspaceThreads, ListWorkspaces, LoadPlugin, NextInboxEvent, PageRequest, ReadHistory, ReadThread,
    RegisterApp, ReloadSettings, RemoveWorkspaceThread, RunKind, RunPlan, RunRef, SearchMemory, SessionRef, SetModel,
    StartRun, SummariseUsage, UnloadPlugin,
};
use patchboard_core::command::{DescribeRun, ListRuns, ReadEvents, RunListFilter};
use patchboard_core::command::{DescribeTools, ListMcpServers, ListToolChanges, ReadWorkerLines, RestartWorkers};
use patchboard_core::command::{ListChannels, ListDeliveries};
use patchboard_core::command::{ListFaults, ReadAudit, ReadFigures};
use patchboard_core::conversation::ConversationOrigin;
use patchboard_core::event::InputAnswer;
use patchboard_core::event::Topic;
use patchboard_core::id::MessageId;
use patchboard_core::log::FollowerPacing;
use patchboard_core::store::AuditFilter;

/// The text of the first listed type that the command is.
macro_rules! text_of_command {
    ($command:expr; $($type:ident => |$pattern:pat_param| $text:expr;)+) => {
        $(if let Some($pattern) = $command.downcast_ref::<$type>() {
            return $text;
        })+
    };
}

pub(super) fn command(command: &dyn Any) -> String {
    text_of_command! { command;
        StartRun => |start| start_run(start);
        CancelRun => |CancelRun(run)| format!("cancel run {}", run.0.as_u128());
        DetachRun => |DetachRun(run)| format!("keep run {}", run.0.as_u128());
        FindRun => |FindRun(wanted)| match wanted {
            RunRef::Id(run) => format!("find run {}", run.0.as_u128()),
            RunRef::ClientId { id, within: None } => format!("find run by id {id}"),
            RunRef::ClientId { id, within: Some(about) } => format!("find run by id {id} in {}", session(about)),
            RunRef::Session(about) => format!("find run of {}", session(about)),
        };
        AnswerInput => |AnswerInput { input, answer }| {
            let given = match answer {
                InputAnswer::Approved => "true".to_owned(),
                InputAnswer::Refused => "false".to_owned(),
                InputAnswer::ToolResult { content, is_error } => format!("result {is_error} {content}"),
                InputAnswer::Answered(value) => format!("answered {value}"),
                InputAnswer::ApprovedForSession | InputAnswer::Expired | InputAnswer::Withdrawn => {
                    answer.name().to_owned()
                }
            };
            match input {
                InputRef::Id(input) => format!("answer approval {} {given}", input.0.as_u128()),
                InputRef::Call { run, call } => {
                    format!("answer approval of call {call} of run {} {given}", run.0.as_u128())
                }
            }
        };
        ListInputs => |ListInputs(about)| format!("list approvals {}", page(about));
        ListRuns => |ListRuns { filter, page: about }| format!("list runs{} {}", run_filter(filter), page(about));
        DescribeRun => |DescribeRun(run)| format!("describe run {}", run.0.as_u128());
        ReadEvents => |ReadEvents { run, from, limit }| {
            format!("read events of run {} from {from} ({limit})", run.0.as_u128())
        };
        ListSessions => |ListSessions { filter, page: about }| {
            let field = |field: &Option<String>| field.clone().unwrap_or_else(|| "*".to_owned());
            format!("list sessions {}:{} {}", field(&filter.channel), field(&filter.account), page(about))
        };
        ReadHistory => |ReadHistory { session: about, page: which }| {
            format!("read {} {}", session(about), page(which))
        };
        ClearSession => |ClearSession { session: about, purge }| {
            format!("{} {}", if *purge { "purge" } else { "clear" }, session(about))
        };
        SearchMemory => |SearchMemory { channel, account, query, page: which }| {
            format!("search memory of {channel}:{account} for {query:?} {}", page(which))
        };
        BudgetStatus => |BudgetStatus { session: about }| match about {
            None => "budget".to_owned(),
            Some(about) => format!("budget of {}", session(about)),
        };
        SummariseUsage => |SummariseUsage { since, group_by, then_by, page: which }| {
            let since = since.map_or_else(|| "the beginning".to_owned(), |since| since.to_string());
            let then_by = then_by.map(|then_by| format!(" and {then_by:?}")).unwrap_or_default();
            format!("usage since {since} by {group_by:?}{then_by} {}", page(which))
        };
        ReadAudit => |ReadAudit { filter, page: which }| {
            let AuditFilter { since, until, principal, surface, action, subject, run } = filter;
            let texts = [("who", principal), ("on", surface), ("action", action), ("subject", subject)];
            let mut shown = String::from("audit");
            for (name, text) in texts {
                shown.extend(text.iter().map(|text| format!(" {name}={text}")));
            }
            shown.extend(run.map(|run| format!(" run={run}")));
            shown.extend(since.map(|since| format!(" since={since}")));
            shown.extend(until.map(|until| format!(" until={until}")));
            format!("{shown} {}", page(which))
        };
        ReadFigures => |ReadFigures { series, since }| {
            let since = since.map(|since| format!(" since {since}")).unwrap_or_default();
            format!("figures [{}]{since}", series.join(" "))
        };
        ListFaults => |ListFaults| "list faults".to_owned();
        DescribeTools => |DescribeTools { name, page: which }| {
            format!("describe tool {} {}", name.as_deref().unwrap_or("*"), page(which))
        };
        ListChannels => |ListChannels| "list channels".to_owned();
        ListDeliveries => |ListDeliveries { channel, state, page: which }| {
            let state = state.map(|state| format!(" {state:?}")).unwrap_or_default();
            format!("list deliveries of {}{state} {}", channel.as_deref().unwrap_or("all"), page(which))
        };
        ListToolChanges => |ListToolChanges| "list tool changes".to_owned();
        ListMcpServers => |ListMcpServers| "list MCP servers".to_owned();
        RestartWorkers => |RestartWorkers { pool, worker }| {
            format!("restart {} of {pool}", worker.as_deref().unwrap_or("all"))
        };
        ReadWorkerLines => |ReadWorkerLines { worker, after }| format!("lines of {worker} after {after}");
        ReadThread => |ReadThread { session: about, before, limit }| {
            let before = before.map(|before| format!(" before {before}")).unwrap_or_default();
            format!("read messages of {}{before} ({limit})", session(about))
        };
        ListTools => |ListTools { folder, page: which }| match folder {
            None => format!("list tools {}", page(which)),
            Some(folder) => format!("list tools in {folder} {}", page(which)),
        };
        CallTool => |call| {
            let folder = folder(&call.folder);
            format!("call tool {} {}{folder} for {}", call.name, call.arguments, origin(&call.origin))
        };
        ListAgents => |ListAgents| "list agents".to_owned();
        ApproveTools => |ApproveTools { server }| format!("approve tools of {server}");
        ListModels => |ListModels { agent }| format!("list models of agent {}", agent.as_deref().unwrap_or("-"));
        SetModel => |SetModel { thread, model }| {
            let of = thread.as_ref().map(|thread| format!(" of {}", origin(thread))).unwrap_or_default();
            format!("set model{of} to {model:?}")
        };
        ListWorkspaces => |ListWorkspaces| "list workspaces".to_owned();
        CreateWorkspace => |CreateWorkspace { name }| format!("create workspace {}", name.as_deref().unwrap_or("-"));
        ListWorkspaceThreads => |ListWorkspaceThreads { workspace }| format!("list threads of workspace {workspace}");
        AddWorkspaceThread => |AddWorkspaceThread { workspace, thread }| {
            format!("add thread {thread} to workspace {workspace}")
        };
        RemoveWorkspaceThread => |RemoveWorkspaceThread { workspace, thread }| {
            format!("remove thread {thread} from workspace {workspace}")
        };
        ListPlugins => |ListPlugins| "list plugins".to_owned();
        LoadPlugin => |LoadPlugin { named }| format!("load plugin {named}");
        ApprovePlugin => |ApprovePlugin { name }| format!("approve plugin {name}");
        UnloadPlugin => |UnloadPlugin { name }| format!("unload plugin {name}");
        DescribeNode => |DescribeNode| "describe node".to_owned();
        DescribeServer => |DescribeServer| "describe server".to_owned();
        ReloadSettings => |ReloadSettings| "reload settings".to_owned();
        ListWorkers => |ListWorkers| "list workers".to_owned();
        RegisterApp => |register| register_app(register);
        NextInboxEvent => |NextInboxEvent| "take from inbox".to_owned();
        ConfirmAppAlive => |ConfirmAppAlive| "prove app".to_owned();
        DeregisterApp => |DeregisterApp| "leave app".to_owned();
        AnswerMessage => |AnswerMessage { message, response }| {
            format!("answer message {} {}", number(*message), self::response(response))
        };
    }
    "a command without a text: add it to `show.rs`".to_owned()
}

fn run_filter(filter: &RunListFilter) -> String {
    let RunListFilter { owner, client_id, surface, agent, strategy, state, session, since, until, text } = filter;
    let mut shown = String::new();
    for (name, value) in [("owner", owner), ("id", client_id), ("surface", surface), ("agent", agent)] {
        if let Some(value) = value {
            shown.push_str(&format!(" {name}={value}"));
        }
    }
    let rest = [
        strategy.map(|strategy| format!(" strategy={}", strategy.name())),
        state.map(|state| format!(" state={state:?}")),
        session.as_ref().map(|session| format!(" session={session}")),
        since.map(|since| format!(" since={since}")),
        until.map(|until| format!(" until={until}")),
        text.as_ref().map(|text| format!(" text={text:?}")),
    ];
    shown + &rest.into_iter().flatten().collect::<String>()
}

fn start_run(start: &StartRun) -> String {
    let (by, words, agent) = match &start.kind {
        RunKind::Chat { agent } => (
            String::new(),
            String::new(),
            agent.as_deref().map(|agent| format!(" of agent {agent}")).unwrap_or_default(),
        ),
        RunKind::Agent(plan) => (format!(" by {}", plan.agent), self::plan(plan), String::new()),
    };
    let folder = folder(&start.folder);
    let model = start.model.as_deref().map(|model| format!(" with {model}")).unwrap_or_default();
    let (from, id) = (origin(&start.origin), name(&start.client_id));
    format!("start {from} {:?} as {id}{agent}{model}{by}{folder}{words}", &*start.content)
}

fn register_app(register: &RegisterApp) -> String {
    let AppProfile { name, description, version, capabilities } = &register.profile;
    let mut shown = format!("register app {name} {:?}", &**description);
    for (word, given) in [("version", version), ("origin", &register.origin)] {
        if let Some(given) = given {
            shown.push_str(&format!(" {word}={given}"));
        }
    }
    if let Some([first, second, third, fourth, ..]) = register.token {
        shown.push_str(&format!(" token={first:02x}{second:02x}{third:02x}{fourth:02x}"));
    }
    for capability in capabilities {
        shown.push_str(&format!(" +{capability}"));
    }
    shown
}

fn number(message: MessageId) -> u128 {
    message.0.as_u128()
}

fn response(response: &AppResponse) -> String {
    match response {
        AppResponse::Ack => "ack".to_owned(),
        AppResponse::Reject { reason: None } => "reject".to_owned(),
        AppResponse::Reject { reason: Some(reason) } => format!("reject {:?}", &**reason),
        AppResponse::Notice(AppNotice { title, body, priority, expects_reply }) => {
            let question = if *expects_reply { " expecting a reply" } else { "" };
            format!("notice {priority:?} {:?} {:?}{question}", &**title, &**body)
        }
    }
}

fn plan(plan: &RunPlan) -> String {
    let mut text = String::new();
    if let Some(model) = &plan.default_model {
        text.push_str(&format!(" usually with {model}"));
    }
    for (word, is_set) in [("adaptive", plan.adaptive), ("detached", plan.detach), ("verbose", plan.verbose)] {
        if is_set {
            text.push_str(&format!(" {word}"));
        }
    }
    text
}

fn folder(choice: &FolderChoice) -> String {
    match choice {
        FolderChoice::Configured => String::new(),
        FolderChoice::Named(folder) => format!(" in {folder}"),
        FolderChoice::Granted(folder) => format!(" in {folder} (granted)"),
    }
}

fn name(client_id: &str) -> &str {
    if client_id.is_empty() { "(unnamed)" } else { client_id }
}

pub(super) fn topic(topic: &Topic) -> String {
    match topic {
        Topic::Run(run) => format!("run {}", run.0.as_u128()),
        Topic::Message(message) => format!("message {}", number(*message)),
    }
}

pub(super) fn pace(pace: FollowerPacing) -> &'static str {
    match pace {
        FollowerPacing::Paced => "setting the pace",
        FollowerPacing::Unpaced => "at its own pace",
    }
}

fn session(about: &SessionRef) -> String {
    match about {
        SessionRef::Key(key) => format!("session {key}"),
        SessionRef::Origin(about) => format!("the session of {}", origin(about)),
    }
}

fn origin(origin: &ConversationOrigin) -> String {
    let mut text = format!("{}:{}", origin.channel, origin.account);
    for (name, field) in [("peer", &origin.peer), ("guild", &origin.guild), ("team", &origin.team)] {
        if let Some(field) = field {
            text.push_str(&format!(" {name}={field}"));
        }
    }
    text
}

fn page(page: &PageRequest) -> String {
    match &page.cursor {
        Some(cursor) => format!("({} after {})", page.limit, cursor.0),
        None => format!("({})", page.limit),
    }
}
