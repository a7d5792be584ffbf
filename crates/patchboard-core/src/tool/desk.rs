//! The one path of every tool call, whoever asks:
//! authorise → approve → record intent → execute → record result.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::policy::{Approval, ApprovalPolicy};
use super::registry::Offer;
use super::voice::Listening;
use super::{Effect, ToolOutput, ToolScope, ToolSpec, UnknownOutcome, own};
use crate::access::Caller;
use crate::approval::{ApprovalDesk, Asked, Verdict};
use crate::error::BoardError;
use crate::event::{Entry, Event};
use crate::id::{CallId, NodeId, RunId};
use crate::log::TopicWriter;
use crate::model::{ToolCall, ToolInput};
use crate::port::{AuditRow, Batch, Clock, Durability, SchemaCheck, Store, ToolHost, Write};

/// Bounds of one call.
#[derive(Debug, Clone, Copy)]
pub struct ToolLimits {
    /// A call that takes longer is stopped and answered with an error.
    pub timeout: Duration,
    /// A longer output is cut, with a mark that says how much is missing.
    pub output_bytes: usize,
}

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
    pub policy: ApprovalPolicy,
    pub approvals: Arc<ApprovalDesk>,
    pub schemas: Arc<dyn SchemaCheck>,
    pub clock: Arc<dyn Clock>,
    pub limits: ToolLimits,
}

/// On whose behalf, in which run, with which tools.
#[derive(Debug, Clone)]
pub struct CallContext {
    pub caller: Caller,
    pub run: RunId,
    pub scope: ToolScope,
    pub offer: Offer,
    /// The node that calls, in a run that tells of its nodes.
    pub node: Option<NodeId>,
    pub record: Record,
}

/// Where calls are recorded. The audit trail has every one of them.
#[derive(Debug, Clone)]
pub enum Record {
    /// In the log of their run.
    Run { writer: Arc<TopicWriter>, told: bool },
    /// Calls outside of any run are in the audit trail only.
    Audit(Arc<dyn Store>),
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
        }
    }

    async fn audit_only(&self, audit: AuditRow) -> Result<(), BoardError> {
        let writes = vec![Write::Audit(audit)];
        match &self.record {
            Record::Run { writer, .. } => writer.append(Vec::<Entry>::new(), writes, Durability::Boundary).await,
            Record::Audit(store) => Ok(store.commit(Batch { durability: Durability::Boundary, writes }).await?),
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
                    Admission::Granted(arguments) if own::batch::is_batch(spec) => {
                        self.batch(context, call, &arguments, unsure, stop).await?
                    }
                    Admission::Granted(arguments) => self.execute(context, call, spec, host, &arguments, stop).await?,
                },
            };
            let output = self.cap(output);
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
        arguments: &serde_json::Value,
        unsure: bool,
        stop: &CancellationToken,
    ) -> Result<ToolOutput, BoardError> {
        let calls = match own::batch::parse(arguments) {
            Ok(calls) => calls,
            Err(problem) => return Ok(ToolOutput::error(problem)),
        };
        let one = |(number, (name, arguments)): (usize, (Arc<str>, Arc<serde_json::Value>))| async move {
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
        if let Err(problem) = self.schemas.check(&spec.input_schema, &arguments) {
            return Ok(Admission::Refused(format!("arguments of {} do not fit its schema: {problem}", spec.name)));
        }
        let policy = self.policy.decide(spec, context.caller.surface);
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
            Approval::Ask => match self.approvals.ask(context, call) {
                Ok(asked) => match self.ask(context, call, asked, stop).await? {
                    Verdict::Approved => Admission::Granted(arguments),
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
        let (verdict, by) = asked.verdict(stop).await;
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
        arguments: &serde_json::Value,
        stop: &CancellationToken,
    ) -> Result<ToolOutput, BoardError> {
        if stop.is_cancelled() {
            return Ok(ToolOutput::error("cancelled"));
        }
        // However the call ends, a timeout included, the tool hears that nobody waits for it any more.
        let call_stop = stop.child_token();
        let _over = call_stop.clone().drop_guard();
        let (mut listening, scope) = Listening::to(context, call);
        let timeout = spec.timeout.unwrap_or(self.limits.timeout);
        // Inside the future, so that a tool that panics before its first await is caught too: it has failed, the run
        // goes on.
        let work = AssertUnwindSafe(async { host.call(&scope, call, arguments, call_stop).await }).catch_unwind();
        // When this is done the tool is gone, whatever is still to be recorded.
        let ending = async {
            tokio::select! {
                // What a tool has done is told even when the run ends in the same moment.
                biased;
                done = work => done.unwrap_or_else(|_| {
                    tracing::error!(tool.name = %spec.name, "tool panicked");
                    ToolOutput::error(format!("{} failed inside", spec.name))
                }),
                () = stop.cancelled() => ToolOutput::error("cancelled"),
                () = tokio::time::sleep(timeout) => {
                    ToolOutput::error(format!("{} was stopped after {} s", spec.name, timeout.as_secs()))
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
        listening.rest().await?;
        Ok(output)
    }

    fn cap(&self, output: ToolOutput) -> ToolOutput {
        let size = output.content.len();
        if size <= self.limits.output_bytes {
            return output;
        }
        let mut end = self.limits.output_bytes;
        while !output.content.is_char_boundary(end) {
            end -= 1;
        }
        let kept = output.content.get(..end).unwrap_or_default();
        let content = format!("{kept}\n[cut: {end} of {size} bytes shown]");
        ToolOutput { content: content.into(), is_error: output.is_error }
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

fn interrupted(spec: &ToolSpec) -> String {
    format!(
        "the server stopped while {} was running; whether it took effect is not known and it was not run again",
        spec.name
    )
}

enum Admission {
    Granted(Arc<serde_json::Value>),
    Refused(String),
}
