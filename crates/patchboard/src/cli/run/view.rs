//! What a person sees of a run: the reply on standard output, exactly once; everything else on standard error.
//!
//! Pure: events in, words out. On a terminal the reply appears as it is written, laid out; where it is read by a program it
//! comes whole at the end and as it is, without what the agent said on the way.

use std::time::Duration;

use serde_json::Value;

use super::event::{Event, Happening};
use super::page::{Page, number, time};
use super::tasks::Tasks;
use super::thoughts::Thoughts;
use crate::cli::markdown::Look;
use crate::cli::output::plain;
use crate::client::runs::{RunEnd, Usage};

/// Nodes whose words are for the user. What others write is a draft: plans, candidates, votes, results of tasks.
const SPEAKING: [&str; 4] = ["think", "plan", "answer", "aggregate"];
/// Nodes in which nothing can be seen to happen.
const SILENT: [&str; 2] = ["observe", "compress"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Reply {
    /// Standard output is a terminal.
    AsItComes,
    AtTheEnd,
}

/// What is told beside the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Asides {
    /// Standard error is not a terminal: only what it cost.
    None,
    /// A line for everything that happens.
    Lines,
    /// The same, and a picture of searches and graphs, drawn in its place.
    Pictures,
}

#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) enum Say {
    /// Words for standard output.
    Words(String),
    /// A line for standard error, of little weight.
    Aside(String),
    /// A line for standard error.
    Line(String),
    /// What the block at the end of the screen shows now.
    Picture(Vec<String>),
}

pub(super) struct View {
    reply: Reply,
    page: Page,
    /// The node whose words are being written, and the words.
    speaking: Option<(String, String)>,
    /// The node entered last, of those seen from their beginning.
    entered: Option<String>,
    picture: Option<Picture>,
}

enum Picture {
    Thoughts(Thoughts),
    Tasks(Tasks),
}

impl View {
    pub(super) fn new(reply: Reply, asides: Asides, look: Look) -> Self {
        Self { reply, page: Page::new(reply, asides, look), speaking: None, entered: None, picture: None }
    }

    pub(super) fn resize(&mut self, columns: usize) {
        self.page.resize(columns);
    }

    /// Time goes on.
    pub(super) fn tick(&mut self, elapsed: Duration) -> Vec<Say> {
        self.page.tick(elapsed)
    }

    pub(super) fn event(&mut self, event: &Event) -> Vec<Say> {
        let mut said = Vec::new();
        match &event.what {
            Happening::NodeEnter { id } => {
                self.entered = Some(event.node_id.clone());
                if !SILENT.contains(&id.as_str()) {
                    self.page.doing(id, &mut said);
                }
            }
            Happening::NodeExit { id, result } => self.leave(event, id, result, &mut said),
            Happening::MessageChunk { content, id } => self.words(event, id, content, &mut said),
            Happening::ThoughtChunk { content, id } => self.page.thought(id, content, &mut said),
            Happening::ToolCallChunk { arguments_delta } => self.page.arguments(arguments_delta),
            Happening::Usage { total_tokens } => self.page.used(*total_tokens),
            Happening::ToolCall { call_id, name, arguments } => {
                let words = format!("{name} {}", shown(arguments));
                self.page.call(call_id.as_deref().unwrap_or(name), words.trim_end(), &mut said);
            }
            Happening::ToolEnd { call_id, name, result, is_error } => {
                self.page.result(call_id.as_deref().unwrap_or(name), name, result, *is_error, &mut said);
            }
            Happening::TotExpand { candidates } => self.thoughts(&mut said, |tree| tree.expanded(candidates)),
            Happening::TotEvaluate { chosen, scores } => {
                self.thoughts(&mut said, |tree| tree.evaluated(*chosen, scores));
            }
            Happening::TotBacktrack { reason, to_depth } => {
                self.thoughts(&mut said, |tree| tree.backtracked(reason, *to_depth));
            }
            Happening::GotPlan { node_ids } => self.tasks(&mut said, |tasks| tasks.planned(node_ids)),
            Happening::GotNodeStart { id } => self.tasks(&mut said, |tasks| tasks.started(id)),
            Happening::GotNodeComplete { id } => self.tasks(&mut said, |tasks| tasks.completed(id)),
            Happening::GotNodeFailed { id, error } => self.tasks(&mut said, |tasks| tasks.failed(id, error)),
            Happening::Values { state } => self.state(state, &mut said),
            Happening::ToolApproval { .. } | Happening::Custom { .. } | Happening::Other => {}
        }
        said
    }

    /// The reply, unless it stands there already, and what it took.
    pub(super) fn ended(&mut self, end: &RunEnd) -> Vec<Say> {
        let mut said = Vec::new();
        let (node, spoken) = self.speaking.take().unwrap_or_default();
        let is_end = !spoken.is_empty() && end.reply.ends_with(&spoken);
        match self.reply {
            // Joined in the middle of the reply, its end is all that was asked for.
            Reply::AsItComes if is_end => {}
            Reply::AsItComes => {
                self.page.end_words(&mut said);
                self.page.words(&end.reply, &mut said);
            }
            Reply::AtTheEnd => {
                // What was said before tools were called is a part of the reply, and not of what a program asked for.
                let is_last = is_end && self.entered.as_deref() == Some(&*node);
                let words = plain(if is_last { &spoken } else { &end.reply });
                self.page.pause(&mut said);
                if !words.is_empty() {
                    let line_end = if words.ends_with('\n') { "" } else { "\n" };
                    said.push(Say::Words(format!("{words}{line_end}")));
                }
            }
        }
        self.page.pause(&mut said);
        if let Some(Usage { prompt_tokens, completion_tokens, .. }) = end.total_usage {
            let mut took = format!("{} tokens in, {} out", number(prompt_tokens), number(completion_tokens));
            if self.page.elapsed() > Duration::ZERO {
                took.push_str(&format!(" · {}", time(self.page.elapsed())));
            }
            said.push(Say::Aside(took));
        }
        said
    }

    /// Standard output is left at the beginning of a line, and the picture as it is.
    pub(super) fn pause(&mut self) -> Vec<Say> {
        let mut said = Vec::new();
        self.page.pause(&mut said);
        said
    }

    fn leave(&mut self, event: &Event, name: &str, result: &Value, said: &mut Vec<Say>) {
        if let Some(problem) = result.get("Err").and_then(Value::as_str) {
            self.page.note(&format!("{name} failed: {problem}"), said);
            // Half an answer is no answer: it is asked for again, or the run fails.
            if self.speaking.take_if(|(node, _)| *node == event.node_id).is_some() {
                self.page.end_words(said);
            }
        }
    }

    fn words(&mut self, event: &Event, name: &str, content: &str, said: &mut Vec<Say>) {
        let begins = self.speaking.as_ref().is_none_or(|(node, words)| *node != event.node_id || words.is_empty());
        // The space between two paragraphs of the reply: here they stand on lines of their own anyway.
        let content = if begins { content.trim_start_matches('\n') } else { content };
        if !SPEAKING.contains(&name) || content.is_empty() {
            return;
        }
        if begins {
            self.page.end_words(said);
            self.speaking = Some((event.node_id.clone(), String::new()));
        }
        if let Some((_, words)) = &mut self.speaking {
            words.push_str(content);
        }
        self.page.words(content, said);
    }

    fn state(&mut self, state: &Value, said: &mut Vec<Say>) {
        match &mut self.picture {
            Some(Picture::Thoughts(thoughts)) => {
                let depth = state.get("tot").and_then(|tot| tot.get("depth")).and_then(Value::as_u64);
                thoughts.place(depth.and_then(|depth| usize::try_from(depth).ok()));
            }
            Some(Picture::Tasks(tasks)) => tasks.read(state),
            None => return,
        }
        self.draw(said);
    }

    fn thoughts(&mut self, said: &mut Vec<Say>, change: impl FnOnce(&mut Thoughts)) {
        if !matches!(self.picture, Some(Picture::Thoughts(_))) {
            self.picture = Some(Picture::Thoughts(Thoughts::default()));
        }
        if let Some(Picture::Thoughts(thoughts)) = &mut self.picture {
            change(thoughts);
        }
        self.draw(said);
    }

    fn tasks(&mut self, said: &mut Vec<Say>, change: impl FnOnce(&mut Tasks)) {
        if !matches!(self.picture, Some(Picture::Tasks(_))) {
            self.picture = Some(Picture::Tasks(Tasks::default()));
        }
        if let Some(Picture::Tasks(tasks)) = &mut self.picture {
            change(tasks);
        }
        self.draw(said);
    }

    fn draw(&mut self, said: &mut Vec<Say>) {
        let lines = match &self.picture {
            Some(Picture::Thoughts(thoughts)) => thoughts.lines(),
            Some(Picture::Tasks(tasks)) => tasks.lines(),
            None => return,
        };
        self.page.picture(lines, said);
    }
}

/// Arguments as JSON on one line.
pub(in crate::cli) fn shown(arguments: &Value) -> String {
    if arguments.is_null() { String::new() } else { arguments.to_string() }
}

#[cfg(test)]
mod tests;
