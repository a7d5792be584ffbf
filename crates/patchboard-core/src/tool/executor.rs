//! The one path of every tool call, whoever asks:
//! authorise → approve → record intent → execute → record result.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use futures_util::FutureExt;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::policy::{self, ApprovalMode, ApprovalPolicy};
use super::progress::ProgressReader;
use super::registry::ToolSet;
use super::{CallMetadata, ToolEffect, ToolFault, ToolOutput, ToolScope, ToolSpec, UnknownOutcomePolicy, builtin};
use crate::access::Caller;
use crate::approval::{ApprovalOutcome, ApprovalQueue, ApprovalTicket};
use crate::audit::AuditTrail;
use crate::bridge::WORKER_KIND;
use crate::error::BoardError;
use crate::event::{Event, NewEvent};
use crate::id::{CallId, NodeId, RunId};
use crate::log::TopicWriter;
use crate::model::{ToolCall, ToolInput};
use crate::port::{
    AuditRow, Clock, Durability, SchemaValidator, SchemaViolation, Store, StoreWrite, ToolHost, WriteBatch,
};
use crate::reloadable::Reloadable;
use crate::run::CallChain;
use crate::text::cut_with_size;
use crate::trace;

/// Bounds of one call.
#[derive(Debug, Clone, Copy)]
pub struct ToolLimits {
    /// A call that takes longer is stopped and answered with an error.
    pub timeout: Duration,
    /// A longer output is cut, with a mark that says how much is missing. Programs get more.
    pub output_bytes: usize,
}

/// What a program gets of an output that is text: half of one is of no use to it. A longer one is still cut, because it
/// is in memory more than once on its way.
const PROGRAM_OUTPUT_BYTES: usize = 16 * 1024 * 1024;
/// Workers keep to the time a caller gives and know better what became of the call; they get a moment to say so.
const WORKER_GRACE: Duration = Duration::from_millis(500);

impl Default for ToolLimits {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(120), output_bytes: 64 * 1024 }
    }
}

/// A call whose intent is on record.
#[derive(Debug)]
pub struct CallIntent {
    call: ToolCall,
    /// It was made before and nobody knows whether it took effect.
    outcome_unknown: bool,
}

impl CallIntent {
    /// A call another process began and did not live to see the end of.
    pub fn with_unknown_outcome(call: ToolCall) -> Self {
        Self { call, outcome_unknown: true }
    }

    pub fn call_id(&self) -> &CallId {
        &self.call.id
    }
}

#[derive(Debug)]
pub struct ToolExecutor {
    pub policy: Reloadable<ApprovalPolicy>,
    pub approvals: Arc<ApprovalQueue>,
    pub schemas: Arc<dyn SchemaValidator>,
    pub clock: Arc<dyn Clock>,
    pub limits: Reloadable<ToolLimits>,
}

/// On whose behalf, in which run, with which tools.
#[derive(Debug, Clone)]
pub struct CallContext {
    pub caller: Caller,
    pub run: RunId,
    pub call_chain: CallChain,
    pub scope: ToolScope,
    pub tool_set: ToolSet,
    /// The node that calls, in a run that tells of its nodes.
    pub node: Option<NodeId>,
    pub recorder: CallRecorder,
    /// How many plugins have called each other up to here.
    pub plugin_depth: u8,
}

/// Where calls are recorded. The audit trail has every one of them.
#[derive(Debug, Clone)]
pub enum CallRecorder {
    /// In the log of their run.
    RunLog { writer: Arc<TopicWriter>, records_nodes: bool },
    /// Calls outside of any run are in the audit trail only.
    AuditStore(Arc<dyn Store>),
    /// Calls of programs, of which there may be thousands in a second and which nobody resumes: in the audit trail,
    /// which is written behind them. What changes something of this server's own does not use it.
    AuditQueue(AuditTrail),
}

impl CallContext {
    async fn record(&self, event: Event, audit: Option<AuditRow>) -> Result<(), BoardError> {
        let writes = audit.into_iter().map(StoreWrite::Audit).collect();
        match &self.recorder {
            CallRecorder::RunLog { writer, .. } => {
                writer.append(vec![NewEvent { node: self.node, event }], writes, Durability::Boundary).await
            }
            CallRecorder::AuditStore(_) if writes.is_empty() => Ok(()),
            CallRecorder::AuditStore(store) => {
                Ok(store.commit(WriteBatch { durability: Durability::Boundary, writes }).await?)
            }
            CallRecorder::AuditQueue(trail) => {
                enqueue_audit(trail, writes).await;
                Ok(())
            }
        }
    }

    async fn record_audit(&self, audit: AuditRow) -> Result<(), BoardError> {
        let writes = vec![StoreWrite::Audit(audit)];
        match &self.recorder {
            CallRecorder::RunLog { writer, .. } => {
                writer.append(Vec::<NewEvent>::new(), writes, Durability::Boundary).await
            }
            CallRecorder::AuditStore(store) => {
                Ok(store.commit(WriteBatch { durability: Durability::Boundary, writes }).await?)
            }
            CallRecorder::AuditQueue(trail) => {
                enqueue_audit(trail, writes).await;
                Ok(())
            }
        }
    }
}

async fn enqueue_audit(trail: &AuditTrail, writes: Vec<StoreWrite>) {
    for write in writes {
        if let StoreWrite::Audit(row) = write {
            trail.add(row).await;
        }
    }
}

impl ToolExecutor {
    /// The intent to make a call. Its event has to be on record before `call` takes it; for a tool with effects, with
    /// `Boundary` durability. Without effects there is nothing to reconstruct after a power cut. A call that
    /// is `announced` is itself on record already, with the answer that made it.
    pub fn prepare_intent(call: ToolCall, announced: bool) -> (Event, CallIntent) {
        let event = match announced {
            true => Event::ToolStarted { call: call.id.clone(), name: call.name.clone() },
            false => Event::ToolRequested(call.clone()),
        };
        (event, CallIntent { call, outcome_unknown: false })
    }

    /// Calls a tool outside of any run. What has effects is in the audit trail before it happens.
    pub async fn call_outside_run(
        &self,
        context: &CallContext,
        call: ToolCall,
        stop: &CancellationToken,
    ) -> Result<ToolOutput, BoardError> {
        let writes = context.tool_set.find(&call.name).is_some_and(|(spec, _)| spec.effect == ToolEffect::Writes);
        let (event, intent) = Self::prepare_intent(call, false);
        if writes {
            let audit = self.audit_row(context, "tool.intent", &intent.call.name, "");
            context.record(event, Some(audit)).await?;
        }
        self.call(context, &intent, stop).await
    }

    /// Runs one call to its recorded result. A tool's failure is an output; only a store that cannot record is an error.
    pub async fn call(
        &self,
        context: &CallContext,
        intent: &CallIntent,
        stop: &CancellationToken,
    ) -> Result<ToolOutput, BoardError> {
        let output = self.attempt(context, &intent.call, intent.outcome_unknown, stop).await?;
        let outcome = if output.is_error { "error" } else { "ok" };
        let audit = self.audit_row(context, "tool.call", &intent.call.name, outcome);
        let finished = Event::ToolFinished { call: intent.call.id.clone(), output: output.clone() };
        context.record(finished, Some(audit)).await?;
        Ok(output)
    }

    /// Everything but the record of the result. Boxed because a batch leads back here.
    fn attempt<'a>(
        &'a self,
        context: &'a CallContext,
        call: &'a ToolCall,
        unsure: bool,
        stop: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<ToolOutput, BoardError>> {
        Box::pin(async move {
            let started = tokio::time::Instant::now();
            let found = context.tool_set.find(&call.name);
            let kind = found.map_or("unknown", |(spec, _)| spec.kind);
            let output = match found {
                None => ToolOutput::error(format!("unknown tool: {}", call.name)),
                Some((spec, host)) => match self.admit(context, spec, call, unsure, stop).await? {
                    CallAdmission::Refused(reason) => ToolOutput::error(reason),
                    CallAdmission::InvalidArguments(output) => output,
                    CallAdmission::TimedOut => {
                        ToolOutput::fault(ToolFault::TimedOut, format!("nobody approved {} in time", spec.name))
                    }
                    CallAdmission::Granted(arguments) if builtin::batch::is_batch(spec) => {
                        self.batch(context, call, &arguments, unsure, stop).await?
                    }
                    CallAdmission::Granted(arguments) => {
                        self.execute(context, call, spec, host, &arguments, stop).await?
                    }
                },
            };
            let output = self.truncate_output(output, &context.scope);
            let outcome = if output.is_error { "error" } else { "ok" };
            crate::telemetry::tool_call(kind, outcome, started.elapsed());
            Ok(output)
        })
    }

    /// Several calls side by side, each on the same path as any other; in the audit trail each has its own row. Of a
    /// batch that was cut off nobody knows which calls took effect, so each follows its own tool's policy.
    async fn batch(
        &self,
        context: &CallContext,
        whole: &ToolCall,
        arguments: &Value,
        unsure: bool,
        stop: &CancellationToken,
    ) -> Result<ToolOutput, BoardError> {
        let calls = match builtin::batch::parse(arguments) {
            Ok(calls) => calls,
            Err(problem) => return Ok(ToolOutput::error(problem)),
        };
        let context = &nested_context(context);
        let one = |(number, (name, arguments)): (usize, (Arc<str>, Arc<Value>))| async move {
            let is_nested = context.tool_set.find(&name).is_some_and(|(spec, _)| builtin::batch::is_batch(spec));
            if is_nested {
                return Ok((name, ToolOutput::error("a batch cannot hold another batch")));
            }
            let id = CallId(format!("{}.{}", whole.id, number + 1).into());
            let call = ToolCall { id, name, input: ToolInput::Json(arguments) };
            let writes = context.tool_set.find(&call.name).is_some_and(|(spec, _)| spec.effect == ToolEffect::Writes);
            let output = self.attempt(context, &call, unsure, stop).await?;
            if writes {
                let outcome = if output.is_error { "error" } else { "ok" };
                let audit = self.audit_row(context, "tool.call", &call.name, outcome);
                context.record_audit(audit).await?;
            }
            Ok::<_, BoardError>((call.name, output))
        };
        let results = futures_util::future::join_all(calls.into_iter().enumerate().map(one)).await;
        Ok(builtin::batch::render(&results.into_iter().collect::<Result<Vec<_>, _>>()?))
    }

    /// Calls a tool on behalf of one that is at work. It is part of that call's result, so only the audit trail has it:
    /// what has effects, before it happens too.
    pub async fn call_nested(
        &self,
        context: &CallContext,
        call: ToolCall,
        stop: &CancellationToken,
    ) -> Result<ToolOutput, BoardError> {
        let context = &nested_context(context);
        if context.tool_set.find(&call.name).is_some_and(|(spec, _)| spec.effect == ToolEffect::Writes) {
            context.record_audit(self.audit_row(context, "tool.intent", &call.name, "")).await?;
        }
        let output = self.attempt(context, &call, false, stop).await?;
        let outcome = if output.is_error { "error" } else { "ok" };
        context.record_audit(self.audit_row(context, "tool.call", &call.name, outcome)).await?;
        Ok(output)
    }

    /// Arguments, then policy, then, if it says so, a person.
    async fn admit(
        &self,
        context: &CallContext,
        spec: &ToolSpec,
        call: &ToolCall,
        unsure: bool,
        stop: &CancellationToken,
    ) -> Result<CallAdmission, BoardError> {
        let arguments = match &call.input {
            ToolInput::Json(arguments) => arguments.clone(),
            ToolInput::Malformed(_) => {
                return Ok(CallAdmission::Refused(format!("arguments of {} are not valid JSON", spec.name)));
            }
        };
        let schema = without_binary_arguments(&spec.input_schema, &context.scope);
        if let Err(problem) = self.schemas.check(&schema, &arguments) {
            return Ok(CallAdmission::InvalidArguments(invalid_arguments(spec, &context.scope, &problem)));
        }
        let policy =
            self.policy.get().decide(spec, context.caller.surface).max(granted_folder_mode(spec, &context.scope));
        let approval = match (unsure, spec.unknown_outcome) {
            // It does nothing itself; each of its calls is then one of unknown outcome.
            (true, _) if builtin::batch::is_batch(spec) => policy,
            (true, UnknownOutcomePolicy::Fail) => return Ok(CallAdmission::Refused(interrupted_text(spec))),
            (true, UnknownOutcomePolicy::Ask) => policy.max(ApprovalMode::Ask),
            (true, UnknownOutcomePolicy::Retry) | (false, _) => policy,
        };
        Ok(match approval {
            ApprovalMode::Allow => CallAdmission::Granted(arguments),
            ApprovalMode::Deny => {
                CallAdmission::Refused(format!("{} is not allowed here by the approval policy", spec.name))
            }
            ApprovalMode::Ask => match self.approvals.ask(context, call, unsure) {
                Ok(asked) => match self.request_approval(context, call, asked, stop).await? {
                    ApprovalOutcome::Approved => CallAdmission::Granted(arguments),
                    ApprovalOutcome::Withdrawn if !stop.is_cancelled() => CallAdmission::TimedOut,
                    ApprovalOutcome::Refused | ApprovalOutcome::Expired if unsure => {
                        CallAdmission::Refused(interrupted_text(spec))
                    }
                    ApprovalOutcome::Refused => {
                        CallAdmission::Refused(format!("{} was refused by the user", spec.name))
                    }
                    ApprovalOutcome::Expired => {
                        CallAdmission::Refused(format!("nobody approved {} in time", spec.name))
                    }
                    ApprovalOutcome::Withdrawn => CallAdmission::Refused("cancelled".to_owned()),
                },
                Err(too_many) => CallAdmission::Refused(format!("{} cannot be approved now: {too_many}", spec.name)),
            },
        })
    }

    async fn request_approval(
        &self,
        context: &CallContext,
        call: &ToolCall,
        asked: ApprovalTicket<'_>,
        stop: &CancellationToken,
    ) -> Result<ApprovalOutcome, BoardError> {
        let approval = asked.request.approval;
        context.record(Event::ApprovalRequested(asked.request.clone()), None).await?;
        // Nobody is asked for longer than the caller waits.
        let waiting = stop.child_token();
        let patience = context.scope.call_metadata.as_ref().and_then(|parcel| parcel.timeout);
        let answer = asked.outcome(&waiting);
        tokio::pin!(answer);
        let (verdict, by) = tokio::select! {
            biased;
            answer = &mut answer => answer,
            () = tokio::time::sleep(patience.unwrap_or(Duration::MAX)) => {
                waiting.cancel();
                answer.await
            }
        };
        let settled =
            Event::ApprovalResolved { approval, approved: verdict == ApprovalOutcome::Approved, by: by.clone() };
        let mut audit = self.audit_row(context, "approval", &call.name, verdict.name());
        audit.principal = by;
        context.record(settled, Some(audit)).await?;
        Ok(verdict)
    }

    async fn execute(
        &self,
        context: &CallContext,
        call: &ToolCall,
        spec: &ToolSpec,
        host: &Arc<dyn ToolHost>,
        arguments: &Value,
        stop: &CancellationToken,
    ) -> Result<ToolOutput, BoardError> {
        if stop.is_cancelled() {
            return Ok(ToolOutput::error("cancelled"));
        }
        // However the call ends, a timeout included, the tool hears that nobody waits for it any more.
        let call_stop = stop.child_token();
        let _over = call_stop.clone().drop_guard();
        let (mut listening, scope) = ProgressReader::open(context, call, spec);
        let (timeout, grace) = self.time_limit(spec, &scope);
        // Inside the future, so that a tool that panics before its first await is caught too: it has failed, the run
        // goes on.
        let span = trace::tool_call(&spec.name, spec.kind, &call.id);
        let work = async { host.call_with_context(context, &scope, call, arguments, call_stop).await }
            .instrument(span.clone());
        let work = AssertUnwindSafe(work).catch_unwind();
        // When this is done the tool is gone, whatever is still to be recorded.
        let ending = async {
            tokio::select! {
                // What a tool has done is told even when the run ends in the same moment.
                biased;
                done = work => done.unwrap_or_else(|_| {
                    tracing::error!(tool.name = %spec.name, "tool panicked");
                    ToolOutput::error(format!("{} failed inside", spec.name))
                }),
                () = stop.cancelled() => ToolOutput::fault(ToolFault::Cancelled, "cancelled"),
                () = tokio::time::sleep(timeout.saturating_add(grace)) => {
                    let seconds = timeout.as_secs_f64();
                    ToolOutput::fault(ToolFault::TimedOut, format!("{} was stopped after {seconds} s", spec.name))
                }
            }
        };
        tokio::pin!(ending);
        let output = loop {
            let said = tokio::select! {
                // However much a tool has to say, it is listened to after its end and its limits.
                biased;
                output = &mut ending => break output,
                said = listening.next() => said,
            };
            // A store that stalls must not keep the tool from hearing that it is stopped. Never dropped half-way: the
            // log counts on it.
            let telling = listening.record(said);
            tokio::pin!(telling);
            tokio::select! {
                biased;
                told = &mut telling => told?,
                output = &mut ending => {
                    telling.await?;
                    break output;
                }
            }
        };
        trace::tool_answered(&span, &output);
        drop(span);
        listening.record_rest().await?;
        Ok(output)
    }

    /// How long the call may take, and how long its end may be waited for then. What a caller asks for is for workers;
    /// with the server's own tools nobody gets more time than the operator gives.
    fn time_limit(&self, spec: &ToolSpec, scope: &ToolScope) -> (Duration, Duration) {
        let asked = scope.call_metadata.as_ref().and_then(|parcel| parcel.timeout);
        let usual = spec.timeout.unwrap_or_else(|| self.limits.get().timeout);
        match asked {
            Some(asked) if spec.kind == WORKER_KIND => (asked, WORKER_GRACE),
            Some(asked) => (asked.min(usual), Duration::ZERO),
            None => (usual, Duration::ZERO),
        }
    }

    fn truncate_output(&self, output: ToolOutput, scope: &ToolScope) -> ToolOutput {
        let is_for_program = scope.call_metadata.as_ref().is_some_and(|parcel| !parcel.for_model);
        let most = match is_for_program {
            true => self.limits.get().output_bytes.max(PROGRAM_OUTPUT_BYTES),
            false => self.limits.get().output_bytes,
        };
        match cut_with_size(&output.content, most) {
            Cow::Borrowed(_) => output,
            Cow::Owned(shown) => ToolOutput { content: shown.into(), ..output },
        }
    }

    fn audit_row(&self, context: &CallContext, action: &str, subject: &Arc<str>, detail: &str) -> AuditRow {
        AuditRow {
            at: self.clock.now(),
            principal: context.caller.principal.clone(),
            surface: context.caller.surface.name().into(),
            action: action.into(),
            subject: subject.clone(),
            run: Some(context.run),
            detail: detail.into(),
        }
    }
}

/// What a batch or a plugin gets of its calls is text, and what travels with its own call is not theirs.
fn nested_context(context: &CallContext) -> Cow<'_, CallContext> {
    let Some(parcel) = &context.scope.call_metadata else { return Cow::Borrowed(context) };
    let parcel = CallMetadata { binary: BTreeMap::new(), chunks: None, for_model: true, ..CallMetadata::clone(parcel) };
    let scope = ToolScope { call_metadata: Some(Arc::new(parcel)), ..context.scope.clone() };
    Cow::Owned(CallContext { scope, ..context.clone() })
}

/// In a folder beyond the configured roots a person is asked about everything that writes, where commands run unconfined.
fn granted_folder_mode(spec: &ToolSpec, scope: &ToolScope) -> ApprovalMode {
    let asks = scope.folder_grant.as_ref().is_some_and(|grant| grant.asks_before_writing);
    // Each call of an agent or of a batch is judged by itself.
    let is_judged_later = policy::is_agent_tool(spec) || builtin::batch::is_batch(spec);
    if asks && spec.effect == ToolEffect::Writes && !is_judged_later { ApprovalMode::Ask } else { ApprovalMode::Allow }
}

/// Arguments that are bytes travel apart: they are there although the others do not hold them.
fn without_binary_arguments<'a>(schema: &'a Arc<Value>, scope: &ToolScope) -> Cow<'a, Arc<Value>> {
    let apart = |name: &Value| {
        let parcel = scope.call_metadata.as_ref();
        name.as_str().is_some_and(|name| parcel.is_some_and(|parcel| parcel.binary.contains_key(name)))
    };
    let required = schema.get("required").and_then(Value::as_array);
    if !required.is_some_and(|required| required.iter().any(apart)) {
        return Cow::Borrowed(schema);
    }
    let mut relaxed = Value::clone(schema);
    if let Some(required) = relaxed.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !apart(name));
    }
    Cow::Owned(Arc::new(relaxed))
}

/// In words for a model, or in those that programs on the bridge look for.
fn invalid_arguments(spec: &ToolSpec, scope: &ToolScope, problem: &SchemaViolation) -> ToolOutput {
    if scope.call_metadata.as_ref().is_none_or(|parcel| parcel.for_model) {
        return ToolOutput::error(format!("arguments of {} do not fit its schema: {problem}", spec.name));
    }
    let words = match &problem.parameter {
        Some((name, reason)) => format!("Invalid parameter {name}: {reason}"),
        None => format!("Invalid parameters: {problem}"),
    };
    ToolOutput::fault(ToolFault::Argument, words)
}

fn interrupted_text(spec: &ToolSpec) -> String {
    format!(
        "the server stopped while {} was running; whether it took effect is not known and it was not run again",
        spec.name
    )
}

enum CallAdmission {
    Granted(Arc<Value>),
    Refused(String),
    /// The arguments are not what the tool takes.
    InvalidArguments(ToolOutput),
    /// The caller's time is over, and nobody has answered.
    TimedOut,
}
