//! Maps requests to commands, and replies to responses. Events are mapped in `projection`.

use std::sync::Arc;

use patchboard_core::command::{
    AddWorkspaceThread, AnswerInput, FindRun, FolderChoice, InputRef, ListTools, PageRequest, ReadThread, RunKind,
    RunPlan, RunRef, SessionRef, SetModel, StartRun,
};
use patchboard_core::conversation::ConversationOrigin;
use patchboard_core::conversation::{Workspace, WorkspaceThread};
use patchboard_core::event::InputAnswer;
use patchboard_core::id::{CallId, RunId};
use patchboard_core::model::MessageRole;
use patchboard_core::reply::{AgentSummary, ModelReport, ThreadMessage};
use patchboard_core::run_spec::AgentSource;
use patchboard_core::store::PageCursor;
use patchboard_core::tool::ToolSpec;
use serde_json::Value;

use super::projection::ClientLevel;
use super::wire::{self, Response, ToolFormat};
use super::yaml;

/// The channel of all conversations of this surface, so that no other surface shares them by accident.
const CHANNEL: &str = "runs";
const DEFAULT_MESSAGES: u64 = 100;
/// Larger limits are reduced to this, not refused.
const MAX_MESSAGES: u64 = 1000;

/// `usual_model` is the connection's default.
pub(super) fn start(run: wire::RunParams, account: &str, usual_model: Option<Arc<str>>) -> StartRun {
    StartRun {
        origin: origin(account, non_empty(run.thread_id)),
        content: run.message.0.into(),
        client_id: non_empty(run.id).unwrap_or_default().into(),
        model: non_empty(run.model).map(Into::into),
        folder: FolderChoice::new(non_empty(run.working_folder), run.grant_folder.unwrap_or(false)),
        // The protocol has no frames for them.
        client_tools: Vec::new(),
        kind: RunKind::Agent(RunPlan {
            agent: run.agent.into(),
            default_model: usual_model,
            adaptive: run.got_adaptive.unwrap_or(false),
            detach: run.detach.unwrap_or(false),
            verbose: run.verbose.unwrap_or(false),
        }),
    }
}

/// Empty fields count as absent.
pub(super) fn non_empty(field: Option<String>) -> Option<String> {
    field.filter(|text| !text.is_empty())
}

pub(super) fn find_run(id: &str) -> FindRun {
    FindRun(RunRef::ClientId { id: id.into(), within: None })
}

/// Whether a run belongs to this surface: chats of the same user may have the same client id.
pub(super) fn is_runs_session(session: &patchboard_core::id::SessionKey) -> bool {
    session.conversation_parts().is_some_and(|parts| parts.channel == CHANNEL)
}

pub(super) fn approve(run: RunId, request: &wire::ToolApprove) -> AnswerInput {
    let call = CallId(request.call_id.as_str().into());
    let answer = if request.approve { InputAnswer::Approved } else { InputAnswer::Refused };
    AnswerInput { input: InputRef::Call { run, call }, answer }
}

pub(super) fn list_tools(folder: Option<String>, cursor: Option<PageCursor>) -> ListTools {
    ListTools { folder, page: PageRequest::new(Some(PageRequest::MAX_LIMIT), cursor) }
}

/// The command, and whether the response lists messages or only says whether there are any.
pub(super) fn read_messages(request: &wire::UserMessages, account: &str) -> (ReadThread, MessageSelection) {
    let limit = request.limit.unwrap_or(DEFAULT_MESSAGES).min(MAX_MESSAGES);
    let selection = if limit == 0 { MessageSelection::None } else { MessageSelection::All };
    let command = ReadThread {
        session: SessionRef::Origin(origin(account, Some(request.thread_id.clone()))),
        before: request.before,
        limit: usize::try_from(limit.max(1)).unwrap_or(usize::MAX),
    };
    (command, selection)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageSelection {
    All,
    None,
}

fn origin(account: &str, peer: Option<String>) -> ConversationOrigin {
    ConversationOrigin { channel: CHANNEL.to_owned(), account: account.to_owned(), peer, guild: None, team: None }
}

pub(super) fn messages(
    id: &str,
    thread_id: &str,
    found: &[ThreadMessage],
    has_more: bool,
    selection: MessageSelection,
) -> String {
    let (messages, has_more) = match selection {
        MessageSelection::All => (found.iter().map(message).collect(), has_more),
        MessageSelection::None => (Vec::new(), has_more || !found.is_empty()),
    };
    wire::encode(&Response::UserMessages { id, thread_id, messages, has_more })
}

fn message(message: &ThreadMessage) -> wire::UserMessage<'_> {
    let role = match message.role {
        MessageRole::User => "user",
        MessageRole::Assistant => "assistant",
    };
    wire::UserMessage { role, content: &message.text, seq: message.seq }
}

pub(super) fn tools(id: &str, tools: &mut [ToolSpec]) -> String {
    tools.sort_by(|left, right| left.name.cmp(&right.name));
    wire::encode(&Response::ToolsList { id, tools: tools.iter().map(tool).collect() })
}

pub(super) fn shown_tool(id: &str, spec: &ToolSpec, output: Option<ToolFormat>) -> String {
    let response = match output.unwrap_or(ToolFormat::Yaml) {
        ToolFormat::Json => Response::ToolShow { id, tool: Some(tool(spec)), tool_yaml: None },
        ToolFormat::Yaml => Response::ToolShow { id, tool: None, tool_yaml: Some(tool_yaml(spec)) },
    };
    wire::encode(&response)
}

fn tool(spec: &ToolSpec) -> wire::ToolView<'_> {
    wire::ToolView { name: &spec.name, description: &spec.description, input_schema: &spec.input_schema }
}

fn tool_yaml(spec: &ToolSpec) -> String {
    let text = |text: &Arc<str>| Value::String(text.to_string());
    let (name, description) = (text(&spec.name), text(&spec.description));
    let mut fields = vec![("name", &name)];
    if !spec.description.is_empty() {
        fields.push(("description", &description));
    }
    fields.push(("input_schema", &*spec.input_schema));
    yaml::document(&fields)
}

pub(super) fn agents(id: &str, agents: &[AgentSummary], source: Option<&str>) -> String {
    let views = agents.iter().map(|agent| wire::AgentView {
        name: &agent.name,
        description: agent.description.as_deref(),
        source: match agent.source {
            AgentSource::BuiltIn => "builtin",
            AgentSource::Project => "project",
            AgentSource::User => "user",
        },
    });
    let agents = views.filter(|agent| source.is_none_or(|source| source == agent.source)).collect();
    wire::encode(&Response::AgentList { id, agents })
}

pub(super) fn set_model(request: &wire::SetModel, account: &str) -> SetModel {
    let thread = non_empty(request.session_id.clone()).map(|thread| origin(account, Some(thread)));
    SetModel { thread, model: request.model_id.as_str().into() }
}

pub(super) fn models(id: &str, report: &ModelReport, client_level: ClientLevel) -> String {
    let models = report.models.iter().map(|model| wire::ModelView {
        id: &model.id,
        name: &model.name,
        provider: &model.provider,
    });
    let models = models.collect();
    wire::encode(&match client_level {
        ClientLevel::Full => Response::ModelsList { id, models },
        ClientLevel::Strict => Response::StrictModelsList { id, models },
    })
}

pub(super) fn model_set(id: &str, error: Option<&str>, client_level: ClientLevel) -> String {
    let success = error.is_none();
    wire::encode(&match client_level {
        ClientLevel::Full => Response::ModelSet { id, success, error },
        ClientLevel::Strict => Response::StrictModelSet { id, success, error },
    })
}

pub(super) fn run_cancelled(id: &str, run_id: &str, client_level: ClientLevel) -> String {
    wire::encode(&match client_level {
        ClientLevel::Full => Response::CancelRunAck { id, run_id },
        ClientLevel::Strict => Response::StrictCancelRunAck { id, run_id },
    })
}

/// The command for a run that names the workspace of its thread.
pub(super) fn add_thread_command(run: &wire::RunParams) -> Option<AddWorkspaceThread> {
    let workspace = run.workspace_id.as_deref().filter(|id| !id.is_empty())?;
    let thread = run.thread_id.as_deref().filter(|id| !id.is_empty())?;
    Some(AddWorkspaceThread { workspace: workspace.into(), thread: thread.into() })
}

pub(super) fn workspaces(id: &str, found: &[Workspace]) -> String {
    wire::encode(&Response::WorkspaceList { id, workspaces: found.iter().map(workspace).collect() })
}

pub(super) fn workspace_created(id: &str, created: &Workspace) -> String {
    wire::encode(&Response::WorkspaceCreate { id, workspace_id: &created.id, workspace: workspace(created) })
}

fn workspace(workspace: &Workspace) -> wire::WorkspaceView<'_> {
    let created_at_ms = workspace.created_at.as_millisecond();
    wire::WorkspaceView { id: &workspace.id, name: &workspace.name, created_at_ms }
}

pub(super) fn threads(id: &str, workspace_id: &str, found: &[WorkspaceThread]) -> String {
    let threads = found
        .iter()
        .map(|known| wire::ThreadView { thread_id: &known.thread, created_at_ms: known.created_at.as_millisecond() });
    wire::encode(&Response::WorkspaceThreadList { id, workspace_id, threads: threads.collect() })
}
