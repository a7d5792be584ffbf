//! Calls that wait for a client: approvals, tools that the client has, questions to the user.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{CallContext, InputReply, ToolExecutor};
use crate::allowance::{MAX_ALLOWANCES, STORAGE_KEY, SessionAllowance};
use crate::error::BoardError;
use crate::event::{Event, InputAnswer, InputKind};
use crate::id::CallId;
use crate::model::ToolCall;
use crate::port::{ToolHost, ToolScope};
use crate::record;
use crate::run_spec::ClientToolSpec;
use crate::store::{ExpectedVersion, KvNamespace, StoreError, StoreWrite, WriteBatch};
use crate::tool::{QUESTION_TOOL, ToolEffect, ToolFault, ToolKind, ToolOutput, ToolSpec, UnknownOutcomePolicy};

/// How often an allowance is stored again after another process changed the list.
const MAX_CONFLICTS: usize = 8;
/// Longest question in bytes; a longer one is refused.
const MAX_QUESTION: usize = 16 * 1024;

impl ToolExecutor {
    /// Asks for an input and waits for it: recorded before it is asked, and the answer before it is used. While it waits,
    /// the run's time limits stand still and its permit is given back.
    pub(super) async fn request_input(
        &self,
        context: &CallContext,
        call: &CallId,
        kind: InputKind,
        stop: &CancellationToken,
    ) -> Result<InputReply, BoardError> {
        let stored = context.stored_inputs.take(call);
        let ticket = match self.inputs.ask(&context.input_origin(), kind, stored) {
            Ok(ticket) => ticket,
            Err(refused) => return Ok(InputReply::Unavailable(refused)),
        };
        let request = ticket.request.clone();
        if let Some(row) = ticket.row.clone() {
            context.record_with(Event::InputRequested(request.clone()), vec![StoreWrite::OpenInput(row)]).await?;
        }
        let wait = context.call_chain.waits.begin();
        // An input must not stay open longer than the caller's timeout.
        let input_stop = stop.child_token();
        let caller_timeout = context.scope.call_metadata.as_ref().and_then(|metadata| metadata.timeout);
        let outcome = ticket.outcome(&input_stop);
        tokio::pin!(outcome);
        let (answer, by) = tokio::select! {
            biased;
            outcome = &mut outcome => outcome?,
            () = tokio::time::sleep(caller_timeout.unwrap_or(Duration::MAX)) => {
                input_stop.cancel();
                outcome.await?
            }
        };
        let subject = request.call().map_or_else(|| Arc::from(QUESTION_TOOL), |call| call.name.clone());
        let action = if matches!(request.kind, InputKind::Approval { .. }) { "approval" } else { "input" };
        let mut audit = self.audit_row(context, action, &subject, answer.name());
        audit.principal = by.clone();
        let provided = Event::InputProvided { input: request.input, answer: answer.clone(), by };
        let writes = vec![StoreWrite::CloseInput(request.input), StoreWrite::Audit(audit)];
        context.record_with(provided, writes).await?;
        wait.end(stop).await;
        let gave_up = answer == InputAnswer::Withdrawn && !stop.is_cancelled();
        Ok(if gave_up { InputReply::CallerGaveUp } else { InputReply::Given(answer) })
    }

    /// A call that the client, or its user, answers.
    pub(super) async fn ask_client(
        &self,
        context: &CallContext,
        call: &ToolCall,
        spec: &ToolSpec,
        arguments: &Value,
        stop: &CancellationToken,
    ) -> Result<ToolOutput, BoardError> {
        let kind = if spec.is_question() {
            match question(call, arguments) {
                Ok(kind) => kind,
                Err(problem) => return Ok(ToolOutput::error(problem)),
            }
        } else {
            InputKind::ClientToolCall(call.clone())
        };
        Ok(match self.request_input(context, &call.id, kind, stop).await? {
            InputReply::Unavailable(error) => ToolOutput::error(format!("{} cannot be asked now: {error}", spec.name)),
            InputReply::CallerGaveUp => {
                ToolOutput::fault(ToolFault::TimedOut, format!("nobody answered {} in time", spec.name))
            }
            InputReply::Given(InputAnswer::ToolResult { content, is_error }) => {
                ToolOutput { content, is_error, data: None }
            }
            InputReply::Given(InputAnswer::Answered(value)) => match value.as_str() {
                Some(text) => ToolOutput::ok(text),
                None => ToolOutput::json(&value),
            },
            InputReply::Given(InputAnswer::Withdrawn) => ToolOutput::fault(ToolFault::Cancelled, "cancelled"),
            InputReply::Given(InputAnswer::Expired) => {
                ToolOutput::error(format!("nobody answered {} in time", spec.name))
            }
            InputReply::Given(InputAnswer::Refused | InputAnswer::Approved | InputAnswer::ApprovedForSession) => {
                ToolOutput::error("the user does not answer this question")
            }
        })
    }

    pub(super) async fn is_allowed_for_session(
        &self,
        context: &CallContext,
        call: &ToolCall,
    ) -> Result<bool, BoardError> {
        let namespace = KvNamespace::Session(context.call_chain.root_session.clone());
        let Some(bytes) = self.store.kv_get(&namespace, STORAGE_KEY).await? else { return Ok(false) };
        // What cannot be read allows nothing.
        let allowances = record::decode_allowances(&bytes).unwrap_or_default();
        let (folder, now) = (context.scope.folder.as_ref(), self.clock.now());
        Ok(allowances.iter().any(|allowance| allowance.covers(call, folder, now)))
    }

    pub(super) async fn allow_for_session(&self, context: &CallContext, call: &ToolCall) -> Result<(), BoardError> {
        let namespace = KvNamespace::Session(context.call_chain.root_session.clone());
        let now = self.clock.now();
        let Some(allowance) = SessionAllowance::of(call, context.scope.folder.clone(), now) else { return Ok(()) };
        for _ in 0..MAX_CONFLICTS {
            let entry = self.store.kv_entry(&namespace, STORAGE_KEY).await?;
            let stored = entry.as_ref().map(|entry| record::decode_allowances(&entry.value).unwrap_or_default());
            let mut allowances = stored.unwrap_or_default();
            allowances.retain(|known| now < known.until && !known.covers(call, allowance.folder.as_ref(), now));
            allowances.push(allowance.clone());
            let surplus = allowances.len().saturating_sub(MAX_ALLOWANCES);
            allowances.drain(..surplus);
            let value = Some(record::encode_allowances(&allowances));
            let write = StoreWrite::put(namespace.clone(), STORAGE_KEY.into(), value, now);
            let batch = WriteBatch::boundary(vec![write.expecting(ExpectedVersion::of(entry.as_ref()))]);
            match self.store.commit(batch).await {
                Err(StoreError::Conflict) => {}
                stored => return Ok(stored?),
            }
        }
        Err(StoreError::Conflict.into())
    }
}

/// The question of a call of the question tool.
fn question(call: &ToolCall, arguments: &Value) -> Result<InputKind, String> {
    let message = arguments.get("question").and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let message = message.ok_or("`question` must be a text")?;
    if message.len() > MAX_QUESTION {
        return Err(format!("`question` is longer than {MAX_QUESTION} bytes"));
    }
    let schema = match arguments.get("schema") {
        None | Some(Value::Null) => None,
        Some(schema @ Value::Object(_)) => Some(Arc::new(schema.clone())),
        Some(_) => return Err("`schema` must be a JSON Schema, which is an object".to_owned()),
    };
    Ok(InputKind::Question { call: call.id.clone(), message: message.into(), schema })
}

/// The host of tools that a client has. They are never called here: the executor asks the client.
#[derive(Debug)]
pub(super) struct ClientTools;

impl ClientTools {
    pub(super) fn spec(tool: &ClientToolSpec) -> ToolSpec {
        ToolSpec {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: tool.input_schema.clone(),
            // The client decides what its tools do, and is asked for every call.
            effect: ToolEffect::ReadOnly,
            unknown_outcome: UnknownOutcomePolicy::Retry,
            timeout: None,
            kind: ToolKind::Client,
            traits: None,
        }
    }
}

impl ToolHost for ClientTools {
    fn kind(&self) -> ToolKind {
        ToolKind::Client
    }

    fn tools(&self, _folder: Option<&Path>) -> Arc<[ToolSpec]> {
        Arc::default()
    }

    fn call<'a>(
        &'a self,
        _scope: &'a ToolScope,
        call: &'a ToolCall,
        _arguments: &'a Value,
        _stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move { ToolOutput::error(format!("{} is a tool of the client", call.name)) })
    }
}

/// The host of the tool by which an agent asks the user. Offered to agents that list it.
#[derive(Debug)]
pub(crate) struct QuestionToolHost;

impl ToolHost for QuestionToolHost {
    fn kind(&self) -> ToolKind {
        ToolKind::BuiltIn
    }

    fn tools(&self, _folder: Option<&Path>) -> Arc<[ToolSpec]> {
        let schema = json!({
            "type": "object",
            "properties": {
                "question": {"type": "string", "description": "What to ask the user."},
                "schema": {
                    "type": "object",
                    "description": "A JSON Schema that the answer has to fit; without it the answer is any text."
                }
            },
            "required": ["question"],
            "additionalProperties": false
        });
        let spec = ToolSpec {
            name: QUESTION_TOOL.into(),
            description:
                "Ask the user a question and wait for the answer. Use it only when you cannot continue without.".into(),
            input_schema: Arc::new(schema),
            effect: ToolEffect::ReadOnly,
            unknown_outcome: UnknownOutcomePolicy::Retry,
            timeout: None,
            kind: ToolKind::BuiltIn,
            traits: None,
        };
        [spec].into()
    }

    fn call<'a>(
        &'a self,
        _scope: &'a ToolScope,
        call: &'a ToolCall,
        _arguments: &'a Value,
        _stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move { ToolOutput::error(format!("{} is answered by the user", call.name)) })
    }

    fn is_for_programs(&self) -> bool {
        true
    }
}
