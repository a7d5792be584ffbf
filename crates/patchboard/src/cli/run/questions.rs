//! Tool calls that wait for the person at the terminal, asked about one after the other.

use std::collections::VecDeque;

use crate::output::{one_line, plain};

/// Questions that may wait to be asked; answers to further ones must come from elsewhere.
const MAX_QUESTIONS: usize = 64;

#[derive(Debug, Default)]
pub(in crate::cli) struct QuestionQueue(VecDeque<ApprovalQuestion>);

#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) struct ApprovalQuestion {
    /// How the server knows it.
    pub(in crate::cli) id: String,
    /// The call it is about.
    pub(in crate::cli) call: String,
    pub(in crate::cli) prompt: String,
}

/// What became of a new question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum EnqueueOutcome {
    Current,
    Queued,
    /// Too many wait: somebody else must answer it.
    Full,
}

/// The words of a question. `what`: the tool with its arguments. `reason`: why it is asked, where that is more than the policy.
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

    /// The one that is asked now.
    pub(in crate::cli) fn current(&self) -> Option<&ApprovalQuestion> {
        self.0.front()
    }

    /// It was answered here.
    pub(in crate::cli) fn pop(&mut self) -> Option<ApprovalQuestion> {
        self.0.pop_front()
    }

    /// A call has its result: somebody else has answered, or nobody has in time. Whether it was the one asked now.
    pub(in crate::cli) fn remove_call(&mut self, call: &str) -> bool {
        let was_asked = self.0.front().is_some_and(|question| question.call == call);
        self.0.retain(|question| question.call != call);
        was_asked
    }
}

#[cfg(test)]
mod tests;
