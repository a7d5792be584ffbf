//! The one path of every tool call, whoever asks:
//! authorise → approve → record intent → execute → record result.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::policy::{Approval, ApprovalPolicy};
use super::registry::Offer;
use super::{ToolOutput, ToolSpec};
use crate::access::Caller;
use crate::approval::{ApprovalDesk, Asked, Verdict};
use crate::error::BoardError;
use crate::event::Event;
use crate::id::{CallId, RunId, SessionKey};
use crate::log::TopicWriter;
use crate::model::{ToolCall, ToolInput};
use crate::port::{AuditRow, Clock, Durability, SchemaCheck, Write};

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
pub struct Intent(ToolCall);

impl Intent {
    pub fn call_id(&self) -> &CallId {
        &self.0.id
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
    pub session: SessionKey,
    pub offer: Offer,
    pub writer: Arc<TopicWriter>,
}

impl ToolDesk {
    /// The intent to make a call. Its event has to be on record before `call` takes it; for a tool with effects, with
    /// `Boundary` durability. Without effects there is nothing to reconstruct after a power cut.
    pub fn intend(call: ToolCall) -> (Event, Intent) {
        (Event::ToolRequested(call.clone()), Intent(call))
    }

    /// Runs one call to its recorded result. A tool's failure is an output; only a store that cannot record is an error.
    pub async fn call(
        &self,
        context: &CallContext,
        intent: &Intent,
        stop: &CancellationToken,
    ) -> Result<ToolOutput, BoardError> {
        let call = &intent.0;
        let started = tokio::time::Instant::now();
        let found = context.offer.find(&call.name);
        let kind = found.map_or("unknown", |(spec, _)| spec.kind);
        let output = match found {
            None => ToolOutput::error(format!("unknown tool: {}", call.name)),
            Some((spec, host)) => match self.admit(context, spec, call, stop).await? {
                Admission::Refused(reason) => ToolOutput::error(reason),
                Admission::Granted(arguments) => {
                    // However the call ends, a timeout included, the tool hears that nobody waits for it any more.
                    let call_stop = stop.child_token();
                    let _over = call_stop.clone().drop_guard();
                    // Inside the future, so that a tool that panics before its first await is caught too.
                    let work = async { host.call(&context.session, call, &arguments, call_stop).await };
                    self.execute(spec, work, stop).await
                }
            },
        };
        let output = self.cap(output);
        let outcome = if output.is_error { "error" } else { "ok" };
        crate::telemetry::tool_call(kind, outcome, started.elapsed());
        let audit = self.audit(context, "tool.call", &call.name, outcome);
        let finished = Event::ToolFinished { call: call.id.clone(), output: output.clone() };
        context.writer.append(vec![finished], vec![Write::Audit(audit)], Durability::Boundary).await?;
        Ok(output)
    }

    /// Arguments, then policy, then, if it says so, a person.
    async fn admit(
        &self,
        context: &CallContext,
        spec: &ToolSpec,
        call: &ToolCall,
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
        Ok(match self.policy.decide(spec, context.caller.surface) {
            Approval::Allow => Admission::Granted(arguments),
            Approval::Deny => Admission::Refused(format!("{} is not allowed here by the approval policy", spec.name)),
            Approval::Ask => match self.approvals.ask(context, call) {
                Ok(asked) => match self.ask(context, call, asked, stop).await? {
                    Verdict::Approved => Admission::Granted(arguments),
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
        let wanted = Event::ApprovalWanted(asked.request.clone());
        context.writer.append(vec![wanted], vec![], Durability::Boundary).await?;
        let (verdict, by) = asked.verdict(stop).await;
        let settled = Event::ApprovalSettled { approval, approved: verdict == Verdict::Approved, by: by.clone() };
        let mut audit = self.audit(context, "approval", &call.name, verdict.word());
        audit.principal = by;
        context.writer.append(vec![settled], vec![Write::Audit(audit)], Durability::Boundary).await?;
        Ok(verdict)
    }

    async fn execute(
        &self,
        spec: &ToolSpec,
        work: impl Future<Output = ToolOutput>,
        stop: &CancellationToken,
    ) -> ToolOutput {
        if stop.is_cancelled() {
            return ToolOutput::error("cancelled");
        }
        // A tool that panics has failed; the run goes on.
        let work = std::panic::AssertUnwindSafe(work).catch_unwind();
        tokio::select! {
            // What a tool has done is told even when the run ends in the same moment.
            biased;
            done = work => done.unwrap_or_else(|_| {
                tracing::error!(tool.name = %spec.name, "tool panicked");
                ToolOutput::error(format!("{} failed inside", spec.name))
            }),
            () = tokio::time::sleep(self.limits.timeout) => {
                ToolOutput::error(format!("{} was stopped after {} s", spec.name, self.limits.timeout.as_secs()))
            }
            () = stop.cancelled() => ToolOutput::error("cancelled"),
        }
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

enum Admission {
    Granted(Arc<serde_json::Value>),
    Refused(String),
}
