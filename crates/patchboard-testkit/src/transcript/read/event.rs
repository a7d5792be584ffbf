//! Parses events: a keyword, the node if there is one, then JSON.

use std::sync::Arc;

use patchboard_core::conversation::ConversationOrigin;
use patchboard_core::event::{
    Envelope, Event, InputAnswer, ModelCallOutcome, ModelCallUsage, NodeOutcome, RunOutcome, TextChunks, Topic,
};
use patchboard_core::id::{CallId, InputId, NodeId, Seq, SessionKey};
use patchboard_core::model::{StopReason, TokenCount};
use patchboard_core::run_spec::NodeKey;
use patchboard_core::run_spec::RunSpec;
use patchboard_core::run_spec::StrategyKind;
use patchboard_core::run_spec::finding::{PlannedTask, StrategyFinding, ThoughtId};
use patchboard_core::tool::ToolOutput;
use serde_json::Value;
use uuid::Uuid;

use super::{Read, approval, call, each, message, noon, number, parse, run, text_of};

pub(in crate::transcript) fn event(text: &str, seq: Seq) -> Read<Envelope> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (word, node) = match word.split_once('@') {
        Some((word, node)) => (word, Some(NodeId(node.parse().map_err(|_| format!("not a node: {node}"))?))),
        None => (word, None),
    };
    let json = if rest.is_empty() { Value::Null } else { parse(rest)? };
    let event = match word {
        "run_started" => Event::RunStarted {
            session: SessionKey::conversation("default", "web", "a", "main"),
            agent: "default".into(),
            chat: None,
        },
        "briefed" => Event::RunBriefed(Arc::new(briefing(&json)?)),
        "node_entered" => Event::NodeEntered {
            key: NodeKey(small(&json["key"])),
            name: arc(&json["name"]),
            is_reentry: is_true(&json["again"]),
        },
        "node_left" => Event::NodeLeft(match (text_of(&json), json["failed"].as_str()) {
            ("done", _) => NodeOutcome::Done,
            ("interrupted", _) => NodeOutcome::Interrupted,
            (_, Some(error)) => NodeOutcome::Failed(error.into()),
            (_, None) => return Err(format!("no node ends like this: {json}")),
        }),
        "text" => Event::AnswerText(pieces(&json)),
        "draft" => Event::DraftText(pieces(&json)),
        "thought" => Event::ThoughtText(pieces(&json)),
        "arguments" => Event::ToolArguments {
            call: call_id(&json),
            name: arc(&json["name"]),
            is_first: is_true(&json["begins"]),
            pieces: pieces(&json["pieces"]),
        },
        "answered" => Event::ModelCallEnded(match json["failed"].as_str() {
            Some(error) => ModelCallOutcome::Failed(error.into()),
            None => {
                ModelCallOutcome::Completed { stop: StopReason::EndOfTurn, calls: each(&json, |one| Ok(call(one)))? }
            }
        }),
        "found" => Event::FindingRecorded(finding(&json)?),
        "tool_requested" => Event::ToolRequested(call(&json)),
        "tool_started" => Event::ToolStarted { call: call_id(&json), name: arc(&json["name"]) },
        "tool_said" => {
            Event::ToolProgress { call: call_id(&json), name: arc(&json["name"]), pieces: pieces(&json["pieces"]) }
        }
        "tool_finished" => Event::ToolFinished {
            call: call_id(&json),
            output: ToolOutput { content: arc(&json["content"]), is_error: is_true(&json["is_error"]), data: None },
        },
        "approval_wanted" => Event::InputRequested(approval(&json)?),
        "approval_settled" => Event::InputProvided {
            input: InputId(Uuid::from_u128(number(&json["approval"]).into())),
            answer: if is_true(&json["approved"]) { InputAnswer::Approved } else { InputAnswer::Refused },
            by: "gateway:local".into(),
        },
        "usage" => Event::ModelUsage(ModelCallUsage {
            tokens: TokenCount { input: number(&json["input"]), output: number(&json["output"]) },
            provider: "main".into(),
            model: "m".into(),
            estimated: false,
        }),
        "run_failed" => Event::RunFailed { message: arc(&json) },
        "run_ended" => Event::RunEnded {
            outcome: match text_of(&json) {
                "completed" => RunOutcome::Completed,
                "failed" => RunOutcome::Failed,
                "cancelled" => RunOutcome::Cancelled,
                "interrupted" => RunOutcome::Interrupted,
                other => return Err(format!("no outcome is called `{other}`")),
            },
        },
        other => return Err(format!("no event is called `{other}`")),
    };
    Ok(Envelope { topic: Topic::Run(run(&Value::Null)), seq, at: noon()?, node, event })
}

fn briefing(json: &Value) -> Read<RunSpec> {
    let agent = text_of(&json["agent"]);
    Ok(RunSpec {
        client_tools: Vec::new(),
        folder_granted: false,
        client_id: arc(&json["id"]),
        thread: json["thread"].as_str().map(Into::into),
        requested_agent: agent.into(),
        strategy: StrategyKind::from_name(agent).unwrap_or(StrategyKind::React),
        adaptive: is_true(&json["adaptive"]),
        detached: is_true(&json["detached"]),
        verbose: false,
        model: None,
        folder: None,
        origin: ConversationOrigin {
            channel: "runs".into(),
            account: "local".into(),
            peer: None,
            guild: None,
            team: None,
        },
        message: arc(&json["message"]),
        system: arc(&json["system"]),
        history: each(&json["history"], message)?,
    })
}

/// Format: `{"kind": {…}}`.
fn finding(json: &Value) -> Read<StrategyFinding> {
    let Some((kind, about)) = json.as_object().and_then(|fields| fields.iter().next()) else {
        return Err(format!("not a finding: {json}"));
    };
    Ok(match kind.as_str() {
        "understood" => StrategyFinding::Understood {
            goal: arc(&about["goal"]),
            constraints: texts(&about["constraints"])?,
            context: arc(&about["context"]),
        },
        "expanded" => StrategyFinding::Expanded {
            of: thought(&about["of"]),
            first: thought(&about["first"]),
            depth: small(&about["depth"]),
            candidates: texts(&about["candidates"])?,
        },
        "followed" => StrategyFinding::Followed { thought: thought(about) },
        "evaluated" => StrategyFinding::Evaluated {
            of: thought(&about["of"]),
            first: thought(&about["first"]),
            chosen: small(&about["chosen"]),
            scores: each(&about["scores"], |score| Ok(score.as_f64().unwrap_or(0.0) as f32))?,
        },
        "backtracked" => StrategyFinding::Backtracked {
            from: thought(&about["from"]),
            to: thought(&about["to"]),
            reason: arc(&about["reason"]),
            to_depth: small(&about["to_depth"]),
        },
        "planned" => StrategyFinding::Planned { tasks: tasks(&about["tasks"])?, edges: edges(&about["edges"])? },
        "task_started" => StrategyFinding::TaskStarted { task: arc(about) },
        "task_completed" => StrategyFinding::TaskCompleted { task: arc(&about["task"]), result: arc(&about["result"]) },
        "task_failed" => StrategyFinding::TaskFailed { task: arc(&about["task"]), error: arc(&about["error"]) },
        "task_expanded" => StrategyFinding::TaskExpanded {
            task: arc(&about["task"]),
            tasks: tasks(&about["tasks"])?,
            edges: edges(&about["edges"])?,
            dropped: edges(&about["dropped"])?,
        },
        other => return Err(format!("no finding is called `{other}`")),
    })
}

/// The root where it is left out.
fn thought(json: &Value) -> ThoughtId {
    ThoughtId(small(json))
}

/// Format: `[["id","what to do"], …]`.
fn tasks(json: &Value) -> Read<Vec<PlannedTask>> {
    each(json, |task| Ok(PlannedTask { id: arc(&task[0]), description: arc(&task[1]) }))
}

fn edges(json: &Value) -> Read<Vec<(Arc<str>, Arc<str>)>> {
    each(json, |edge| Ok((arc(&edge[0]), arc(&edge[1]))))
}

fn texts(json: &Value) -> Read<Vec<Arc<str>>> {
    each(json, |text| Ok(arc(text)))
}

fn pieces(json: &Value) -> TextChunks {
    match json.as_array() {
        Some(pieces) => pieces.iter().map(text_of).collect(),
        None => TextChunks::of_single(text_of(json)),
    }
}

fn call_id(json: &Value) -> CallId {
    CallId(arc(&json["id"]))
}

fn arc(json: &Value) -> Arc<str> {
    text_of(json).into()
}

fn small(json: &Value) -> u32 {
    u32::try_from(number(json)).unwrap_or(u32::MAX)
}

fn is_true(json: &Value) -> bool {
    json.as_bool().unwrap_or(false)
}
