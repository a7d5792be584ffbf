//! Parses replies and events of a transcript: a keyword, then JSON if there is data.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use patchboard_core::approval::policy::ApprovalMode;
use patchboard_core::caller::Surface;
use patchboard_core::conversation::{Workspace, WorkspaceThread};
use patchboard_core::deliveries::{ChannelReport, DeliveryReport};
use patchboard_core::event::{InputKind, InputRequest};
use patchboard_core::extensions::{
    McpServerReport, McpServerStage, McpServerState, ToolChangeReport, ToolCounts, ToolDecision, ToolReport, ToolText,
    WorkerLine,
};
use patchboard_core::figures::{Fault, FaultLevel, FigureReport, FigureSeries, FigureUnit, Flow, FlowKind};
use patchboard_core::id::{CallId, InputId, RunId, Seq, SessionKey};
use patchboard_core::model::{ContentPart, MessageRole, ModelMessage, TokenCount, ToolCall, ToolInput, ToolResult};
use patchboard_core::reply::{
    AgentSummary, ModelReport, ModelSummary, NodeReport, PendingInput, RunSummary, SessionHistory, ThreadMessage,
    ThreadPage, UnlistedProvider,
};
use patchboard_core::reply::{BudgetReport, BudgetUsage, Spender, SpenderBudget};
use patchboard_core::run_spec::AgentSource;
use patchboard_core::store::AuditRow;
use patchboard_core::store::{FactRow, PageCursor, ResultPage, SessionRow, TurnRow, UsageGroup};
use patchboard_core::tool::{ToolEffect, ToolKind, ToolOutput, ToolSpec, UnknownOutcomePolicy};
use patchboard_core::webhook::{DeliveryId, DeliveryState};
use patchboard_core::{BoardError, ErrorKind};
use serde_json::Value;
use uuid::Uuid;

mod event;
mod hub;
mod plugin;
mod run_list;
mod worker;

pub(super) use event::event;

type Read<T> = Result<T, String>;

/// The reply in its own type, which the pending command has to expect.
pub(super) fn answer(text: &str) -> Read<Result<Box<dyn Any>, BoardError>> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    if word == "error" {
        return Ok(Err(error(rest)?));
    }
    let json = if rest.is_empty() { Value::Null } else { parse(rest)? };
    if let Some(reply) = hub::answer(word, &json)? {
        return Ok(Ok(reply));
    }
    let reply: Box<dyn Any> = match word {
        "done" => Box::new(()),
        "started" => Box::new(run(&json)),
        "run" => Box::new(RunSummary {
            run: run(&json["run"]),
            session: key(&json["session"])?,
            client_id: text_of(&json["id"]).into(),
            last_seq: Seq(number(&json["seq"])),
        }),
        "node" => Box::new(NodeReport {
            version: "0.1.0",
            plugins: number(&json["plugins"]),
            sessions: number(&json["sessions"]),
            live_runs: 0,
        }),
        "plugins" => Box::new(each(&json, plugin::report)?),
        "plugin" => Box::new(plugin::report(&json)?),
        "runs" => Box::new(page(&json, run_list::report)?),
        "described" => Box::new(run_list::report(&json)?),
        "events" => Box::new(run_list::events(&json)?),
        "sessions" => Box::new(page(&json, session_row)?),
        "history" => {
            let turns = page(&json, turn_row)?;
            Box::new(SessionHistory { session: SessionKey::conversation("a", "b", "c", "d"), turns })
        }
        "facts" => Box::new(page(&json, fact)?),
        "budget" => Box::new(budget(&json)),
        "usage" => Box::new(page(&json, usage_group)?),
        "figures" => Box::new(FigureReport {
            start: noon()?,
            step: Duration::from_secs(number(&json["step"])),
            series: each(&json["series"], |series| {
                let values = each(&series["values"], |value| Ok(value.as_f64().map(|value| value as f32)))?;
                Ok(FigureSeries { name: "runs.live", unit: FigureUnit::Level, values })
            })?,
            flows: each(&json["flows"], |flow| {
                let [from, to] = ["from", "to"].map(|end| text_of(&flow[end]).into());
                Ok(Flow {
                    kind: FlowKind::Run,
                    from,
                    to,
                    recent: number(&flow["recent"]),
                    total: number(&flow["total"]),
                })
            })?,
        }),
        "tool_reports" => Box::new(page(&json, |report| {
            Ok(ToolReport {
                spec: tool(report)?,
                host: text_of(&report["host"]).into(),
                timeout: Duration::from_secs(60),
                decisions: each(&report["rules"], |rule| {
                    let (surface, mode) = (Surface::Gateway, ApprovalMode::Ask);
                    Ok(ToolDecision { surface, mode, rule: rule.as_str().map(Into::into) })
                })?,
                counts: ToolCounts { calls: number(&report["calls"]), failures: number(&report["failures"]) },
            })
        })?),
        "channels" => Box::new(each(&json, |channel| {
            Ok(ChannelReport {
                name: text_of(&channel["name"]).into(),
                plugin: text_of(&channel["plugin"]).into(),
                wait: None,
                unanswered: number(&channel["unanswered"]) as usize,
                max_unanswered: 100,
            })
        })?),
        "deliveries" => Box::new(page(&json, |delivery| {
            Ok(DeliveryReport {
                id: DeliveryId(Uuid::nil()),
                channel: text_of(&delivery["channel"]).into(),
                state: DeliveryState::Failed,
                received_at: noon()?,
                changed_at: noon()?,
                requests: 2,
                sent_requests: number(&delivery["sent"]) as usize,
                problem: delivery["problem"].as_str().map(str::to_owned),
            })
        })?),
        "tool_changes" => Box::new(each(&json, |change| {
            let text = |text: &Value| ToolText { description: text_of(text).to_owned(), input_schema: "{}".to_owned() };
            Ok(ToolChangeReport {
                server: text_of(&change["server"]).into(),
                tool: text_of(&change["tool"]).into(),
                changed: if change["before"].is_string() { vec!["description"] } else { Vec::new() },
                before: change["before"].is_string().then(|| text(&change["before"])),
                now: text(&change["now"]),
            })
        })?),
        "mcp_servers" => Box::new(each(&json, |server| {
            Ok(McpServerReport {
                state: McpServerState {
                    name: text_of(&server["name"]).into(),
                    stage: McpServerStage::Failed,
                    stage_age: Duration::ZERO,
                    last_error: server["trouble"].as_str().map(Into::into),
                    tools: each(&server["tools"], |name| Ok(text_of(name).into()))?,
                },
                since: noon()?,
            })
        })?),
        "lines" => Box::new(each(&json, |line| {
            Ok(WorkerLine { number: number(&line["number"]), text: text_of(&line["text"]).to_owned() })
        })?),
        "faults" => Box::new(each(&json, |fault| {
            Ok(Fault {
                number: number(&fault["number"]),
                at: noon()?,
                level: FaultLevel::Warning,
                source: "patchboard".to_owned(),
                message: text_of(&fault["message"]).to_owned(),
                fields: vec![("run.id".to_owned(), "1".to_owned())],
            })
        })?),
        "audit" => Box::new(page(&json, audit_row)?),
        "tools" => Box::new(page(&json, tool)?),
        "called" => Box::new(ToolOutput {
            content: text_of(&json["content"]).into(),
            is_error: json["is_error"].as_bool().unwrap_or(false),
            data: None,
        }),
        "approved" => Box::new(each(&json, |name| Ok(Arc::<str>::from(text_of(name))))?),
        "models" => Box::new(ModelReport {
            models: each(&json["models"], |model| {
                Ok(ModelSummary {
                    id: text_of(&model["id"]).into(),
                    name: text_of(&model["name"]).into(),
                    provider: text_of(&model["provider"]).into(),
                    is_default: model["default"].as_bool().unwrap_or(false),
                })
            })?,
            unavailable: each(&json["unavailable"], |silent| {
                Ok(UnlistedProvider {
                    provider: text_of(&silent["provider"]).into(),
                    reason: text_of(&silent["reason"]).into(),
                })
            })?,
        }),
        "model_set" => Box::new(json.as_str().map(Arc::<str>::from)),
        "workspaces" => Box::new(each(&json, workspace)?),
        "workspace" => Box::new(workspace(&json)?),
        "threads" => {
            Box::new(each(&json, |thread| Ok(WorkspaceThread { thread: text_of(thread).into(), created_at: noon()? }))?)
        }
        "workers" => Box::new(each(&json, worker::pool)?),
        "messages" => Box::new(ThreadPage {
            messages: each(&json["messages"], |message| {
                let role =
                    if text_of(&message["role"]) == "assistant" { MessageRole::Assistant } else { MessageRole::User };
                Ok(ThreadMessage { seq: number(&message["seq"]), role, text: text_of(&message["text"]).to_owned() })
            })?,
            has_more: json["has_more"].as_bool().unwrap_or(false),
        }),
        "agents" => Box::new(each(&json, |agent| {
            Ok(AgentSummary {
                name: text_of(&agent["name"]).into(),
                description: agent["description"].as_str().map(Into::into),
                source: match text_of(&agent["source"]) {
                    "builtin" => AgentSource::BuiltIn,
                    "project" => AgentSource::Project,
                    _ => AgentSource::User,
                },
            })
        })?),
        "approvals" => Box::new(page(&json, |item| {
            Ok(PendingInput { request: approval(item)?, run: run(&Value::Null), session: key(&item["session"])? })
        })?),
        other => return Err(format!("no answer is called `{other}`")),
    };
    Ok(Ok(reply))
}

fn workspace(json: &Value) -> Read<Workspace> {
    Ok(Workspace { id: text_of(&json["id"]).into(), name: text_of(&json["name"]).into(), created_at: noon()? })
}

/// Format: `kind message text`.
pub(super) fn error(text: &str) -> Read<BoardError> {
    let (kind, message) = text.split_once(' ').unwrap_or((text, ""));
    let kind = match kind {
        "invalid" => ErrorKind::Invalid,
        "unauthenticated" => ErrorKind::Unauthenticated,
        "forbidden" => ErrorKind::Forbidden,
        "not_found" => ErrorKind::NotFound,
        "conflict" => ErrorKind::Conflict,
        "exhausted" => ErrorKind::Exhausted,
        "timeout" => ErrorKind::Timeout,
        "cancelled" => ErrorKind::Cancelled,
        "unavailable" => ErrorKind::Unavailable,
        "upstream" => ErrorKind::Upstream,
        "internal" => ErrorKind::Internal,
        other => return Err(format!("no error kind is called `{other}`")),
    };
    Ok(BoardError::new(kind, message))
}

fn parse(text: &str) -> Read<Value> {
    serde_json::from_str(text).map_err(|problem| format!("{problem}: {text}"))
}

fn each<T>(json: &Value, item: impl Fn(&Value) -> Read<T>) -> Read<Vec<T>> {
    json.as_array().into_iter().flatten().map(item).collect()
}

/// Format: `[items]`, or `{"items": [], "next": "cursor"}`.
fn page<T>(json: &Value, item: impl Fn(&Value) -> Read<T>) -> Read<ResultPage<T>> {
    let items = if json.is_array() { json } else { &json["items"] };
    Ok(ResultPage {
        items: each(items, item)?,
        next: json["next"].as_str().map(|cursor| PageCursor(cursor.to_owned())),
    })
}

fn session_row(json: &Value) -> Read<SessionRow> {
    Ok(SessionRow {
        key: key(&json["key"])?,
        owner: None,
        created_at: noon()?,
        used_at: noon()?,
        turns: number(&json["turns"]),
        title: json["title"].as_str().map(Into::into),
        is_hidden: json["hidden"].as_bool().unwrap_or(false),
    })
}

fn turn_row(json: &Value) -> Read<TurnRow> {
    let messages = each(&json["messages"], message)?;
    Ok(TurnRow { number: number(&json["turn"]), run: run(&Value::Null), at: noon()?, messages })
}

fn message(message: &Value) -> Read<ModelMessage> {
    let content = || text_of(&message["content"]);
    Ok(match text_of(&message["role"]) {
        "assistant" => {
            let mut parts: Vec<ContentPart> = Vec::new();
            if !content().is_empty() {
                parts.push(ContentPart::Text(content().into()));
            }
            parts.extend(each(&message["calls"], |one| Ok(ContentPart::ToolCall(call(one))))?);
            ModelMessage { role: MessageRole::Assistant, parts }
        }
        "tool" => ModelMessage {
            role: MessageRole::User,
            parts: vec![ContentPart::ToolResult(ToolResult {
                call: CallId(text_of(&message["id"]).into()),
                name: text_of(&message["name"]).into(),
                content: content().into(),
                is_error: message["is_error"].as_bool().unwrap_or(false),
            })],
        },
        _ => ModelMessage::user(content()),
    })
}

fn fact(json: &Value) -> Read<FactRow> {
    Ok(FactRow {
        number: 1,
        subject: "user".into(),
        predicate: text_of(&json["predicate"]).to_owned(),
        object: text_of(&json["object"]).to_owned(),
        confidence: 0.9,
        session: SessionKey::conversation("default", "web", "a", "main"),
        learned_at: noon()?,
        score: 1.5,
    })
}

fn budget(json: &Value) -> BudgetReport {
    let line = |line: &Value| BudgetUsage {
        used: number(&line["used"]),
        reserved: number(&line["reserved"]),
        limit: line["limit"].as_u64(),
    };
    BudgetReport {
        session: json["session"].is_object().then(|| line(&json["session"])),
        daily: line(&json["daily"]),
        monthly: line(&json["monthly"]),
        keys: Vec::new(),
        spenders: json["agents"].as_array().map_or_else(Vec::new, |agents| {
            let spender = |agent: &Value| SpenderBudget {
                spender: Spender::Agent(text_of(&agent["name"]).into()),
                daily: line(&agent["daily"]),
                monthly: line(&agent["monthly"]),
            };
            agents.iter().map(spender).collect()
        }),
    }
}

fn usage_group(json: &Value) -> Read<UsageGroup> {
    Ok(UsageGroup {
        key: text_of(&json["key"]).to_owned(),
        then: json["then"].as_str().map(str::to_owned),
        calls: number(&json["calls"]),
        tokens: TokenCount { input: number(&json["input"]), output: number(&json["output"]) },
        cost_nanousd: number(&json["nanousd"]),
        estimated_calls: number(&json["estimated"]),
    })
}

fn audit_row(json: &Value) -> Read<AuditRow> {
    Ok(AuditRow {
        at: noon()?,
        principal: text_of(&json["who"]).into(),
        surface: text_of(&json["surface"]).into(),
        action: text_of(&json["action"]).into(),
        subject: text_of(&json["subject"]).into(),
        run: json["run"].is_string().then(|| run(&json["run"])),
        detail: text_of(&json["detail"]).into(),
    })
}

fn tool(json: &Value) -> Read<ToolSpec> {
    Ok(ToolSpec {
        name: text_of(&json["name"]).into(),
        description: text_of(&json["description"]).into(),
        input_schema: json["schema"].clone().into(),
        effect: ToolEffect::ReadOnly,
        unknown_outcome: UnknownOutcomePolicy::Retry,
        timeout: None,
        kind: ToolKind::BuiltIn,
        traits: None,
    })
}

fn approval(json: &Value) -> Read<InputRequest> {
    let may_have_run = json["may_have_run"].as_bool().unwrap_or_default();
    let kind = match json["kind"].as_str() {
        Some("tool_call") => InputKind::ClientToolCall(call(json)),
        Some("question") => InputKind::Question {
            call: CallId(text_of(&json["id"]).into()),
            message: text_of(&json["question"]).into(),
            schema: (!json["schema"].is_null()).then(|| json["schema"].clone().into()),
        },
        _ => InputKind::Approval { call: call(json), may_have_run },
    };
    Ok(InputRequest {
        input: InputId(Uuid::from_u128(number(&json["approval"]).into())),
        kind,
        expires_at: noon()?,
        asked_by: json["asked_by"].as_str().map(Into::into),
    })
}

fn call(json: &Value) -> ToolCall {
    let input = match json["malformed"].as_str() {
        Some(text) => ToolInput::Malformed(text.into()),
        None => ToolInput::Json(json["input"].clone().into()),
    };
    ToolCall { id: CallId(text_of(&json["id"]).into()), name: text_of(&json["name"]).into(), input }
}

fn run(json: &Value) -> RunId {
    RunId(Uuid::from_u128(number(json).into()))
}

fn key(json: &Value) -> Read<SessionKey> {
    SessionKey::parse(text_of(json)).ok_or_else(|| format!("not a session key: {json}"))
}

fn number(json: &Value) -> u64 {
    json.as_u64().unwrap_or(0)
}

fn text_of(json: &Value) -> &str {
    json.as_str().unwrap_or_default()
}

fn noon() -> Read<Timestamp> {
    "2026-11-15T12:00:00Z".parse().map_err(|error| format!("{error}"))
}
