//! A readable form of commands.

use patchboard_core::app::AppProfile;
use patchboard_core::app::message::{AppNotice, AppResponse, MessageState};
use patchboard_core::command::{
    ApprovalRef, Command, FolderChoice, PageRequest, RunPlan, RunRef, SessionRef, WorkspaceCommand,
};
use patchboard_core::conversation::ConversationOrigin;
use patchboard_core::event::Topic;
use patchboard_core::id::MessageId;
use patchboard_core::log::FollowerPacing;
use patchboard_core::worker::WorkerId;

pub(super) fn command(command: &Command) -> String {
    match command {
        Command::StartRun(start) => {
            let by = start.plan.as_ref().map_or_else(String::new, |plan| format!(" by {}", plan.agent));
            let words = start.plan.as_deref().map(plan).unwrap_or_default();
            let folder = folder(&start.folder);
            let model = start.model.as_deref().map(|model| format!(" with {model}")).unwrap_or_default();
            let agent = start.agent.as_deref().map(|agent| format!(" of agent {agent}")).unwrap_or_default();
            let (from, id) = (origin(&start.origin), name(&start.client_id));
            format!("start {from} {:?} as {id}{agent}{model}{by}{folder}{words}", &*start.content)
        }
        Command::CancelRun(run) => format!("cancel run {}", run.0.as_u128()),
        Command::DetachRun(run) => format!("keep run {}", run.0.as_u128()),
        Command::FindRun(RunRef::ClientId { id, within: None }) => format!("find run by id {id}"),
        Command::FindRun(RunRef::ClientId { id, within: Some(about) }) => {
            format!("find run by id {id} in {}", session(about))
        }
        Command::FindRun(RunRef::Session(about)) => format!("find run of {}", session(about)),
        Command::AnswerApproval { approval: ApprovalRef::Id(approval), approve } => {
            format!("answer approval {} {approve}", approval.0.as_u128())
        }
        Command::AnswerApproval { approval: ApprovalRef::Call { run, call }, approve } => {
            format!("answer approval of call {call} of run {} {approve}", run.0.as_u128())
        }
        Command::ListApprovals(about) => format!("list approvals {}", page(about)),
        Command::ListSessions { filter, page: about } => {
            let field = |field: &Option<String>| field.clone().unwrap_or_else(|| "*".to_owned());
            format!("list sessions {}:{} {}", field(&filter.channel), field(&filter.account), page(about))
        }
        Command::ReadHistory { session: about, page: which } => format!("read {} {}", session(about), page(which)),
        Command::ClearSession { session: about, purge } => {
            format!("{} {}", if *purge { "purge" } else { "clear" }, session(about))
        }
        Command::SearchMemory { channel, account, query, page: which } => {
            format!("search memory of {channel}:{account} for {query:?} {}", page(which))
        }
        Command::BudgetStatus { session: None } => "budget".to_owned(),
        Command::BudgetStatus { session: Some(about) } => format!("budget of {}", session(about)),
        Command::UsageReport { since, group_by, page: which } => {
            let since = since.map_or_else(|| "the beginning".to_owned(), |since| since.to_string());
            format!("usage since {since} by {group_by:?} {}", page(which))
        }
        Command::ReadMessages { session: about, before, limit } => {
            let before = before.map(|before| format!(" before {before}")).unwrap_or_default();
            format!("read messages of {}{before} ({limit})", session(about))
        }
        Command::ListTools { folder: None, page: which } => format!("list tools {}", page(which)),
        Command::ListTools { folder: Some(folder), page: which } => format!("list tools in {folder} {}", page(which)),
        Command::CallTool(call) => {
            let folder = folder(&call.folder);
            format!("call tool {} {}{folder} for {}", call.name, call.arguments, origin(&call.origin))
        }
        Command::ListAgents => "list agents".to_owned(),
        Command::ApproveTools { server } => format!("approve tools of {server}"),
        Command::ListModels { agent } => format!("list models of agent {}", agent.as_deref().unwrap_or("-")),
        Command::SetModel { thread, model } => {
            let of = thread.as_ref().map(|thread| format!(" of {}", origin(thread))).unwrap_or_default();
            format!("set model{of} to {model:?}")
        }
        Command::Workspaces(wanted) => workspaces(wanted),
        Command::ListPlugins => "list plugins".to_owned(),
        Command::LoadPlugin { named } => format!("load plugin {named}"),
        Command::ApprovePlugin { name } => format!("approve plugin {name}"),
        Command::UnloadPlugin { name } => format!("unload plugin {name}"),
        Command::ReceiveWebhook { channel, webhook } => {
            format!("receive {} bytes on channel {channel}", webhook.body.len())
        }
        Command::DescribeNode => "describe node".to_owned(),
        Command::DescribeServer => "describe server".to_owned(),
        Command::ReloadSettings => "reload settings".to_owned(),
        Command::OpenSession(wanted) => {
            let config = wanted.config.map(|config| format!(" {config:?}")).unwrap_or_default();
            format!("open session {} {:?}{config}{}", wanted.id, wanted.metadata, by(wanted.worker.as_ref()))
        }
        Command::CloseSession { id } => format!("close session {id}"),
        Command::DescribeSession { id } => format!("describe session {id}"),
        Command::TouchSession { id } => format!("touch session {id}"),
        Command::RegisterTools(register) => {
            let names: Vec<&str> = register.tools.iter().map(|tool| &*tool.name).collect();
            let who = format!("{}{}", register.client_name, by(register.worker.as_ref()));
            format!("register tools {} in session {} as {who}", names.join(" "), register.session)
        }
        Command::FindTool { session, name, reach } => format!("find tool {name} in session {session} among {reach:?}"),
        Command::ListHostTools { session } => format!("list host tools in session {session}"),
        Command::CallInSession(call) => {
            format!(
                "call tool {} {} in session {} among {:?}",
                call.name, call.arguments, call.metadata.session, call.filter
            )
        }
        Command::ListWorkers => "list workers".to_owned(),
        Command::SubmitMessage(said) => {
            let confidence = said.confidence.map(|confidence| format!(" ({confidence})")).unwrap_or_default();
            format!("submit {:?} {:?}{confidence}{}", said.input, &*said.text, to(said.only_app.as_deref()))
        }
        Command::ReadMessage { message, newer_than } => {
            let newer = newer_than.map(|seq| format!(" when newer than {seq}")).unwrap_or_default();
            format!("read message {}{newer}", number(*message))
        }
        Command::ListMessages { state, page: which } => {
            format!("list messages {} {}", state.map_or("*", MessageState::name), page(which))
        }
        Command::ResendMessage { message, app } => {
            format!("resend message {}{}", number(*message), to(app.as_deref()))
        }
        Command::CancelMessage(message) => format!("cancel message {}", number(*message)),
        Command::ExplainRouting { text } => format!("explain routing of {:?}", &**text),
        Command::RegisterApp(register) => {
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
        Command::NextInboxEvent => "take from inbox".to_owned(),
        Command::ConfirmAppAlive => "prove app".to_owned(),
        Command::DeregisterApp => "leave app".to_owned(),
        Command::AnswerMessage { message, response } => {
            format!("answer message {} {}", number(*message), self::response(response))
        }
        Command::ListApps => "list apps".to_owned(),
        Command::ApproveApp { app } => format!("approve app {app}"),
        Command::PairApp { app, .. } => format!("pair app {app}"),
        Command::ForgetApp { app, unpair: false } => format!("forget what app {app} taught"),
        Command::ForgetApp { app, unpair: true } => format!("forget app {app}"),
    }
}

fn workspaces(wanted: &WorkspaceCommand) -> String {
    match wanted {
        WorkspaceCommand::List => "list workspaces".to_owned(),
        WorkspaceCommand::Create { name } => format!("create workspace {}", name.as_deref().unwrap_or("-")),
        WorkspaceCommand::ListThreads { workspace } => format!("list threads of workspace {workspace}"),
        WorkspaceCommand::AddThread { workspace, thread } => format!("add thread {thread} to workspace {workspace}"),
        WorkspaceCommand::RemoveThread { workspace, thread } => {
            format!("remove thread {thread} from workspace {workspace}")
        }
    }
}

fn number(message: MessageId) -> u128 {
    message.0.as_u128()
}

fn by(worker: Option<&WorkerId>) -> String {
    worker.map(|worker| format!(" by worker {worker}")).unwrap_or_default()
}

fn to(app: Option<&str>) -> String {
    app.map(|app| format!(" to {app}")).unwrap_or_default()
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
