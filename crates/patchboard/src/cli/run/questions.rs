//! The queue of approval questions for the person at the terminal, asked one after the other.

use std::collections::VecDeque;

use crate::output::{one_line, plain};

/// Queued questions; past this limit a question must be answered by another client.
const MAX_QUESTIONS: usize = 64;

#[derive(Debug, Default)]
pub(in crate::cli) struct QuestionQueue(VecDeque<ApprovalQuestion>);

#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) struct ApprovalQuestion {
    /// The server's id of the approval.
    pub(in crate::cli) id: String,
    /// The id of the tool call.
    pub(in crate::cli) call: String,
    pub(in crate::cli) prompt: String,
}

/// The outcome of adding a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum EnqueueOutcome {
    Current,
    Queued,
    /// The queue is full: another client must answer.
    Full,
}

/// The text of a question. `what`: the tool with its arguments. `reason`: set if there is one beyond the policy.
pub(in crate::cli) fn prompt_text(what: &str, reason: Option<&str>) -> String {
    let what = one_line(what);
    match reason {
        Some(reason) => format!("{}\nRun {what} once more? [y/N] ", plain(reason)),
        None => format!("Allow {what}? [y/N] "),
    }
}

pub(in crate::cli) fn is_yes(line: &str) -> bool {
    matches!(line.trim(), "y" | "Y" | "yes" | "Yes")
}

impl QuestionQueue {
    pub(in crate::cli) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(in crate::cli) fn add(&mut self, question: ApprovalQuestion) -> EnqueueOutcome {
        match self.0.len() {
            0 => {
                self.0.push_back(question);
                EnqueueOutcome::Current
            }
            waiting if waiting < MAX_QUESTIONS => {
                self.0.push_back(question);
                EnqueueOutcome::Queued
            }
            _ => EnqueueOutcome::Full,
        }
    }

    /// The question being asked.
    pub(in crate::cli) fn current(&self) -> Option<&ApprovalQuestion> {
        self.0.front()
    }

    /// Removes the question that was answered here.
    pub(in crate::cli) fn pop(&mut self) -> Option<ApprovalQuestion> {
        self.0.pop_front()
    }

    /// Removes a call's question, as it was answered by another client or expired. Returns whether it was being asked.
    pub(in crate::cli) fn remove_call(&mut self, call: &str) -> bool {
        let was_asked = self.0.front().is_some_and(|question| question.call == call);
        self.0.retain(|question| question.call != call);
        was_asked
    }
}

#[cfg(test)]
mod tests;
