//! Wire ↔ core conversion for every method and every event.

use std::borrow::Cow;
use std::sync::Arc;

use patchboard_core::BoardError;
use patchboard_core::board::BoardCommand;
use patchboard_core::command::{
    ApprovePlugin, ApproveTools, BudgetStatus, CallTool, ClearSession, DescribeNode, DescribeServer, FolderChoice,
    ListAgents, ListInputs, ListModels, ListPlugins, ListSessions, ListTools, ListWorkers, LoadPlugin, PageRequest,
    ReadHistory, ReloadSettings, RunKind, RunRef, SearchMemory, SessionRef, StartRun, SummariseUsage, UnloadPlugin,
};
use patchboard_core::command::{ListKeys, RevokeKey};
use patchboard_core::conversation::ConversationOrigin;
use patchboard_core::event::{Event, ModelCallOutcome, Topic};
use patchboard_core::id::{Seq, SessionKey};
use patchboard_core::model::{ContentPart, MessageRole, ModelMessage, ToolCall, ToolInput};
use patchboard_core::plugin::PluginReport;
use patchboard_core::reply::{
    AgentSummary, ModelReport, ModelSummary, NodeReport, ReloadReport, ServerReport, UnlistedProvider,
};
use patchboard_core::reply::{BudgetReport, BudgetUsage, Spender, SpenderBudget};
use patchboard_core::run_spec::AgentSource;
use patchboard_core::store::{
    FactRow, PageCursor, ResultPage, SessionFilter, SessionRow, TurnRow, UsageGroup, UsageGrouping,
};
use patchboard_core::tool::{ToolOutput, ToolSpec};
use patchboard_core::worker::{PoolReport, WorkerReport, WorkerState};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

mod inputs;

use super::wire;
use crate::dialect::BoardRequest;

mod accounts;
mod extensions;
mod keys;
mod records;
mod runs;

/// The session that scopes todos and facts for `tool.call` requests without a conversation.
const TOOL_CHANNEL: &str = "gateway";
const TOOL_ACCOUNT: &str = "local";

/// The `result` of a request, or why it failed.
pub(super) type CallResult = Result<Value, BoardError>;

/// A request as a command, or the reason it is invalid.
pub(super) enum GatewayRequest {
    Pong,
    /// Answered with one `result`.
    Call(BoardRequest<CallResult>),
    /// The same, about a plugin: an invalid plugin file is not an error of the params.
    PluginCall(BoardRequest<CallResult>),
    /// Answered with a stream of events.
    Stream {
        command: StartRun,
        /// Set if the client shows approvals itself.
        shows_approvals: bool,
    },
    Attach {
        run: RunRef,
        from: Seq,
        shows_approvals: bool,
    },
    Cancel {
        id: String,
    },
    Refused(String),
}

/// A command whose reply is shown as one `result`.
fn call<C: BoardCommand>(command: C, show: fn(C::Reply) -> Value) -> GatewayRequest {
    GatewayRequest::Call(BoardRequest::new(command, move |reply| reply.map(show)))
}

fn plugin_call<C: BoardCommand>(command: C, show: impl FnOnce(C::Reply) -> Value + Send + 'static) -> GatewayRequest {
    GatewayRequest::PluginCall(BoardRequest::new(command, move |reply| reply.map(show)))
}

pub(super) fn request(method: &str, params: &str, id: &str) -> GatewayRequest {
    match method {
        "ping" => GatewayRequest::Pong,
        "status" => call(DescribeNode, node),
        "server.status" => call(DescribeServer, |report| server_report(&report)),
        "server.reload" => call(ReloadSettings, |report| reload_report(&report)),
        "plugin.list" => call(ListPlugins, |plugins| plugins.iter().map(plugin_item).collect()),
        "chat.send" => parse_params(method, params, |sent: wire::ChatSend| {
            let shows_approvals = sent.approvals;
            let command = StartRun {
                origin: ConversationOrigin {
                    channel: sent.channel,
                    account: sent.account,
                    peer: sent.peer,
                    guild: sent.guild,
                    team: sent.team,
                },
                content: sent.content.into(),
                client_id: id.into(),
                model: sent.model.map(Into::into),
                folder: FolderChoice::new(sent.working_folder, sent.grant_folder),
                client_tools: sent.tools.into_iter().map(inputs::client_tool).collect(),
                kind: RunKind::Chat { agent: sent.agent.map(Into::into) },
            };
            Ok(GatewayRequest::Stream { command, shows_approvals })
        }),
        "chat.cancel" => {
            parse_params(method, params, |cancel: wire::ChatCancel| Ok(GatewayRequest::Cancel { id: cancel.id }))
        }
        "chat.attach" => parse_params(method, params, attach),
        "chat.history" => parse_params(method, params, |about: wire::SessionParams| {
            let page = PageRequest::new(about.limit, about.cursor.clone().map(PageCursor));
            Ok(call(ReadHistory { session: session(about)?, page }, |read| history(read.turns)))
        }),
        "session.list" => parse_optional_params(method, params, |query: wire::ListParams| {
            let hidden = accounts::hidden_sessions(query.hidden.as_deref())?;
            let filter = SessionFilter { channel: query.channel, account: query.account, hidden, owners: None };
            let page = PageRequest::new(query.limit, query.cursor.map(PageCursor));
            Ok(call(ListSessions { filter, page }, |page| list(page, |row| session_item(&row))))
        }),
        "session.clear" => parse_params(method, params, |about: wire::SessionParams| {
            let purge = about.purge;
            Ok(call(ClearSession { session: session(about)?, purge }, done))
        }),
        "run.list" => parse_optional_params(method, params, runs::list_runs),
        "run.describe" => parse_params(method, params, runs::describe_run),
        "run.events" => parse_params(method, params, runs::read_events),
        "memory.search" => parse_params(method, params, |search: wire::MemorySearch| {
            let wire::MemorySearch { query, channel, account, limit, cursor } = search;
            let page = PageRequest::new(limit, cursor.map(PageCursor));
            Ok(call(SearchMemory { channel, account, query, page }, |page| list(page, |fact| fact_item(&fact))))
        }),
        "budget.status" => budget(method, params),
        "usage.report" => parse_optional_params(method, params, usage),
        "tool.list" => parse_optional_params(method, params, |query: wire::ListParams| {
            Ok(call(ListTools { folder: None, page: page(query) }, tools))
        }),
        "tool.call" => parse_params(method, params, |params: wire::ToolCallParams| {
            let wire::ToolCallParams { name, arguments, working_folder, grant_folder, channel, account, peer } = params;
            let origin = ConversationOrigin {
                channel: channel.unwrap_or_else(|| TOOL_CHANNEL.to_owned()),
                account: account.unwrap_or_else(|| TOOL_ACCOUNT.to_owned()),
                peer,
                guild: None,
                team: None,
            };
            let arguments = Value::Object(arguments.unwrap_or_default()).into();
            let folder = FolderChoice::new(working_folder, grant_folder);
            Ok(call(CallTool { name: name.into(), arguments, folder, origin }, |output| tool_output(&output)))
        }),
        "tool.approve" => parse_params(method, params, |approve: wire::ToolApproveParams| {
            Ok(call(ApproveTools { server: approve.server }, |tools| approved_tools(&tools)))
        }),
        "agent.list" => call(ListAgents, |agents| agent_list(&agents)),
        "models.list" => parse_optional_params(method, params, |list: wire::ModelsList| {
            Ok(call(ListModels { agent: list.agent.map(Into::into) }, |report| models(&report)))
        }),
        "worker.list" => call(ListWorkers, |pools| pool_list(&pools)),
        "approval.list" => parse_optional_params(method, params, |list: wire::ListParams| {
            Ok(call(ListInputs(page(list)), inputs::approval_page))
        }),
        "approval.answer" => parse_params(method, params, |answer: wire::ApprovalAnswer| {
            Ok(call(inputs::approval_answer(&answer)?, done))
        }),
        "input.list" => parse_optional_params(method, params, |list: wire::ListParams| {
            Ok(call(ListInputs(page(list)), inputs::input_page))
        }),
        "input.answer" => {
            parse_params(method, params, |answer: wire::InputAnswer| Ok(call(inputs::input_answer(answer)?, done)))
        }
        "plugin.load" => parse_params(method, params, |load: wire::PluginLoad| match (load.name, load.path) {
            (Some(named), None) | (None, Some(named)) => {
                Ok(plugin_call(LoadPlugin { named }, |plugin| plugin_item(&plugin)))
            }
            (Some(_), Some(_)) | (None, None) => Err("one of `name` and `path` is needed, and not both".to_owned()),
        }),
        "plugin.unload" => parse_params(method, params, |plugin: wire::PluginName| {
            let name = plugin.name;
            Ok(plugin_call(UnloadPlugin { name: name.clone() }, move |()| {
                json!(wire::UnloadedPlugin { unloaded: &name })
            }))
        }),
        "plugin.approve" => parse_params(method, params, |plugin: wire::PluginName| {
            Ok(plugin_call(ApprovePlugin { name: plugin.name }, |plugin| plugin_item(&plugin)))
        }),
        "key.list" => call(ListKeys, keys::list),
        "key.create" => parse_params(method, params, keys::create),
        "key.revoke" => {
            parse_params(method, params, |key: wire::KeyName| Ok(call(RevokeKey { name: key.name.into() }, done)))
        }
        other => accounts::request(other, params)
            .or_else(|| records::request(other, params))
            .or_else(|| extensions::request(other, params))
            .unwrap_or_else(|| GatewayRequest::Refused(format!("unknown method: {other}"))),
    }
}

fn parse_params<T: DeserializeOwned>(
    method: &str,
    params: &str,
    build: impl FnOnce(T) -> Result<GatewayRequest, String>,
) -> GatewayRequest {
    // serde would also read a struct from an array, and its error would contain the internal type name.
    let request = match params.starts_with('{') {
        true => serde_json::from_str(params).map_err(|error| without_position(&error)).and_then(build),
        false => Err("expected an object".to_owned()),
    };
    request.unwrap_or_else(|problem| GatewayRequest::Refused(format!("invalid {method} params: {problem}")))
}

/// For methods whose params are all optional: absent and null mean the defaults.
fn parse_optional_params<T: DeserializeOwned>(
    method: &str,
    params: &str,
    build: impl FnOnce(T) -> Result<GatewayRequest, String>,
) -> GatewayRequest {
    parse_params(method, if params == "null" { "{}" } else { params }, build)
}

/// The error without its position, which is relative to the params and would mislead.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string().replace("usize", "a whole number").replace("u64", "a whole number");
    match text.rfind(" at line ") {
        Some(at) => text.get(..at).unwrap_or(&text).to_owned(),
        None => text,
    }
}

fn attach(attach: wire::ChatAttach) -> Result<GatewayRequest, String> {
    let session = attach.session.map(|key| parse_key(&key).map(SessionRef::Key)).transpose()?;
    let run = match (attach.run_id, attach.id, session) {
        (Some(run), ..) => RunRef::Id(run.parse().map_err(|_| "`run_id` is not a run's id".to_owned())?),
        (None, Some(id), within) => RunRef::ClientId { id: id.into(), within },
        (None, None, Some(session)) => RunRef::Session(session),
        (None, None, None) => return Err("one of `run_id`, `id` and `session` is needed".to_owned()),
    };
    let from = Seq(attach.after.unwrap_or(0)).next();
    Ok(GatewayRequest::Attach { run, from, shows_approvals: attach.approvals })
}

fn session(about: wire::SessionParams) -> Result<SessionRef, String> {
    match about {
        wire::SessionParams { session: Some(key), .. } => Ok(SessionRef::Key(parse_key(&key)?)),
        wire::SessionParams { channel: Some(channel), account: Some(account), peer, guild, team, .. } => {
            Ok(SessionRef::Origin(ConversationOrigin { channel, account, peer, guild, team }))
        }
        _ => Err("`session`, or `channel` and `account`, are needed".to_owned()),
    }
}

fn parse_key(key: &str) -> Result<SessionKey, String> {
    SessionKey::parse(key).ok_or_else(|| "`session` is not a session key".to_owned())
}

fn page(list: wire::ListParams) -> PageRequest {
    PageRequest::new(list.limit, list.cursor.map(PageCursor))
}

fn budget(method: &str, params: &str) -> GatewayRequest {
    parse_optional_params(method, params, |about: wire::SessionParams| {
        let names_one = about.session.is_some() || about.channel.is_some() || about.account.is_some();
        let session = if names_one { Some(session(about)?) } else { None };
        Ok(call(BudgetStatus { session }, |report| budget_report(&report)))
    })
}

fn usage(report: wire::UsageReportParams) -> Result<GatewayRequest, String> {
    let since = match report.since {
        Some(text) => Some(text.parse().map_err(|_| format!("`since` is not an RFC 3339 time: {text}"))?),
        None => None,
    };
    let keys = report.group_by.as_deref().unwrap_or("day");
    let (first, second) = keys.split_once(',').map_or((keys, None), |(first, second)| (first, Some(second)));
    let group_by = usage_grouping(first)?;
    let then_by = second.map(usage_grouping).transpose()?;
    if then_by == Some(group_by) {
        return Err("the two keys of `group_by` must differ".to_owned());
    }
    let page = PageRequest::new(report.limit, report.cursor.map(PageCursor));
    Ok(call(SummariseUsage { since, group_by, then_by, page }, |page| list(page, |group| usage_item(&group))))
}

fn usage_grouping(name: &str) -> Result<UsageGrouping, String> {
    Ok(match name {
        "day" => UsageGrouping::Day,
        "model" => UsageGrouping::Model,
        "provider" => UsageGrouping::Provider,
        "agent" => UsageGrouping::Agent,
        "session" => UsageGrouping::Session,
        other => return Err(format!("`group_by` is one of day, model, provider, agent, session; not {other}")),
    })
}

fn done((): ()) -> Value {
    json!("ok")
}

fn node(report: NodeReport) -> Value {
    json!({ "version": report.version, "plugins": report.plugins, "sessions": report.sessions })
}

fn fact_item(fact: &FactRow) -> Value {
    json!({
        "subject": fact.subject, "predicate": fact.predicate, "object": fact.object,
        "confidence": rounded(fact.confidence), "score": rounded(fact.score),
        "learned_at": fact.learned_at.to_string(), "session": fact.session.as_str(),
    })
}

fn tools(page: ResultPage<ToolSpec>) -> Value {
    list(page, |tool| {
        json!({
            "name": &*tool.name, "description": &*tool.description, "input_schema": &*tool.input_schema,
            "kind": tool.kind.name(),
        })
    })
}

fn tool_output(output: &ToolOutput) -> Value {
    json!({ "content": &*output.content, "is_error": output.is_error })
}

fn approved_tools(tools: &[Arc<str>]) -> Value {
    json!({ "approved": tools.iter().map(|name| &**name).collect::<Vec<_>>() })
}

fn pool_list(pools: &[PoolReport]) -> Value {
    let items: Vec<Value> = pools.iter().map(pool_item).collect();
    json!({ "items": items, "next_cursor": null })
}

fn list<T>(page: ResultPage<T>, item: impl FnMut(T) -> Value) -> Value {
    let items: Vec<Value> = page.items.into_iter().map(item).collect();
    json!({ "items": items, "next_cursor": page.next.map(|cursor| cursor.0) })
}

/// Only agents that `chat.send` can name; built-in strategies and profiles are for runs.
fn agent_list(agents: &[AgentSummary]) -> Value {
    let configured = agents.iter().filter(|agent| agent.source != AgentSource::BuiltIn);
    let items: Vec<Value> =
        configured.map(|agent| json!({ "name": &*agent.name, "description": agent.description.as_deref() })).collect();
    json!({ "items": items, "next_cursor": null })
}

fn models(report: &ModelReport) -> Value {
    let model = |model: &ModelSummary| {
        let mut item = json!({ "id": &*model.id, "name": &*model.name, "provider": &*model.provider });
        if let Some(fields) = item.as_object_mut().filter(|_| model.is_default) {
            fields.insert("default".to_owned(), Value::Bool(true));
        }
        item
    };
    let silent = |silent: &UnlistedProvider| json!({ "provider": &*silent.provider, "reason": &*silent.reason });
    let models: Vec<Value> = report.models.iter().map(model).collect();
    let unavailable: Vec<Value> = report.unavailable.iter().map(silent).collect();
    json!({ "models": models, "unavailable": unavailable })
}

fn server_report(report: &ServerReport) -> Value {
    let ServerReport { node, is_draining, agents, approvals, budget, pools, connected_apps, known_apps } = report;
    let agents: Vec<Value> = agents
        .iter()
        .map(|agent| json!({ "name": &*agent.agent, "provider": &*agent.provider, "model": &*agent.model }))
        .collect();
    let pools: Vec<Value> = pools
        .iter()
        .map(|pool| {
            let ready = pool.workers.iter().filter(|worker| worker.state == WorkerState::Ready).count();
            json!({ "name": &*pool.name, "ready": ready, "wanted": pool.target_workers, "trouble": pool.last_error.as_deref() })
        })
        .collect();
    json!({
        "version": node.version, "state": if *is_draining { "stopping" } else { "ready" },
        "plugins": node.plugins, "sessions": node.sessions, "runs": node.live_runs, "approvals": approvals,
        "agents": agents, "workers": pools, "apps": { "connected": connected_apps, "known": known_apps },
        "budget": keys::with_keys(
            json!({ "daily": budget_line(&budget.daily), "monthly": budget_line(&budget.monthly) }),
            budget,
        ),
    })
}

fn reload_report(report: &ReloadReport) -> Value {
    let ReloadReport { problems, notes, changed, needs_restart } = report;
    let texts = |texts: &[Arc<str>]| texts.iter().map(|text| Value::from(&**text)).collect::<Vec<Value>>();
    json!({
        "applied": problems.is_empty(), "changed": texts(changed), "needs_restart": texts(needs_restart),
        "problems": texts(problems), "notes": texts(notes),
    })
}

fn pool_item(pool: &PoolReport) -> Value {
    let workers: Vec<Value> = pool.workers.iter().map(worker_item).collect();
    let ready = pool.workers.iter().filter(|worker| worker.state == WorkerState::Ready).count();
    json!({
        "name": &*pool.name, "ready": ready, "wanted": pool.target_workers, "queued": pool.queued, "tools": pool.tools,
        "succeeded": pool.succeeded, "failed": pool.failed, "timed_out": pool.timed_out, "refused": pool.refused,
        "restarts": pool.restarts, "recycled": pool.recycled, "trouble": pool.last_error.as_deref(),
        "workers": workers,
    })
}

fn worker_item(worker: &WorkerReport) -> Value {
    let state = match worker.state {
        WorkerState::Starting => "starting",
        WorkerState::Ready => "ready",
        WorkerState::Draining => "draining",
        WorkerState::BackingOff => "backing_off",
    };
    json!({
        "id": &*worker.id.0, "state": state, "pid": worker.pid, "in_flight": worker.in_flight,
        "capacity": worker.capacity, "calls": worker.calls, "memory_bytes": worker.memory_bytes,
        "since": worker.since.to_string(), "address": worker.address.as_deref(),
    })
}

fn plugin_item(plugin: &PluginReport) -> Value {
    let kinds = [("tools", plugin.has_tools), ("channel", plugin.has_channel)];
    let kinds: Vec<&str> = kinds.into_iter().filter(|(_, has)| *has).map(|(kind, _)| kind).collect();
    let grants: Vec<String> = plugin.grants.iter().map(ToString::to_string).collect();
    let waiting = (!plugin.changes.is_empty()).then(|| json!({ "changes": plugin.changes }));
    json!({
        "name": plugin.name, "state": plugin.state.name(), "sha256": plugin.sha256, "kinds": kinds, "grants": grants,
        "tools": plugin.tools, "source": plugin.source, "calls": plugin.calls, "error": plugin.problem,
        "waiting_for_approval": waiting,
    })
}

fn session_item(row: &SessionRow) -> Value {
    let mut item = json!({
        "session": row.key.as_str(), "turns": row.turns,
        "created_at": row.created_at.to_string(), "used_at": row.used_at.to_string(),
        "title": row.title.as_deref(),
    });
    if let Some(fields) = item.as_object_mut().filter(|_| row.is_hidden) {
        fields.insert("hidden".into(), true.into());
    }
    if let (Some(parts), Some(fields)) = (row.key.conversation_parts(), item.as_object_mut()) {
        fields.insert("agent".into(), parts.agent.into());
        fields.insert("channel".into(), parts.channel.into());
        fields.insert("account".into(), parts.account.into());
        fields.insert("peer".into(), parts.peer.into());
    }
    item
}

/// One item per message, oldest first; `limit` and the cursor count turns, so a turn is never split.
fn history(turns: ResultPage<TurnRow>) -> Value {
    let mut items = Vec::new();
    for turn in &turns.items {
        for message in &turn.messages {
            push_message(turn, message, &mut items);
        }
    }
    json!({ "items": items, "next_cursor": turns.next.map(|cursor| cursor.0) })
}

fn push_message(turn: &TurnRow, message: &ModelMessage, items: &mut Vec<Value>) {
    let at = turn.at.to_string();
    let calls: Vec<Value> = message
        .parts
        .iter()
        .filter_map(|part| match part {
            ContentPart::ToolCall(call) => {
                Some(json!({ "id": call.id.to_string(), "name": &*call.name, "input": input(call) }))
            }
            ContentPart::Text(_) | ContentPart::ToolResult(_) => None,
        })
        .collect();
    let results = message.parts.iter().filter_map(|part| match part {
        ContentPart::ToolResult(result) => Some(result),
        ContentPart::Text(_) | ContentPart::ToolCall(_) => None,
    });
    for result in results {
        items.push(json!({
            "turn": turn.number, "role": "tool", "tool_use_id": result.call.to_string(), "name": &*result.name,
            "content": &*result.content, "is_error": result.is_error, "at": at,
        }));
    }
    let text = message.text();
    if text.is_empty() && calls.is_empty() {
        return;
    }
    let mut item = json!({ "turn": turn.number, "role": role(message.role), "content": text, "at": at });
    if let (false, Some(fields)) = (calls.is_empty(), item.as_object_mut()) {
        fields.insert("tool_calls".into(), calls.into());
    }
    items.push(item);
}

fn role(role: MessageRole) -> &'static str {
    match role {
        MessageRole::User => "user",
        MessageRole::Assistant => "assistant",
    }
}

fn budget_report(report: &BudgetReport) -> Value {
    let general = json!({
        "session": report.session.as_ref().map(budget_line),
        "daily": budget_line(&report.daily),
        "monthly": budget_line(&report.monthly),
        "spenders": report.spenders.iter().map(spender).collect::<Vec<Value>>(),
    });
    keys::with_keys(general, report)
}

fn spender(budget: &SpenderBudget) -> Value {
    let (kind, name) = match &budget.spender {
        Spender::Agent(name) => ("agent", name),
    };
    json!({
        "kind": kind, "name": &**name, "daily": budget_line(&budget.daily), "monthly": budget_line(&budget.monthly),
    })
}

fn budget_line(line: &BudgetUsage) -> Value {
    json!({ "used": line.used, "reserved": line.reserved, "limit": line.limit })
}

fn usage_item(group: &UsageGroup) -> Value {
    let mut item = json!({
        "key": group.key, "calls": group.calls, "input_tokens": group.tokens.input,
        "output_tokens": group.tokens.output, "cost_usd": group.cost_nanousd as f64 / 1e9,
        "estimated_calls": group.estimated_calls,
    });
    if let (Some(then), Some(fields)) = (&group.then, item.as_object_mut()) {
        fields.insert("then".to_owned(), Value::from(then.as_str()));
    }
    item
}

/// Two decimals: hides `f32` noise.
fn rounded(score: f32) -> f64 {
    (f64::from(score) * 100.0).round() / 100.0
}

/// Writes the frames of an event in order. Some events have no frame on this surface.
pub(super) fn event_frames(id: &str, topic: &Topic, seq: Seq, event: &Event, mut write: impl FnMut(String)) {
    let frame = |event: &'static str, data| encode(&wire::EventFrame { id, event, data: Some(data), seq: Some(seq.0) });
    match event {
        Event::AnswerText(pieces) => {
            for (offset, piece) in (0..).zip(pieces.iter()) {
                let seq = Some(seq.0 + offset);
                write(encode(&wire::EventFrame { id, event: "text", data: Some(piece), seq }));
            }
        }
        Event::ToolRequested(call) => write(tool_use(id, seq, call)),
        Event::ModelCallEnded(ModelCallOutcome::Completed { calls, .. }) => {
            for (offset, call) in (0..).zip(calls) {
                write(tool_use(id, Seq(seq.0 + offset), call));
            }
        }
        Event::ToolFinished { call, output } => {
            let data = wire::ToolResult { tool_use_id: &call.0, content: &output.content, is_error: output.is_error };
            write(encode(&wire::EventFrame { id, event: "tool_result", data: Some(data), seq: Some(seq.0) }));
        }
        Event::InputRequested(request) => write(inputs::prompt_frame(id, topic, seq, request)),
        Event::ModelUsage(note) => {
            let data = wire::TokenUsage { input_tokens: note.tokens.input, output_tokens: note.tokens.output };
            write(encode(&wire::EventFrame { id, event: "usage", data: Some(data), seq: Some(seq.0) }));
        }
        Event::RunFailed { message } => write(frame("error", &**message)),
        Event::RunEnded { .. } => {
            write(encode(&wire::EventFrame::<()> { id, event: "done", data: None, seq: Some(seq.0) }));
        }
        Event::RunStarted { .. }
        | Event::RunResumed
        | Event::RunBriefed(_)
        | Event::NodeEntered { .. }
        | Event::NodeLeft(_)
        | Event::DraftText(_)
        | Event::ThoughtText(_)
        | Event::ToolArguments { .. }
        | Event::ModelCallEnded(ModelCallOutcome::Failed(_))
        | Event::FindingRecorded(_)
        | Event::ToolStarted { .. }
        | Event::ToolProgress { .. }
        | Event::InputProvided { .. }
        | Event::Message(_) => {}
    }
}

fn tool_use(id: &str, seq: Seq, call: &ToolCall) -> String {
    let data = wire::ToolUse { id: &call.id.0, name: &call.name, input: input(call) };
    encode(&wire::EventFrame { id, event: "tool_use", data: Some(data), seq: Some(seq.0) })
}

/// Arguments that are not JSON are shown as plain text.
fn input(call: &ToolCall) -> Cow<'_, Value> {
    match &call.input {
        ToolInput::Json(value) => Cow::Borrowed(value),
        ToolInput::Malformed(text) => Cow::Owned(Value::String(text.to_string())),
    }
}

/// Frames contain only strings, numbers and JSON values, so encoding cannot fail.
pub(super) fn encode(frame: &impl serde::Serialize) -> String {
    serde_json::to_string(frame).unwrap_or_default()
}
