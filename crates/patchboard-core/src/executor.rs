//! The single path of every tool call, for all callers: authorise → approve → record intent → execute → record result.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_core::future::BoxFuture;
use futures_util::FutureExt;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::approval::policy::{self, ApprovalMode, ApprovalPolicy};
use crate::audit::AuditTrail;
use crate::budget::call_chain::CallChain;
use crate::caller::{Caller, Principal};
use crate::error::BoardError;
use crate::event::{Event, InputAnswer, InputKind, NewEvent};
use crate::figures::FlowKind;
use crate::id::{CallId, NodeId, RunId};
use crate::input::{InputOrigin, InputQueue};
use crate::keys::{Key, KeyRing};
use crate::log::TopicWriter;
use crate::model::{ToolCall, ToolInput};
use crate::port::ToolScope;
use crate::port::{Clock, SchemaValidator, SchemaViolation, ToolHost};
use crate::reloadable::Reloadable;
use crate::store::{AuditRow, Durability, InputRow, Store, StoreWrite, WriteBatch};
use crate::tenure::Tenure;
use crate::tool::{CallMetadata, ToolEffect, ToolFault, ToolKind, ToolOutput, ToolSpec, UnknownOutcomePolicy};

use crate::text::cut_with_size;
use crate::trace;
use crate::waits::RunWaits;

pub mod builtin;
mod inputs;
pub(crate) mod plugin_tools;
mod progress;
pub mod registry;
pub mod statistics;

pub(crate) use inputs::QuestionToolHost;
use progress::ProgressReader;
pub use registry::ToolRegistry;
use registry::{RegisteredHost, ToolSet};
use statistics::CallStatistics;

/// Limits of one call.
#[derive(Debug, Clone, Copy)]
pub struct ToolLimits {
    /// A call that takes longer is cancelled and fails.
    pub timeout: Duration,
    /// A longer output is cut, with a mark that says how much is missing. Programs have a higher limit.
    pub output_bytes: usize,
}

/// Output limit of text for programs, for which a truncated text is useless. Still bounded, because the output is in
/// memory several times on its way.
const PROGRAM_OUTPUT_BYTES: usize = 16 * 1024 * 1024;
/// Workers apply the caller's timeout themselves and know the outcome better, so they get this long to report it.
const WORKER_GRACE: Duration = Duration::from_millis(500);

impl Default for ToolLimits {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(120), output_bytes: 64 * 1024 }
    }
}

/// A tool host that has to know on whose behalf and in which run it is called.
pub trait ContextToolHost: ToolHost {
    /// `ToolHost::call`, with the context of the call.
    fn call_with_context<'a>(
        &'a self,
        context: &'a CallContext,
        scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput>;
}

/// A tool call that is ready to be executed once its event (see `prepare_intent`) is on record.
#[derive(Debug)]
pub struct CallIntent {
    call: ToolCall,
    /// The call was made before and it is unknown whether it took effect.
    outcome_unknown: bool,
}

impl CallIntent {
    /// A call that an earlier process started and did not finish.
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
    pub inputs: Arc<InputQueue>,
    pub store: Arc<dyn Store>,
    pub schemas: Arc<dyn SchemaValidator>,
    pub clock: Arc<dyn Clock>,
    pub tenure: Arc<Tenure>,
    pub limits: Reloadable<ToolLimits>,
    /// Their limits on tools hold for every call of a chain that a key's client began.
    pub keys: Arc<KeyRing>,
    pub statistics: CallStatistics,
}

/// The caller, the run and the tools of a call.
#[derive(Debug, Clone)]
pub struct CallContext {
    pub caller: Caller,
    /// The agent that makes the call; `None` for a call outside of any run.
    pub agent: Option<Arc<str>>,
    /// The run; for a call outside of any run, an id made for this call alone, which groups its audit rows.
    pub run: RunId,
    pub call_chain: CallChain,
    pub scope: ToolScope,
    pub tool_set: ToolSet,
    /// The node that makes the call, in a run that records its nodes.
    pub node: Option<NodeId>,
    pub recorder: CallRecorder,
    /// Nesting depth of plugin calls so far.
    pub plugin_depth: u8,
    /// The plugin or agent that makes the call, if it is not the agent of the outermost run.
    pub made_by: Option<Arc<str>>,
    /// What an earlier process of the run asked for, by call.
    pub stored_inputs: StoredInputs,
}

/// Inputs of a run that an earlier process asked for and that nobody has taken note of. Each is taken once.
#[derive(Debug, Clone, Default)]
pub struct StoredInputs(Option<Arc<Mutex<HashMap<CallId, InputRow>>>>);

impl StoredInputs {
    pub(crate) fn new(rows: Vec<InputRow>) -> Self {
        let by_call: HashMap<CallId, InputRow> =
            rows.into_iter().map(|row| (row.request.asking_call().clone(), row)).collect();
        Self((!by_call.is_empty()).then(|| Arc::new(Mutex::new(by_call))))
    }

    fn take(&self, call: &CallId) -> Option<InputRow> {
        let rows = self.0.as_ref()?;
        rows.lock().unwrap_or_else(PoisonError::into_inner).remove(call)
    }
}

/// Where calls are recorded. All of them are in the audit trail.
#[derive(Debug, Clone)]
pub enum CallRecorder {
    /// In the log of their run.
    RunLog { writer: Arc<TopicWriter>, records_nodes: bool },
    /// Calls outside of any run are recorded in the audit trail only.
    AuditStore(Arc<dyn Store>),
    /// Calls of programs, which can be thousands per second and are never resumed: recorded in the audit trail, which
    /// is written asynchronously. Calls that change the server's own state must not use it.
    AuditQueue(AuditTrail),
}

impl CallContext {
    fn input_origin(&self) -> InputOrigin<'_> {
        let is_program = matches!(self.caller.principal, Principal::Worker(_) | Principal::Program(_));
        let by_principal = || is_program.then(|| self.caller.principal.text());
        InputOrigin {
            run: self.run,
            session: &self.scope.session,
            caller: &self.caller,
            call_chain: &self.call_chain,
            asked_by: self.made_by.clone().or_else(by_principal),
            is_durable: matches!(self.recorder, CallRecorder::RunLog { .. }),
        }
    }

    async fn record(&self, event: Event, audit: Option<AuditRow>) -> Result<(), BoardError> {
        self.record_with(event, audit.into_iter().map(StoreWrite::Audit).collect()).await
    }

    /// Records an event with further writes; outside of a run, only audit rows are written.
    async fn record_with(&self, event: Event, mut writes: Vec<StoreWrite>) -> Result<(), BoardError> {
        if !matches!(self.recorder, CallRecorder::RunLog { .. }) {
            writes.retain(|write| matches!(write, StoreWrite::Audit(_)));
        }
        match &self.recorder {
            CallRecorder::RunLog { writer, .. } => {
                writer.append(vec![NewEvent { node: self.node, event }], writes, Durability::Boundary).await
            }
            CallRecorder::AuditStore(_) if writes.is_empty() => Ok(()),
            CallRecorder::AuditStore(store) => Ok(store.commit(WriteBatch::boundary(writes)).await?),
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
            CallRecorder::AuditStore(store) => Ok(store.commit(WriteBatch::boundary(writes)).await?),
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
    /// Creates the intent of a call. The event must be recorded before `call` is invoked; for a tool with effects, with
    /// `Boundary` durability. Without effects there is nothing to reconstruct after a power failure. An `announced`
    /// call is itself recorded already, with the model answer that contains it.
    pub fn prepare_intent(call: ToolCall, announced: bool) -> (Event, CallIntent) {
        let event = match announced {
            true => Event::ToolStarted { call: call.id.clone(), name: call.name.clone() },
            false => Event::ToolRequested(call.clone()),
        };
        (event, CallIntent { call, outcome_unknown: false })
    }

    /// Calls a tool outside of any run. A call with effects is recorded in the audit trail before it is executed.
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

    /// Runs one call and records its result. A tool's failure is an output; only a store that cannot record is an
    /// error.
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

    /// Everything but recording the result. Boxed because a batch recurses into it.
    fn attempt<'a>(
        &'a self,
        context: &'a CallContext,
        call: &'a ToolCall,
        outcome_unknown: bool,
        stop: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<ToolOutput, BoardError>> {
        Box::pin(async move {
            let started = tokio::time::Instant::now();
            let found = context.tool_set.find(&call.name);
            let kind = found.map_or("unknown", |(spec, _)| spec.kind.name());
            let output = match found {
                None => ToolOutput::error(format!("unknown tool: {}", call.name)),
                Some((spec, host)) => match self.admit(context, spec, call, outcome_unknown, stop).await? {
                    CallAdmission::Refused(reason) => ToolOutput::error(reason),
                    CallAdmission::InvalidArguments(output) => output,
                    CallAdmission::TimedOut => {
                        ToolOutput::fault(ToolFault::TimedOut, format!("nobody approved {} in time", spec.name))
                    }
                    CallAdmission::Granted(arguments) if spec.is_batch() => {
                        self.batch(context, call, &arguments, outcome_unknown, stop).await?
                    }
                    CallAdmission::Granted(arguments) if spec.kind == ToolKind::Client || spec.is_question() => {
                        self.ask_client(context, call, spec, &arguments, stop).await?
                    }
                    CallAdmission::Granted(arguments) => {
                        self.execute(context, call, spec, host, &arguments, stop).await?
                    }
                },
            };
            let output = self.truncate_output(output, &context.scope);
            let outcome = if output.is_error { "error" } else { "ok" };
            crate::telemetry::tool_call(kind, outcome, started.elapsed());
            if let Some((spec, host)) = found {
                let from = context.agent.as_deref().unwrap_or(context.caller.surface.name());
                self.statistics.tool_called(&spec.name, output.is_error);
                self.statistics.flowed(FlowKind::ToolCall, from, host.host_name(spec), self.clock.now());
            }
            Ok(output)
        })
    }

    /// Runs several calls concurrently, each through the same path as any other and with its own audit row. After an
    /// interrupted batch it is unknown which calls took effect, so each follows its own tool's policy.
    async fn batch(
        &self,
        context: &CallContext,
        batch_call: &ToolCall,
        arguments: &Value,
        outcome_unknown: bool,
        stop: &CancellationToken,
    ) -> Result<ToolOutput, BoardError> {
        let calls = match builtin::batch::parse(arguments) {
            Ok(calls) => calls,
            Err(problem) => return Ok(ToolOutput::error(problem)),
        };
        let context = &nested_context(context);
        let run_one = |(number, (name, arguments)): (usize, (Arc<str>, Arc<Value>))| async move {
            let is_nested = context.tool_set.find(&name).is_some_and(|(spec, _)| spec.is_batch());
            if is_nested {
                return Ok((name, ToolOutput::error("a batch cannot hold another batch")));
            }
            let id = CallId(format!("{}.{}", batch_call.id, number + 1).into());
            let call = ToolCall { id, name, input: ToolInput::Json(arguments) };
            let writes = context.tool_set.find(&call.name).is_some_and(|(spec, _)| spec.effect == ToolEffect::Writes);
            let output = self.attempt(context, &call, outcome_unknown, stop).await?;
            if writes {
                let outcome = if output.is_error { "error" } else { "ok" };
                let audit = self.audit_row(context, "tool.call", &call.name, outcome);
                context.record_audit(audit).await?;
            }
            Ok::<_, BoardError>((call.name, output))
        };
        let results = futures_util::future::join_all(calls.into_iter().enumerate().map(run_one)).await;
        Ok(builtin::batch::render(&results.into_iter().collect::<Result<Vec<_>, _>>()?))
    }

    /// Calls a tool on behalf of a running tool call. The result is part of that call's result, so only the audit trail
    /// records it; a call with effects also before it is executed.
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

    /// The tools that a key leaves of a set; none if it was revoked.
    pub fn tools_of_key(&self, key: Option<&str>, tools: ToolSet) -> ToolSet {
        let Some(name) = key else { return tools };
        match self.keys.get(name) {
            Some(key) if key.spec.rights.tools.is_none() => tools,
            Some(key) => tools.filter(|spec| key.spec.may_use(&spec.name)),
            None => ToolSet::default(),
        }
    }

    /// The key whose budget pays for the chain's model calls; an error if it was revoked.
    pub fn charged_key(&self, chain: &CallChain) -> Result<Option<Key>, BoardError> {
        chain.key.as_ref().map(|name| self.keys.require(name)).transpose()
    }

    /// Why the key that began the chain of calls may not use the tool.
    fn key_refusal(&self, context: &CallContext, spec: &ToolSpec) -> Option<String> {
        let name = context.call_chain.key.as_ref()?;
        match self.keys.require(name) {
            Ok(key) if key.spec.may_use(&spec.name) => None,
            Ok(_) => Some(format!("{} is not among the tools of the key `{name}`", spec.name)),
            Err(revoked) => Some(revoked.message),
        }
    }

    /// Validates the arguments, applies the policy and, if required, asks for approval.
    async fn admit(
        &self,
        context: &CallContext,
        spec: &ToolSpec,
        call: &ToolCall,
        outcome_unknown: bool,
        stop: &CancellationToken,
    ) -> Result<CallAdmission, BoardError> {
        if let Some(refusal) = self.key_refusal(context, spec) {
            return Ok(CallAdmission::Refused(refusal));
        }
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
        let approval = match (outcome_unknown, spec.unknown_outcome) {
            // A batch has no effects of its own; each of its calls is then one of unknown outcome.
            (true, _) if spec.is_batch() => policy,
            (true, UnknownOutcomePolicy::Fail) => return Ok(CallAdmission::Refused(interrupted_text(spec))),
            (true, UnknownOutcomePolicy::Ask) => policy.max(ApprovalMode::Ask),
            (true, UnknownOutcomePolicy::Retry) | (false, _) => policy,
        };
        Ok(match approval {
            ApprovalMode::Allow => CallAdmission::Granted(arguments),
            ApprovalMode::Deny => {
                CallAdmission::Refused(format!("{} is not allowed here by the approval policy", spec.name))
            }
            ApprovalMode::Ask if !outcome_unknown && self.is_allowed_for_session(context, call).await? => {
                context
                    .record_audit(self.audit_row(context, "approval", &call.name, "allowed for the session"))
                    .await?;
                CallAdmission::Granted(arguments)
            }
            ApprovalMode::Ask => {
                let kind = InputKind::Approval { call: call.clone(), may_have_run: outcome_unknown };
                match self.request_input(context, &call.id, kind, stop).await? {
                    InputReply::Unavailable(error) => {
                        CallAdmission::Refused(format!("{} cannot be approved now: {error}", spec.name))
                    }
                    InputReply::CallerGaveUp => CallAdmission::TimedOut,
                    InputReply::Given(InputAnswer::Approved) => CallAdmission::Granted(arguments),
                    InputReply::Given(InputAnswer::ApprovedForSession) => {
                        self.allow_for_session(context, call).await?;
                        CallAdmission::Granted(arguments)
                    }
                    InputReply::Given(InputAnswer::Withdrawn) => CallAdmission::Refused("cancelled".to_owned()),
                    InputReply::Given(_) if outcome_unknown => CallAdmission::Refused(interrupted_text(spec)),
                    InputReply::Given(InputAnswer::Expired) => {
                        CallAdmission::Refused(format!("nobody approved {} in time", spec.name))
                    }
                    InputReply::Given(
                        InputAnswer::Refused | InputAnswer::ToolResult { .. } | InputAnswer::Answered(_),
                    ) => CallAdmission::Refused(format!("{} was refused by the user", spec.name)),
                }
            }
        })
    }

    async fn execute(
        &self,
        context: &CallContext,
        call: &ToolCall,
        spec: &ToolSpec,
        host: &RegisteredHost,
        arguments: &Value,
        stop: &CancellationToken,
    ) -> Result<ToolOutput, BoardError> {
        if stop.is_cancelled() {
            return Ok(ToolOutput::error("cancelled"));
        }
        self.tenure.may_act()?;
        // Cancels the tool however the call ends, a timeout included.
        let call_stop = stop.child_token();
        let _cancel_guard = call_stop.clone().drop_guard();
        let (mut progress, scope) = ProgressReader::open(context, call, spec);
        let (timeout, grace) = self.time_limit(spec, &scope);
        // The host is called inside the future, so that a panic before its first await is caught too: the call fails,
        // the run continues.
        let span = trace::tool_call(&spec.name, spec.kind.name(), &call.id);
        // What is waited for within the call, such as the approval of a nested one, is not the tool's time.
        let inner_context =
            host.uses_context().then(|| CallContext { call_chain: context.call_chain.for_call(), ..context.clone() });
        let inner_context = inner_context.as_ref().unwrap_or(context);
        let waits = host.uses_context().then(|| inner_context.call_chain.waits.clone());
        let work =
            async { host.call_in(inner_context, &scope, call, arguments, call_stop).await }.instrument(span.clone());
        let work = AssertUnwindSafe(work).catch_unwind();
        // Once this completes, the tool's future is dropped, even if progress is still to be recorded.
        let ending = async {
            tokio::select! {
                // The result of a tool that has finished is recorded even if the run is cancelled at the same moment.
                biased;
                done = work => done.unwrap_or_else(|_| {
                    tracing::error!(tool.name = %spec.name, "tool panicked");
                    ToolOutput::error(format!("{}: internal error", spec.name))
                }),
                () = stop.cancelled() => ToolOutput::fault(ToolFault::Cancelled, "cancelled"),
                () = time_limit(waits.as_deref(), timeout.saturating_add(grace)) => {
                    let seconds = timeout.as_secs_f64();
                    ToolOutput::fault(ToolFault::TimedOut, format!("{} was stopped after {seconds} s", spec.name))
                }
            }
        };
        tokio::pin!(ending);
        let output = loop {
            let update = tokio::select! {
                // The tool's end and its timeout take precedence over its progress, however much there is.
                biased;
                output = &mut ending => break output,
                update = progress.next() => update,
            };
            // Recorded while the tool is polled, so that a stalled store does not delay its cancellation. The record
            // future must not be dropped before it completes, as the log requires.
            let recording = progress.record(update);
            tokio::pin!(recording);
            tokio::select! {
                biased;
                recorded = &mut recording => recorded?,
                output = &mut ending => {
                    recording.await?;
                    break output;
                }
            }
        };
        trace::tool_answered(&span, &output);
        drop(span);
        progress.record_rest().await?;
        Ok(output)
    }

    /// The timeout of the call and the grace period after it. A caller's timeout applies to workers as it is; for the
    /// server's own tools it cannot exceed the operator's limit.
    fn time_limit(&self, spec: &ToolSpec, scope: &ToolScope) -> (Duration, Duration) {
        let caller_timeout = scope.call_metadata.as_ref().and_then(|metadata| metadata.timeout);
        let tool_timeout = spec.timeout.unwrap_or_else(|| self.limits.get().timeout);
        match caller_timeout {
            Some(caller_timeout) if spec.kind == ToolKind::Worker => (caller_timeout, WORKER_GRACE),
            Some(caller_timeout) => (caller_timeout.min(tool_timeout), Duration::ZERO),
            None => (tool_timeout, Duration::ZERO),
        }
    }

    fn truncate_output(&self, output: ToolOutput, scope: &ToolScope) -> ToolOutput {
        let is_for_program = scope.call_metadata.as_ref().is_some_and(|metadata| !metadata.for_model);
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
            principal: context.caller.principal.text(),
            surface: context.caller.surface.name().into(),
            action: action.into(),
            subject: subject.clone().into(),
            run: Some(context.run),
            detail: detail.into(),
        }
    }
}

async fn time_limit(waits: Option<&RunWaits>, limit: Duration) {
    match waits {
        Some(waits) => waits.working_time(limit).await,
        None => tokio::time::sleep(limit).await,
    }
}

/// The context of calls made by a batch or a plugin: they return text, and the outer call's binary arguments and chunk
/// sink are not passed on.
fn nested_context(context: &CallContext) -> Cow<'_, CallContext> {
    let Some(metadata) = &context.scope.call_metadata else { return Cow::Borrowed(context) };
    let metadata =
        CallMetadata { binary: BTreeMap::new(), chunks: None, for_model: true, ..CallMetadata::clone(metadata) };
    let scope = ToolScope { call_metadata: Some(Arc::new(metadata)), ..context.scope.clone() };
    Cow::Owned(CallContext { scope, ..context.clone() })
}

/// In a granted folder outside the configured roots, where commands run unconfined, every tool with effects needs
/// approval.
fn granted_folder_mode(spec: &ToolSpec, scope: &ToolScope) -> ApprovalMode {
    let needs_approval = scope.folder_grant.as_ref().is_some_and(|grant| grant.asks_before_writing);
    // The calls of an agent or a batch are decided individually.
    let is_decided_per_call = policy::is_agent_tool(spec) || spec.is_batch();
    if needs_approval && spec.effect == ToolEffect::Writes && !is_decided_per_call {
        ApprovalMode::Ask
    } else {
        ApprovalMode::Allow
    }
}

/// Binary arguments are passed separately, so the schema must not require them in the JSON arguments.
fn without_binary_arguments<'a>(schema: &'a Arc<Value>, scope: &ToolScope) -> Cow<'a, Arc<Value>> {
    let is_binary = |name: &Value| {
        let metadata = scope.call_metadata.as_ref();
        name.as_str().is_some_and(|name| metadata.is_some_and(|metadata| metadata.binary.contains_key(name)))
    };
    let required = schema.get("required").and_then(Value::as_array);
    if !required.is_some_and(|required| required.iter().any(is_binary)) {
        return Cow::Borrowed(schema);
    }
    let mut relaxed = Value::clone(schema);
    if let Some(required) = relaxed.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !is_binary(name));
    }
    Cow::Owned(Arc::new(relaxed))
}

/// Worded for a model, or in the form that programs on the bridge match on.
fn invalid_arguments(spec: &ToolSpec, scope: &ToolScope, problem: &SchemaViolation) -> ToolOutput {
    if scope.call_metadata.as_ref().is_none_or(|metadata| metadata.for_model) {
        return ToolOutput::error(format!("arguments of {} do not fit its schema: {problem}", spec.name));
    }
    let text = match &problem.parameter {
        Some((name, reason)) => format!("Invalid parameter {name}: {reason}"),
        None => format!("Invalid parameters: {problem}"),
    };
    ToolOutput::fault(ToolFault::Argument, text)
}

fn interrupted_text(spec: &ToolSpec) -> String {
    format!(
        "the server stopped while {} was running; whether it took effect is not known and it was not run again",
        spec.name
    )
}

/// What became of a request for an input.
pub(crate) enum InputReply {
    Given(InputAnswer),
    /// The caller's timeout passed before the answer came.
    CallerGaveUp,
    /// It cannot be asked for now.
    Unavailable(BoardError),
}

enum CallAdmission {
    Granted(Arc<Value>),
    Refused(String),
    /// The arguments do not fit the tool's schema.
    InvalidArguments(ToolOutput),
    /// The caller's timeout passed before the approval was answered.
    TimedOut,
}
