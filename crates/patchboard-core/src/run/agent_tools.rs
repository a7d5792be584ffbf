//! Agents as tools: `agent.<name>` gives another agent a task and returns its final answer. The agent gets a run of its
//! own, on behalf of the caller: the same principal, approvals and budget.

use std::path::Path;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use futures_core::future::BoxFuture;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::starter::{AgentCall, RunStarter};
use crate::agent::{AgentSpec, AgentTable};
use crate::event::{Event, RunOutcome};
use crate::executor::{CallContext, ContextToolHost};
use crate::model::ToolCall;
use crate::port::ToolHost;
use crate::port::ToolScope;
use crate::tool::{Glob, StructuredOutput, ToolEffect, ToolKind, ToolOutput, ToolSpec, UnknownOutcomePolicy};

const NAME_PREFIX: &str = "agent.";
/// Longest `thread_id`, in characters.
const MAX_THREAD: usize = 200;
/// Added to the run's own timeout, so that its end is recorded before the call gives up.
const TIMEOUT_MARGIN: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct AgentToolHost {
    exposed: Vec<Glob>,
    specs: RwLock<Arc<[ToolSpec]>>,
    /// Set once there is one: the board offers these tools and starts the runs.
    starter: OnceLock<Arc<dyn RunStarter>>,
}

impl AgentToolHost {
    /// A single agent is not offered, unless `exposed` allows bridge clients to call it.
    pub(crate) fn new(agents: &AgentTable, exposed: &[Glob]) -> Self {
        Self { exposed: exposed.to_vec(), specs: RwLock::new(specs(agents, exposed)), starter: OnceLock::new() }
    }

    /// Replaces the agents. Runs in progress keep the tools they were offered.
    pub(crate) fn replace(&self, agents: &AgentTable) {
        *self.specs.write().unwrap_or_else(PoisonError::into_inner) = specs(agents, &self.exposed);
    }

    pub(crate) fn bind(&self, starter: Arc<dyn RunStarter>) {
        // Only one board ever offers these tools.
        let _bound = self.starter.set(starter);
    }

    async fn run_agent(
        &self,
        context: &CallContext,
        scope: &ToolScope,
        name: &str,
        arguments: &Value,
        stop: CancellationToken,
    ) -> Result<ToolOutput, String> {
        let agent = name.strip_prefix(NAME_PREFIX).ok_or_else(|| format!("unknown tool: {name}"))?;
        let starter = self.starter.get().ok_or("the server is shutting down")?;
        let (message, thread) = parse_arguments(arguments)?;
        let call = AgentCall { agent: agent.into(), message, thread };
        let started = starter.start_nested(context, call, stop).await;
        let mut nested_run = started.map_err(|refused| format!("{agent} could not begin: {refused}"))?;
        let mut failure: Option<Arc<str>> = None;
        let outcome = loop {
            let record = match nested_run.events.next().await {
                Some(Ok(record)) => record,
                Some(Err(error)) => return Err(format!("{agent} cannot be followed: {error}")),
                None => break RunOutcome::Interrupted,
            };
            match &record.event {
                Event::AnswerText(pieces) => scope.progress.send_text(pieces.text()).await,
                Event::InputRequested(_) | Event::InputProvided { .. } => {
                    scope.progress.forward_event(record.event.clone()).await;
                }
                Event::RunFailed { message } => failure = Some(message.clone()),
                Event::RunEnded { outcome } => break *outcome,
                Event::RunStarted { .. }
                | Event::RunResumed
                | Event::RunBriefed(_)
                | Event::NodeEntered { .. }
                | Event::NodeLeft(_)
                | Event::DraftText(_)
                | Event::ThoughtText(_)
                | Event::ToolArguments { .. }
                | Event::ModelCallEnded(_)
                | Event::FindingRecorded(_)
                | Event::ToolRequested(_)
                | Event::ToolStarted { .. }
                | Event::ToolProgress { .. }
                | Event::ToolFinished { .. }
                | Event::ModelUsage(_)
                | Event::Message(_) => {}
            }
        };
        match outcome {
            RunOutcome::Completed => {
                let answer = starter.final_answer(nested_run.session, nested_run.run).await;
                let answer = answer.map_err(|error| format!("{agent} answered: {error}"))?;
                let json = Bytes::from(Value::from(answer.as_str()).to_string());
                let metadata = [("run_id", nested_run.run.to_string()), ("thread_id", nested_run.thread.to_string())];
                let metadata = metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
                Ok(ToolOutput::ok(answer).with_structured(StructuredOutput {
                    json: Some(json),
                    metadata,
                    ..StructuredOutput::default()
                }))
            }
            RunOutcome::Failed => {
                Err(format!("{agent} failed: {}", failure.as_deref().unwrap_or("no reason is known")))
            }
            RunOutcome::Cancelled => Err(format!("{agent} was cancelled")),
            RunOutcome::Interrupted => Err(format!("{agent} was interrupted")),
        }
    }
}

impl ToolHost for AgentToolHost {
    fn kind(&self) -> ToolKind {
        ToolKind::Agent
    }

    fn tools(&self, _folder: Option<&Path>) -> Arc<[ToolSpec]> {
        self.specs.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn host_name<'a>(&'a self, tool: &'a ToolSpec) -> &'a str {
        tool.name.strip_prefix(NAME_PREFIX).unwrap_or(&tool.name)
    }

    fn call<'a>(
        &'a self,
        _scope: &'a ToolScope,
        call: &'a ToolCall,
        _arguments: &'a Value,
        _stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move { ToolOutput::error(format!("{} cannot be called without a caller", call.name)) })
    }
}

impl ContextToolHost for AgentToolHost {
    fn call_with_context<'a>(
        &'a self,
        context: &'a CallContext,
        scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            self.run_agent(context, scope, &call.name, arguments, stop).await.unwrap_or_else(ToolOutput::error)
        })
    }
}

fn specs(agents: &AgentTable, exposed: &[Glob]) -> Arc<[ToolSpec]> {
    let specs = agents.all().iter().map(|agent| spec(agent));
    let is_offered = |spec: &ToolSpec| agents.all().len() > 1 || exposed.iter().any(|glob| glob.matches(&spec.name));
    specs.filter(is_offered).collect()
}

/// The message, and the conversation if one is given.
fn parse_arguments(arguments: &Value) -> Result<(Arc<str>, Option<Arc<str>>), String> {
    let message = arguments.get("message").and_then(Value::as_str).ok_or("`message` must be a text")?;
    if message.trim().is_empty() {
        return Err("`message` must not be empty".to_owned());
    }
    let thread = match arguments.get("thread_id") {
        None | Some(Value::Null) => None,
        Some(Value::String(thread)) if !thread.trim().is_empty() && thread.chars().count() <= MAX_THREAD => {
            Some(thread.as_str().into())
        }
        Some(_) => return Err(format!("`thread_id` must be a text of 1 to {MAX_THREAD} characters")),
    };
    Ok((message.into(), thread))
}

fn spec(agent: &AgentSpec) -> ToolSpec {
    let name = &agent.name;
    let about = agent.description.as_ref().map(|description| format!(" About it: {description}.")).unwrap_or_default();
    let description = format!(
        "Give the agent `{name}` a task and get its answer.{about} It knows nothing of this conversation, so tell it \
         all it needs. To go on with it later, give the conversation a `thread_id` of your own choice and use it again."
    );
    let schema = json!({
        "type": "object",
        "properties": {
            "message": {"type": "string", "minLength": 1, "description": "What to do, in full."},
            "thread_id": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_THREAD,
                "description": "A conversation with it; a new one when left out."
            }
        },
        "required": ["message"],
        "additionalProperties": false
    });
    ToolSpec {
        name: format!("{NAME_PREFIX}{name}").into(),
        description: description.into(),
        input_schema: Arc::new(schema),
        // The agent can do as much as its own tool calls, each of which is approved by itself.
        effect: ToolEffect::Writes,
        unknown_outcome: UnknownOutcomePolicy::Ask,
        timeout: Some(agent.run_timeout.saturating_add(TIMEOUT_MARGIN)),
        kind: ToolKind::Agent,
        traits: None,
    }
}

#[cfg(test)]
mod tests;
