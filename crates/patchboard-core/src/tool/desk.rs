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

use super::policy::{self, Approval, ApprovalPolicy};
use super::registry::Offer;
use super::voice::Listening;
use super::{Effect, Fault, Parcel, ToolOutput, ToolScope, ToolSpec, UnknownOutcome, own};
use crate::access::Caller;
use crate::approval::{ApprovalDesk, Asked, Verdict};
use crate::audit::AuditTrail;
use crate::bridge::WORKER_KIND;
use crate::error::BoardError;
use crate::event::{Entry, Event};
use crate::id::{CallId, NodeId, RunId};
use crate::live::Live;
use crate::log::TopicWriter;
use crate::model::{ToolCall, ToolInput};
use crate::port::{AuditRow, Batch, Clock, Durability, SchemaCheck, SchemaProblem, Store, ToolHost, Write};
use crate::run::Nesting;
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
const WORD_OF_WORKER: Duration = Duration::from_millis(500);

impl Default for ToolLimits {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(120), output_bytes: 64 * 1024 }
    }
}

/// A call whose intent is on record.
#[derive(Debug)]
pub struct Intent {
    call: ToolCall,
    /// It was made before and nobody knows whether it took effect.
    unsure: bool,
}

impl Intent {
    /// A call another process began and did not live to see the end of.
    pub fn unsure(call: ToolCall) -> Self {
        Self { call, unsure: true }
    }

    pub fn call_id(&self) -> &CallId {
        &self.call.id
    }
}

#[derive(Debug)]
pub struct ToolDesk {
    pub policy: Live<ApprovalPolicy>,
    pub approvals: Arc<ApprovalDesk>,
    pub schemas: Arc<dyn SchemaCheck>,
    pub clock: Arc<dyn Clock>,
    pub limits: Live<ToolLimits>,
}

/// On whose behalf, in which run, with which tools.
#[derive(Debug, Clone)]
pub struct CallContext {
    pub caller: Caller,
    pub run: RunId,
    pub nesting: Nesting,
    pub scope: ToolScope,
    pub offer: Offer,
    /// The node that calls, in a run that tells of its nodes.
    pub node: Option<NodeId>,
    pub record: Record,
    /// How many plugins have called each other up to here.
    pub depth: u8,
}

/// Where calls are recorded. The audit trail has every one of them.
#[derive(Debug, Clone)]
pub enum Record {
    /// In the log of their run.
    Run { writer: Arc<TopicWriter>, told: bool },
    /// Calls outside of any run are in the audit trail only.
    Audit(Arc<dyn Store>),
    /// Calls of programs, of which there may be thousands in a second and which nobody resumes: in the audit trail,
    /// which is written behind them. What changes something of this server's own does not use it.
    Behind(AuditTrail),
}

impl CallContext {
    async fn note(&self, event: Event, audit: Option<AuditRow>) -> Result<(), BoardError> {
        let writes = audit.into_iter().map(Write::Audit).collect();
        match &self.record {
            Record::Run { writer, .. } => {
                writer.append(vec![Entry { node: self.node, event }], writes, Durability::Boundary).await
            }
            Record::Audit(_) if writes.is_empty() => Ok(()),
            Record::Audit(store) => Ok(store.commit(Batch { durability: Durability::Boundary, writes }).await?),
            Record::Behind(trail) => {
                behind(trail, writes).await;
                Ok(())
            }
        }
    }

    async fn audit_only(&self, audit: AuditRow) -> Result<(), BoardError> {
        let writes = vec![Write::Audit(audit)];
        match &self.record {
            Record::Run { writer, .. } => writer.append(Vec::<Entry>::new(), writes, Durability::Boundary).await,
            Record::Audit(store) => Ok(store.commit(Batch { durability: Durability::Boundary, writes }).await?),
            Record::Behind(trail) => {
                behind(trail, writes).await;
                Ok(())
            }
        }
    }
}

async fn behind(trail: &AuditTrail, writes: Vec<Write>) {
    for write in writes {
        if let Write::Audit(row) = write {
            trail.add(row).await;
        }
    }
}

impl ToolDesk {
    /// The intent to make a call. Its event has to be on record before `call` takes it; for a tool with effects, with
    /// `Boundary` durability. Without effects there is nothing to reconstruct after a power cut. A call that
    /// is `announced` is itself on record already, with the answer that made it.
    pub fn intend(call: ToolCall, announced: bool) -> (Event, Intent) {
        let event = match announced {
            true => Event::ToolStarted { call: call.id.clone(), name: call.name.clone() },
            false => Event::ToolRequested(call.clone()),
        };
        (event, Intent { call, unsure: false })
    }

    /// Calls a tool outside of any run. What has effects is in the audit trail before it happens.
    pub async fn call_alone(
        &self,
        context: &CallContext,
        call: ToolCall,
        stop: &CancellationToken,
    ) -> Result<ToolOutput, BoardError> {
        let writes = context.offer.find(&call.name).is_some_and(|(spec, _)| spec.effect == Effect::Writes);
        let (event, intent) = Self::intend(call, false);
        if writes {
            let audit = self.audit(context, "tool.intent", &intent.call.name, "");
            context.note(event, Some(audit)).await?;
        }
        self.call(context, &intent, stop).await
    }

    /// Runs one call to its recorded result. A tool's failure is an output; only a store that cannot record is an error.
    pub async fn call(
        &self,
        context: &CallContext,
        intent: &Intent,
        stop: &CancellationToken,
    ) -> Result<ToolOutput, BoardError> {
        let output = self.attempt(context, &intent.call, intent.unsure, stop).await?;
        let outcome = if output.is_error { "error" } else { "ok" };
        let audit = self.audit(context, "tool.call", &intent.call.name, outcome);
        let finished = Event::ToolFinished { call: intent.call.id.clone(), output: output.clone() };
        context.note(finished, Some(audit)).await?;
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
            let found = context.offer.find(&call.name);
            let kind = found.map_or("unknown", |(spec, _)| spec.kind);
            let output = match found {
                None => ToolOutput::error(format!("unknown tool: {}", call.name)),
                Some((spec, host)) => match self.admit(context, spec, call, unsure, stop).await? {
                    Admission::Refused(reason) => ToolOutput::error(reason),
                    Admission::Unfit(output) => output,
                    Admission::Late => {
                        ToolOutput::fault(Fault::TimedOut, format!("nobody approved {} in time", spec.name))
                    }
                    Admission::Granted(arguments) if own::batch::is_batch(spec) => {
                        self.batch(context, call, &arguments, unsure, stop).await?
                    }
                    Admission::Granted(arguments) => self.execute(context, call, spec, host, &arguments, stop).await?,
                },
            };
            let output = self.cap(output, &context.scope);
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
        let calls = match own::batch::parse(arguments) {
            Ok(calls) => calls,
            Err(problem) => return Ok(ToolOutput::error(problem)),
        };
        let context = &inside(context);
        let one = |(number, (name, arguments)): (usize, (Arc<str>, Arc<Value>))| async move {
            let is_nested = context.offer.find(&name).is_some_and(|(spec, _)| own::batch::is_batch(spec));
            if is_nested {
                return Ok((name, ToolOutput::error("a batch cannot hold another batch")));
            }
            let id = CallId(format!("{}.{}", whole.id, number + 1).into());
            let call = ToolCall { id, name, input: ToolInput::Json(arguments) };
            let writes = context.offer.find(&call.name).is_some_and(|(spec, _)| spec.effect == Effect::Writes);
            let output = self.attempt(context, &call, unsure, stop).await?;
            if writes {
                let outcome = if output.is_error { "error" } else { "ok" };
                let audit = self.audit(context, "tool.call", &call.name, outcome);
                context.audit_only(audit).await?;
            }
            Ok::<_, BoardError>((call.name, output))
        };
        let results = futures_util::future::join_all(calls.into_iter().enumerate().map(one)).await;
        Ok(own::batch::render(&results.into_iter().collect::<Result<Vec<_>, _>>()?))
    }

    /// Calls a tool on behalf of one that is at work. It is part of that call's result, so only the audit trail has it:
    /// what has effects, before it happens too.
    pub async fn call_beneath(
        &self,
        context: &CallContext,
        call: ToolCall,
        stop: &CancellationToken,
    ) -> Result<ToolOutput, BoardError> {
        let context = &inside(context);
        if context.offer.find(&call.name).is_some_and(|(spec, _)| spec.effect == Effect::Writes) {
            context.audit_only(self.audit(context, "tool.intent", &call.name, "")).await?;
        }
        let output = self.attempt(context, &call, false, stop).await?;
        let outcome = if output.is_error { "error" } else { "ok" };
        context.audit_only(self.audit(context, "tool.call", &call.name, outcome)).await?;
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
    ) -> Result<Admission, BoardError> {
        let arguments = match &call.input {
            ToolInput::Json(arguments) => arguments.clone(),
            ToolInput::Malformed(_) => {
                return Ok(Admission::Refused(format!("arguments of {} are not valid JSON", spec.name)));
            }
        };
        let schema = without_bytes(&spec.input_schema, &context.scope);
        if let Err(problem) = self.schemas.check(&schema, &arguments) {
            return Ok(Admission::Unfit(unfit(spec, &context.scope, &problem)));
        }
        let policy =
            self.policy.get().decide(spec, context.caller.surface).max(in_granted_folder(spec, &context.scope));
        let approval = match (unsure, spec.unknown_outcome) {
            // It does nothing itself; each of its calls is then one of unknown outcome.
            (true, _) if own::batch::is_batch(spec) => policy,
            (true, UnknownOutcome::Fail) => return Ok(Admission::Refused(interrupted(spec))),
            (true, UnknownOutcome::Ask) => policy.max(Approval::Ask),
            (true, UnknownOutcome::Retry) | (false, _) => policy,
        };
        Ok(match approval {
            Approval::Allow => Admission::Granted(arguments),
            Approval::Deny => Admission::Refused(format!("{} is not allowed here by the approval policy", spec.name)),
            Approval::Ask => match self.approvals.ask(context, call, unsure) {
                Ok(asked) => match self.ask(context, call, asked, stop).await? {
                    Verdict::Approved => Admission::Granted(arguments),
                    Verdict::Withdrawn if !stop.is_cancelled() => Admission::Late,
                    Verdict::Refused | Verdict::Expired if unsure => Admission::Refused(interrupted(spec)),
                    Verdict::Refused => Admission::Refused(format!("{} was refused by the user", spec.name)),
                    Verdict::Expired => Admission::Refused(format!("nobody approved {} in time", spec.name)),
                    Verdict::Withdrawn => Admission::Refused("cancelled".to_owned()),
                },
                Err(too_many) => Admission::Refused(format!("{} cannot be approved now: {too_many}", spec.name)),
            },
        })
    }

    async fn ask(
        &self,
        context: &CallContext,
        call: &ToolCall,
        asked: Asked<'_>,
        stop: &CancellationToken,
    ) -> Result<Verdict, BoardError> {
        let approval = asked.request.approval;
        context.note(Event::ApprovalWanted(asked.request.clone()), None).await?;
        // Nobody is asked for longer than the caller waits.
        let waiting = stop.child_token();
        let patience = context.scope.parcel.as_ref().and_then(|parcel| parcel.timeout);
        let answer = asked.verdict(&waiting);
        tokio::pin!(answer);
        let (verdict, by) = tokio::select! {
            biased;
            answer = &mut answer => answer,
            () = tokio::time::sleep(patience.unwrap_or(Duration::MAX)) => {
                waiting.cancel();
                answer.await
            }
        };
        let settled = Event::ApprovalSettled { approval, approved: verdict == Verdict::Approved, by: by.clone() };
        let mut audit = self.audit(context, "approval", &call.name, verdict.word());
        audit.principal = by;
        context.note(settled, Some(audit)).await?;
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
        let (mut listening, scope) = Listening::to(context, call, spec);
        let (timeout, grace) = self.patience(spec, &scope);
        // Inside the future, so that a tool that panics before its first await is caught too: it has failed, the run
        // goes on.
        let span = trace::tool_call(&spec.name, spec.kind, &call.id);
        let work =
            async { host.call_within(context, &scope, call, arguments, call_stop).await }.instrument(span.clone());
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
                () = stop.cancelled() => ToolOutput::fault(Fault::Cancelled, "cancelled"),
                () = tokio::time::sleep(timeout.saturating_add(grace)) => {
                    let seconds = timeout.as_secs_f64();
                    ToolOutput::fault(Fault::TimedOut, format!("{} was stopped after {seconds} s", spec.name))
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
            let telling = listening.tell(said);
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
        listening.rest().await?;
        Ok(output)
    }

    /// How long the call may take, and how long its end may be waited for then. What a caller asks for is for workers;
    /// with the server's own tools nobody gets more time than the operator gives.
    fn patience(&self, spec: &ToolSpec, scope: &ToolScope) -> (Duration, Duration) {
        let asked = scope.parcel.as_ref().and_then(|parcel| parcel.timeout);
        let usual = spec.timeout.unwrap_or_else(|| self.limits.get().timeout);
        match asked {
            Some(asked) if spec.kind == WORKER_KIND => (asked, WORD_OF_WORKER),
            Some(asked) => (asked.min(usual), Duration::ZERO),
            None => (usual, Duration::ZERO),
        }
    }

    fn cap(&self, output: ToolOutput, scope: &ToolScope) -> ToolOutput {
        let size = output.content.len();
        let is_for_program = scope.parcel.as_ref().is_some_and(|parcel| !parcel.for_model);
        let most = match is_for_program {
            true => self.limits.get().output_bytes.max(PROGRAM_OUTPUT_BYTES),
            false => self.limits.get().output_bytes,
        };
        if size <= most {
            return output;
        }
        let mut end = most;
        while !output.content.is_char_boundary(end) {
            end -= 1;
        }
        let kept = output.content.get(..end).unwrap_or_default();
        let content = format!("{kept}\n[cut: {end} of {size} bytes shown]");
        ToolOutput { content: content.into(), ..output }
    }

    fn audit(&self, context: &CallContext, action: &str, subject: &Arc<str>, detail: &str) -> AuditRow {
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
fn inside(context: &CallContext) -> Cow<'_, CallContext> {
    let Some(parcel) = &context.scope.parcel else { return Cow::Borrowed(context) };
    let parcel = Parcel { binary: BTreeMap::new(), chunks: None, for_model: true, ..Parcel::clone(parcel) };
    let scope = ToolScope { parcel: Some(Arc::new(parcel)), ..context.scope.clone() };
    Cow::Owned(CallContext { scope, ..context.clone() })
}

/// In a folder beyond the configured roots a person is asked about everything that writes, where commands run unconfined.
fn in_granted_folder(spec: &ToolSpec, scope: &ToolScope) -> Approval {
    let asks = scope.folder_grant.as_ref().is_some_and(|grant| grant.asks_before_writing);
    // Each call of an agent or of a batch is judged by itself.
    let is_judged_later = policy::is_agent(spec) || own::batch::is_batch(spec);
    if asks && spec.effect == Effect::Writes && !is_judged_later { Approval::Ask } else { Approval::Allow }
}

/// Arguments that are bytes travel apart: they are there although the others do not hold them.
fn without_bytes<'a>(schema: &'a Arc<Value>, scope: &ToolScope) -> Cow<'a, Arc<Value>> {
    let apart = |name: &Value| {
        let parcel = scope.parcel.as_ref();
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
fn unfit(spec: &ToolSpec, scope: &ToolScope, problem: &SchemaProblem) -> ToolOutput {
    if scope.parcel.as_ref().is_none_or(|parcel| parcel.for_model) {
        return ToolOutput::error(format!("arguments of {} do not fit its schema: {problem}", spec.name));
    }
    let words = match &problem.parameter {
        Some((name, reason)) => format!("Invalid parameter {name}: {reason}"),
        None => format!("Invalid parameters: {problem}"),
    };
    ToolOutput::fault(Fault::Argument, words)
}

fn interrupted(spec: &ToolSpec) -> String {
    format!(
        "the server stopped while {} was running; whether it took effect is not known and it was not run again",
        spec.name
    )
}

enum Admission {
    Granted(Arc<Value>),
    Refused(String),
    /// The arguments are not what the tool takes.
    Unfit(ToolOutput),
    /// The caller's time is over, and nobody has answered.
    Late,
}
