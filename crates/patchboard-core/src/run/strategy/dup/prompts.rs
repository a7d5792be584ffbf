//! Prompts of dup.

use std::sync::Arc;

use super::Understanding;
use crate::run::strategy::prompt_text::fence;

pub(super) const UNDERSTAND: &str = "\
Do not answer yet. First make sure the request above is understood.
1. Find its core question: the one thing that has to be found out or done, stated completely and in detail.
2. Then pick out the information that matters for this core question: every given fact, figure and condition, one by one.
3. Note what else has to be known to answer well, such as what was said before.
Reply with one JSON object and nothing else:
{\"core_goal\": \"…\", \"key_constraints\": [\"…\", \"…\"], \"relevant_context\": \"…\"}";

/// Appended to the user's message in every request after `understand`.
pub(super) fn hint(understood: &Understanding) -> String {
    let mut notes = Vec::new();
    if !understood.goal.is_empty() {
        notes.push(format!("Core question: {}", understood.goal));
    }
    if !understood.constraints.is_empty() {
        let lines: Vec<String> = understood.constraints.iter().map(|line: &Arc<str>| format!("- {line}")).collect();
        notes.push(format!("Key information:\n{}", lines.join("\n")));
    }
    if !understood.context.is_empty() {
        notes.push(format!("Context: {}", understood.context));
    }
    let notes = fence("understanding", None, &notes.join("\n"), usize::MAX);
    format!(
        "Your own notes on this request:\n{notes}\n\
         Keep the notes and the request in mind together; where they differ, the request is right. Work it out step \
         by step, use tools where they help, and give the answer to the core question."
    )
}
