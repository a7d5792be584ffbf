//! `run.list`, `run.describe` and `run.events`: runs and their stored events as JSON.

use std::sync::Arc;

use patchboard_core::command::{DescribeRun, ListRuns, ReadEvents, RunListFilter, RunStateFilter};
use patchboard_core::event::{Envelope, Event, ModelCallOutcome, NodeOutcome, RunOutcome, TextChunks};
use patchboard_core::id::{RunId, Seq};
use patchboard_core::model::{StopReason, ToolCall};
use patchboard_core::reply::{EventPage, RunReport, RunWait};
use patchboard_core::run_spec::finding::{PlannedTask, StrategyFinding};
use patchboard_core::run_spec::{RunSpec, StrategyKind};
use patchboard_core::store::{PageCursor, RunState};
use serde_json::{Map, Value, json};

use super::{GatewayRequest, PageRequest, call, input, inputs, list, parse_key, rounded, wire};

const DEFAULT_EVENTS: usize = 100;

pub(super) fn list_runs(params: wire::RunList) -> Result<GatewayRequest, String> {
    let time = |name: &str, text: Option<String>| match text {
        Some(text) => text.parse().map(Some).map_err(|_| format!("`{name}` is not an RFC 3339 time: {text}")),
        None => Ok(None),
    };
    let filter = RunListFilter {
        owner: params.owner.map(Into::into),
        client_id: params.id.map(Into::into),
        surface: params.surface.map(Into::into),
        agent: params.agent.map(Into::into),
        strategy: params.strategy.as_deref().map(strategy).transpose()?,
        state: params.state.as_deref().map(state_filter).transpose()?,
        session: params.session.as_deref().map(parse_key).transpose()?,
        since: time("since", params.since)?,
        until: time("until", params.until)?,
        text: params.text,
    };
    let page = PageRequest::new(params.limit, params.cursor.map(PageCursor));
    Ok(call(ListRuns { filter, page }, |page| list(page, |report| run_item(&report))))
}

pub(super) fn describe_run(params: wire::NamedRun) -> Result<GatewayRequest, String> {
    Ok(call(DescribeRun(parse_run(&params.run)?), |report| run_item(&report)))
}

pub(super) fn read_events(params: wire::NamedRun) -> Result<GatewayRequest, String> {
    let from = Seq(params.after.unwrap_or(0)).next();
    let limit = params.limit.unwrap_or(DEFAULT_EVENTS);
    Ok(call(ReadEvents { run: parse_run(&params.run)?, from, limit }, |page| event_page(&page)))
}

fn parse_run(text: &str) -> Result<RunId, String> {
    text.parse().map_err(|_| "`run` is not the id of a run, as `run.list` gives it".to_owned())
}

fn strategy(name: &str) -> Result<StrategyKind, String> {
    StrategyKind::from_name(name).ok_or_else(|| format!("`strategy` is one of react, dup, tot, got; not {name}"))
}

fn state_filter(name: &str) -> Result<RunStateFilter, String> {
    Ok(match name {
        "running" => RunStateFilter::Running,
        "waiting" => RunStateFilter::Waiting,
        "ended" => RunStateFilter::Ended,
        "completed" => RunStateFilter::EndedAs(RunOutcome::Completed),
        "failed" => RunStateFilter::EndedAs(RunOutcome::Failed),
        "cancelled" => RunStateFilter::EndedAs(RunOutcome::Cancelled),
        "interrupted" => RunStateFilter::EndedAs(RunOutcome::Interrupted),
        other => {
            return Err(format!(
                "`state` is one of running, waiting, ended, completed, failed, cancelled, interrupted; not {other}"
            ));
        }
    })
}

fn run_item(report: &RunReport) -> Value {
    let RunReport { run, waits } = report;
    let state = match run.state {
        RunState::Running if waits.is_empty() => "running",
        RunState::Running => "waiting",
        RunState::Ended(outcome) => outcome_name(outcome),
    };
    json!({
        "run": run.run.to_string(), "id": &*run.client_id, "session": run.session.as_str(),
        "owner": &*run.principal, "surface": &*run.surface,
        "agent": &*run.agent, "strategy": run.strategy.name(),
        "model": run.model.as_ref().map(|model| format!("{}/{}", model.provider, model.model)),
        "title": &*run.title, "state": state,
        "started_at": run.started_at.to_string(), "ended_at": run.ended_at.map(|at| at.to_string()),
        "model_calls": run.usage.model_calls, "input_tokens": run.usage.tokens.input,
        "output_tokens": run.usage.tokens.output, "cost_usd": run.usage.cost_nanousd as f64 / 1e9,
        "last_seq": run.last_seq.0,
        "waits_for": waits.iter().map(wait).collect::<Vec<_>>(),
    })
}

fn wait(wait: &RunWait) -> Value {
    match wait {
        RunWait::Input(pending) => {
            let mut shown = inputs::item(pending);
            if let Some(fields) = shown.as_object_mut() {
                fields.insert("run".to_owned(), pending.run.to_string().into());
            }
            shown
        }
    }
}

fn outcome_name(outcome: RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Completed => "completed",
        RunOutcome::Failed => "failed",
        RunOutcome::Cancelled => "cancelled",
        RunOutcome::Interrupted => "interrupted",
    }
}

fn event_page(page: &EventPage) -> Value {
    let items: Vec<Value> = page.events.iter().map(|record| event_item(record)).collect();
    // What `after` of the next request is.
    json!({ "items": items, "next_after": page.next.map(|next| next.0.saturating_sub(1)) })
}

/// One record. A record of several pieces or calls takes as many numbers, from `seq` on.
fn event_item(record: &Envelope) -> Value {
    let (kind, data) = event_data(&record.event);
    let mut item = Map::from_iter([
        ("seq".to_owned(), record.seq.0.into()),
        ("at".to_owned(), record.at.to_string().into()),
        ("event".to_owned(), kind.into()),
    ]);
    if let Some(node) = record.node {
        item.insert("node".to_owned(), node.0.into());
    }
    item.insert("data".to_owned(), data);
    Value::Object(item)
}

fn event_data(event: &Event) -> (&'static str, Value) {
    let pieces = |pieces: &TextChunks| pieces.iter().collect::<Value>();
    match event {
        Event::RunResumed => ("run_resumed", Value::Null),
        Event::RunStarted { session, agent, .. } => {
            ("run_started", json!({ "session": session.as_str(), "agent": &**agent }))
        }
        Event::RunBriefed(spec) => ("run_briefed", briefing(spec)),
        Event::NodeEntered { key, name, is_reentry } => {
            ("node_entered", json!({ "key": key.0, "name": &**name, "again": is_reentry }))
        }
        Event::NodeLeft(NodeOutcome::Done) => ("node_left", json!({ "outcome": "done" })),
        Event::NodeLeft(NodeOutcome::Interrupted) => ("node_left", json!({ "outcome": "interrupted" })),
        Event::NodeLeft(NodeOutcome::Failed(error)) => ("node_left", json!({ "outcome": "failed", "error": &**error })),
        Event::AnswerText(text) => ("answer_text", json!({ "pieces": pieces(text) })),
        Event::DraftText(text) => ("draft_text", json!({ "pieces": pieces(text) })),
        Event::ThoughtText(text) => ("thought_text", json!({ "pieces": pieces(text) })),
        Event::ToolArguments { call, name, is_first, pieces: text } => {
            let data =
                json!({ "tool_use_id": &*call.0, "name": &**name, "is_first": is_first, "pieces": pieces(text) });
            ("tool_arguments", data)
        }
        Event::ModelCallEnded(ModelCallOutcome::Completed { stop, calls }) => {
            let calls: Vec<Value> = calls.iter().map(tool_call).collect();
            ("model_call_ended", json!({ "stop": stop_name(*stop), "tool_use": calls }))
        }
        Event::ModelCallEnded(ModelCallOutcome::Failed(error)) => ("model_call_failed", json!({ "error": &**error })),
        Event::FindingRecorded(finding) => ("finding", finding_data(finding)),
        Event::ToolRequested(call) => ("tool_requested", tool_call(call)),
        Event::ToolStarted { call, name } => ("tool_started", json!({ "tool_use_id": &*call.0, "name": &**name })),
        Event::ToolProgress { call, name, pieces: text } => {
            ("tool_progress", json!({ "tool_use_id": &*call.0, "name": &**name, "pieces": pieces(text) }))
        }
        Event::ToolFinished { call, output } => {
            let data = json!({ "tool_use_id": &*call.0, "content": &*output.content, "is_error": output.is_error });
            ("tool_result", data)
        }
        Event::InputRequested(request) => (inputs::event_name(request), inputs::shown(request)),
        Event::InputProvided { input, answer, by } => {
            ("input_provided", json!({ "input_id": input.to_string(), "answer": answer.name(), "by": &**by }))
        }
        Event::ModelUsage(usage) => (
            "usage",
            json!({
                "input_tokens": usage.tokens.input, "output_tokens": usage.tokens.output,
                "model": format!("{}/{}", usage.provider, usage.model), "estimated": usage.estimated,
            }),
        ),
        Event::RunFailed { message } => ("error", json!({ "message": &**message })),
        Event::RunEnded { outcome } => ("done", json!({ "outcome": outcome_name(*outcome) })),
        // Deliveries of the hub are in topics of their own.
        Event::Message(_) => ("message", Value::Null),
    }
}

/// Without the system prompt and the history, which may be long and are of no use to a reader of the run.
fn briefing(spec: &RunSpec) -> Value {
    json!({
        "id": &*spec.client_id, "agent": &*spec.requested_agent, "strategy": spec.strategy.name(),
        "model": spec.model.as_deref(), "adaptive": spec.adaptive, "detached": spec.detached,
        "working_folder": spec.folder.as_ref().map(|folder| folder.to_string_lossy().into_owned()),
        "message": &*spec.message,
    })
}

fn tool_call(call: &ToolCall) -> Value {
    json!({ "id": &*call.id.0, "name": &*call.name, "input": input(call) })
}

fn stop_name(stop: StopReason) -> &'static str {
    match stop {
        StopReason::EndOfTurn => "end_of_turn",
        StopReason::ToolCalls => "tool_calls",
        StopReason::MaxTokens => "max_tokens",
        StopReason::Refused => "refused",
    }
}

fn finding_data(finding: &StrategyFinding) -> Value {
    let tasks = |tasks: &[PlannedTask]| {
        let task = |task: &PlannedTask| json!({ "id": &*task.id, "description": &*task.description });
        tasks.iter().map(task).collect::<Vec<_>>()
    };
    let edges = |edges: &[(Arc<str>, Arc<str>)]| {
        edges.iter().map(|(from, to)| json!({ "from": &**from, "to": &**to })).collect::<Vec<_>>()
    };
    match finding {
        StrategyFinding::Understood { goal, constraints, context } => json!({
            "kind": "understood", "goal": &**goal, "context": &**context,
            "constraints": constraints.iter().map(|constraint| &**constraint).collect::<Vec<_>>(),
        }),
        StrategyFinding::Expanded { of, first, depth, candidates } => json!({
            "kind": "expanded", "of": of.0, "first": first.0, "depth": depth,
            "candidates": candidates.iter().map(|candidate| &**candidate).collect::<Vec<_>>(),
        }),
        StrategyFinding::Evaluated { of, first, chosen, scores } => {
            let scores: Vec<f64> = scores.iter().map(|score| rounded(*score)).collect();
            json!({ "kind": "evaluated", "of": of.0, "first": first.0, "chosen": chosen, "scores": scores })
        }
        StrategyFinding::Followed { thought } => json!({ "kind": "followed", "thought": thought.0 }),
        StrategyFinding::Backtracked { from, to, reason, to_depth } => {
            json!({ "kind": "backtracked", "from": from.0, "to": to.0, "reason": &**reason, "to_depth": to_depth })
        }
        StrategyFinding::Planned { tasks: planned, edges: arrows } => {
            json!({ "kind": "planned", "tasks": tasks(planned), "edges": edges(arrows) })
        }
        StrategyFinding::TaskStarted { task } => json!({ "kind": "task_started", "task": &**task }),
        StrategyFinding::TaskCompleted { task, result } => {
            json!({ "kind": "task_completed", "task": &**task, "result": &**result })
        }
        StrategyFinding::TaskFailed { task, error } => {
            json!({ "kind": "task_failed", "task": &**task, "error": &**error })
        }
        StrategyFinding::TaskExpanded { task, tasks: added, edges: arrows, dropped } => json!({
            "kind": "task_expanded", "task": &**task, "tasks": tasks(added), "edges": edges(arrows),
            "dropped": edges(dropped),
        }),
    }
}
