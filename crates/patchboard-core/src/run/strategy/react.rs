//! React: ask the model; run the tools it calls, side by side; feed the results back; until it only talks.

use super::{AskId, Brief, Completion, Finish, Input, Step, Strategy, ToolUse};
use crate::model::{Message, Part, Role, ToolCall, ToolResult};
use crate::tool::ToolOutput;

#[derive(Debug)]
pub(super) struct React {
    history: Vec<Message>,
    transcript: Vec<Message>,
    /// The calls of the latest answer, each with its result once it is there.
    open: Vec<(ToolCall, Option<ToolOutput>)>,
    asked: u32,
    max_model_calls: u32,
}

impl React {
    pub(super) fn new(brief: Brief) -> Self {
        Self {
            history: brief.history,
            transcript: vec![brief.user],
            open: Vec::new(),
            asked: 0,
            max_model_calls: brief.max_model_calls,
        }
    }

    fn ask(&mut self, steps: &mut Vec<Step>) {
        if self.asked >= self.max_model_calls {
            steps.push(Step::Finish(Finish::Failed("tool-use loop exceeded max iterations".to_owned())));
            return;
        }
        self.asked += 1;
        let messages = self.history.iter().chain(&self.transcript).cloned().collect();
        steps.push(Step::AskModel { ask: AskId(self.asked), messages, tools: ToolUse::Offered });
    }

    fn answered(&mut self, completion: Completion, steps: &mut Vec<Step>) {
        let mut parts = Vec::with_capacity(completion.calls.len() + 1);
        if !completion.text.is_empty() {
            parts.push(Part::Text(completion.text.into()));
        }
        parts.extend(completion.calls.iter().cloned().map(Part::ToolCall));
        if !parts.is_empty() {
            self.transcript.push(Message { role: Role::Assistant, parts });
        }
        if completion.calls.is_empty() {
            steps.push(Step::Finish(Finish::Completed));
            return;
        }
        steps.extend(completion.calls.iter().cloned().map(Step::CallTool));
        self.open = completion.calls.into_iter().map(|call| (call, None)).collect();
    }

    fn tool_finished(&mut self, call: &crate::id::CallId, output: ToolOutput, steps: &mut Vec<Step>) {
        if let Some((_, slot)) = self.open.iter_mut().find(|(open, _)| open.id == *call) {
            *slot = Some(output);
        }
        if self.open.iter().any(|(_, output)| output.is_none()) {
            return;
        }
        // Results in the order of the calls, whatever the order they came in.
        let results = self.open.drain(..).filter_map(|(call, output)| {
            let output = output?;
            let ToolOutput { content, is_error } = output;
            Some(Part::ToolResult(ToolResult { call: call.id, name: call.name, content, is_error }))
        });
        let message = Message { role: Role::User, parts: results.collect() };
        self.transcript.push(message);
        self.ask(steps);
    }
}

impl Strategy for React {
    fn advance(&mut self, input: Input, steps: &mut Vec<Step>) {
        match input {
            Input::Begin => self.ask(steps),
            Input::ModelAnswered { completion, .. } => self.answered(completion, steps),
            Input::ModelFailed { error, .. } => {
                steps.push(Step::Finish(Finish::Failed(format!("provider error: {error}"))));
            }
            Input::ToolFinished { call, output } => self.tool_finished(&call, output, steps),
        }
    }

    fn transcript(&self) -> &[Message] {
        &self.transcript
    }
}

#[cfg(test)]
mod tests;
