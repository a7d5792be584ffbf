//! What runs wait for: approvals, tools of the client, questions.

use patchboard_core::allowance;
use patchboard_core::command::{AnswerInput, InputRef};
use patchboard_core::event::{self, InputKind, InputRequest, Topic};
use patchboard_core::id::{InputId, Seq};
use patchboard_core::reply::PendingInput;
use patchboard_core::run_spec::ClientToolSpec;
use patchboard_core::store::ResultPage;
use serde_json::{Value, json};

use super::{encode, input, list};
use crate::gateway::wire;

pub(super) fn client_tool(tool: wire::ClientTool) -> ClientToolSpec {
    ClientToolSpec {
        name: tool.name.into(),
        description: tool.description.into(),
        input_schema: tool.input_schema.into(),
    }
}

pub(super) fn approval_answer(answer: &wire::ApprovalAnswer) -> Result<AnswerInput, String> {
    let input = answer.approval_id.parse().map_err(|_| "`approval_id` is not an approval's id".to_owned())?;
    Ok(AnswerInput { input: InputRef::Id(input), answer: consent(answer.approve, answer.for_session) })
}

fn consent(approve: bool, for_session: bool) -> event::InputAnswer {
    match (approve, for_session) {
        (true, true) => event::InputAnswer::ApprovedForSession,
        (true, false) => event::InputAnswer::Approved,
        (false, _) => event::InputAnswer::Refused,
    }
}

pub(super) fn input_answer(answer: wire::InputAnswer) -> Result<AnswerInput, String> {
    let input: InputId = answer.input_id.parse().map_err(|_| "`input_id` is not an input's id".to_owned())?;
    let given = match (answer.approve, answer.result, answer.answer, answer.decline) {
        (Some(approve), None, None, false) => consent(approve, answer.for_session),
        (None, Some(result), None, false) => {
            event::InputAnswer::ToolResult { content: result.content.into(), is_error: result.is_error }
        }
        (None, None, Some(value), false) => event::InputAnswer::Answered(value.into()),
        (None, None, None, true) => event::InputAnswer::Refused,
        _ => return Err("one of `approve`, `result`, `answer` and `decline` is needed, and no two".to_owned()),
    };
    Ok(AnswerInput { input: InputRef::Id(input), answer: given })
}

/// Only approvals, as clients of this method expect; `input.list` has all.
pub(super) fn approval_page(page: ResultPage<PendingInput>) -> Value {
    let items = page.items.into_iter().filter(|pending| matches!(pending.request.kind, InputKind::Approval { .. }));
    list(ResultPage { items: items.collect(), next: page.next }, |pending| {
        let mut item = json!(prompt(&pending.request, &pending.run.to_string()));
        set(&mut item, "session", pending.session.to_string().into());
        item
    })
}

pub(super) fn input_page(page: ResultPage<PendingInput>) -> Value {
    list(page, |pending| item(&pending))
}

pub(super) fn item(pending: &PendingInput) -> Value {
    let mut item = json!(prompt(&pending.request, &pending.run.to_string()));
    set(&mut item, "input_id", pending.request.input.to_string().into());
    set(&mut item, "kind", pending.request.kind.name().into());
    set(&mut item, "session", pending.session.to_string().into());
    item
}

/// The event that tells the client of a run what it waits for.
pub(super) fn event_name(request: &InputRequest) -> &'static str {
    match request.kind {
        InputKind::Approval { .. } => "approval",
        InputKind::ClientToolCall(_) => "tool_call",
        InputKind::Question { .. } => "question",
    }
}

/// What a run waits for, without the run.
pub(super) fn shown(request: &InputRequest) -> Value {
    json!(prompt(request, ""))
}

/// The frame that tells the client of a run what it waits for.
pub(super) fn prompt_frame(id: &str, topic: &Topic, seq: Seq, request: &InputRequest) -> String {
    let event = event_name(request);
    let run = match topic {
        Topic::Run(run) => run.to_string(),
        Topic::Message(_) => String::new(),
    };
    encode(&wire::EventFrame { id, event, data: Some(prompt(request, &run)), seq: Some(seq.0) })
}

fn prompt<'a>(request: &'a InputRequest, run: &str) -> wire::InputPrompt<'a> {
    let asked_by = request.asked_by.as_deref();
    let (id, expires_at, run_id) = (request.input.to_string(), request.expires_at.to_string(), run.to_owned());
    match &request.kind {
        InputKind::Approval { call, may_have_run } => wire::InputPrompt::Approval(wire::ApprovalPrompt {
            approval_id: id,
            tool_use_id: &call.id.0,
            name: &call.name,
            input: input(call),
            expires_at,
            reason: request.reason(),
            asked_by,
            session_offered: !may_have_run && allowance::is_offered(call),
            run_id,
        }),
        InputKind::ClientToolCall(call) => wire::InputPrompt::ToolCall(wire::ClientToolCall {
            input_id: id,
            tool_use_id: &call.id.0,
            name: &call.name,
            input: input(call),
            expires_at,
            run_id,
        }),
        InputKind::Question { call, message, schema } => wire::InputPrompt::Question(wire::QuestionPrompt {
            input_id: id,
            tool_use_id: &call.0,
            question: message,
            schema: schema.as_deref(),
            asked_by,
            expires_at,
            run_id,
        }),
    }
}

fn set(item: &mut Value, key: &str, value: Value) {
    if let Value::Object(fields) = item {
        fields.insert(key.to_owned(), value);
    }
}
