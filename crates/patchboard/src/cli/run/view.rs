//! The view of a run: the reply on standard output, exactly once; everything else on standard error.
//!
//! Pure: events in, display updates out. On a terminal the reply is laid out and shown as it is streamed. Read by a
//! program it is written unchanged at the end, without the text that came before tool calls.

use std::time::Duration;

use serde_json::Value;

use super::event::{RunEvent, RunEventKind};
use super::live_display::{LiveDisplay, format_count, format_elapsed};
use super::tasks::TaskGraph;
use super::thoughts::ThoughtTree;
use crate::cli::markdown::MarkdownLayout;
use crate::client::runs::{RunEnd, TokenUsage};
use crate::output::plain;

/// Nodes whose text is the reply. Other nodes write drafts: plans, candidates, votes, task results.
const REPLY_NODES: [&str; 4] = ["think", "plan", "answer", "aggregate"];
/// Nodes without visible activity.
const QUIET_NODES: [&str; 2] = ["observe", "compress"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum ReplyTiming {
    /// Standard output is a terminal.
    Streamed,
    AtEnd,
}

/// What is shown besides the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum ProgressDisplay {
    /// Standard error is not a terminal: only the token counts.
    None,
    /// One line per event.
    Lines,
    /// Also a diagram of searches and graphs, redrawn in place.
    Live,
}

#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) enum DisplayUpdate {
    /// Text for standard output.
    Text(String),
    /// A line for standard error, painted faint.
    DimLine(String),
    /// A line for standard error.
    Line(String),
    /// The current content of the block at the end of the screen.
    LiveBlock(Vec<String>),
}

pub(super) struct RunView {
    reply: ReplyTiming,
    display: LiveDisplay,
    /// The node that writes the reply, and its text so far.
    reply_node: Option<(String, String)>,
    /// The last entered node of those seen from their beginning.
    last_entered: Option<String>,
    diagram: Option<ProgressDiagram>,
}

enum ProgressDiagram {
    Thoughts(ThoughtTree),
    Tasks(TaskGraph),
}

impl RunView {
    pub(super) fn new(reply: ReplyTiming, progress: ProgressDisplay, layout: MarkdownLayout) -> Self {
        Self {
            reply,
            display: LiveDisplay::new(reply, progress, layout),
            reply_node: None,
            last_entered: None,
            diagram: None,
        }
    }

    pub(super) fn resize(&mut self, columns: usize) {
        self.display.resize(columns);
    }

    /// Updates the elapsed time and redraws.
    pub(super) fn tick(&mut self, elapsed: Duration) -> Vec<DisplayUpdate> {
        self.display.tick(elapsed)
    }

    pub(super) fn event(&mut self, event: &RunEvent) -> Vec<DisplayUpdate> {
        let mut updates = Vec::new();
        match &event.kind {
            RunEventKind::NodeEnter { id } => {
                self.last_entered = Some(event.node_id.clone());
                if !QUIET_NODES.contains(&id.as_str()) {
                    self.display.set_activity(id, &mut updates);
                }
            }
            RunEventKind::NodeExit { id, result } => self.node_exited(event, id, result, &mut updates),
            RunEventKind::MessageChunk { content, id } => self.push_reply(event, id, content, &mut updates),
            RunEventKind::ThoughtChunk { content, id } => self.display.push_thought(id, content, &mut updates),
            RunEventKind::ToolCallChunk { arguments_delta } => self.display.count_arguments(arguments_delta),
            RunEventKind::Usage { total_tokens } => self.display.add_tokens(*total_tokens),
            RunEventKind::ToolCall { call_id, name, arguments } => {
                let call = format!("{name} {}", arguments_text(arguments));
                self.display.call(call_id.as_deref().unwrap_or(name), call.trim_end(), &mut updates);
            }
            RunEventKind::ToolEnd { call_id, name, result, is_error } => {
                self.display.result(call_id.as_deref().unwrap_or(name), name, result, *is_error, &mut updates);
            }
            RunEventKind::TotExpand { candidates } => self.thoughts(&mut updates, |tree| tree.expanded(candidates)),
            RunEventKind::TotEvaluate { chosen, scores } => {
                self.thoughts(&mut updates, |tree| tree.evaluated(*chosen, scores));
            }
            RunEventKind::TotBacktrack { reason, to_depth } => {
                self.thoughts(&mut updates, |tree| tree.backtracked(reason, *to_depth));
            }
            RunEventKind::GotPlan { node_ids } => self.tasks(&mut updates, |tasks| tasks.planned(node_ids)),
            RunEventKind::GotNodeStart { id } => self.tasks(&mut updates, |tasks| tasks.started(id)),
            RunEventKind::GotNodeComplete { id } => self.tasks(&mut updates, |tasks| tasks.completed(id)),
            RunEventKind::GotNodeFailed { id, error } => self.tasks(&mut updates, |tasks| tasks.failed(id, error)),
            RunEventKind::Values { state } => self.state(state, &mut updates),
            RunEventKind::ToolApproval { .. } | RunEventKind::Custom { .. } | RunEventKind::Other => {}
        }
        updates
    }

    /// Shows the reply unless it was streamed already, and the token counts.
    pub(super) fn ended(&mut self, end: &RunEnd) -> Vec<DisplayUpdate> {
        let mut updates = Vec::new();
        let (node, streamed) = self.reply_node.take().unwrap_or_default();
        let is_end = !streamed.is_empty() && end.reply.ends_with(&streamed);
        match self.reply {
            // After attaching in the middle of the reply only its end is shown.
            ReplyTiming::Streamed if is_end => {}
            ReplyTiming::Streamed => {
                self.display.finish_reply(&mut updates);
                self.display.push_reply(&end.reply, &mut updates);
            }
            ReplyTiming::AtEnd => {
                // Text before tool calls is part of the reply, but not of what a program expects as the result.
                let is_last = is_end && self.last_entered.as_deref() == Some(&*node);
                let text = plain(if is_last { &streamed } else { &end.reply });
                self.display.pause(&mut updates);
                if !text.is_empty() {
                    let line_end = if text.ends_with('\n') { "" } else { "\n" };
                    updates.push(DisplayUpdate::Text(format!("{text}{line_end}")));
                }
            }
        }
        self.display.pause(&mut updates);
        if let Some(TokenUsage { prompt_tokens, completion_tokens, .. }) = end.total_usage {
            let mut took =
                format!("{} tokens in, {} out", format_count(prompt_tokens), format_count(completion_tokens));
            if self.display.elapsed() > Duration::ZERO {
                took.push_str(&format!(" · {}", format_elapsed(self.display.elapsed())));
            }
            updates.push(DisplayUpdate::DimLine(took));
        }
        updates
    }

    /// Ends an open line of standard output and leaves the diagram.
    pub(super) fn pause(&mut self) -> Vec<DisplayUpdate> {
        let mut updates = Vec::new();
        self.display.pause(&mut updates);
        updates
    }

    fn node_exited(&mut self, event: &RunEvent, name: &str, result: &Value, updates: &mut Vec<DisplayUpdate>) {
        if let Some(problem) = result.get("Err").and_then(Value::as_str) {
            self.display.note(&format!("{name} failed: {problem}"), updates);
            // A partial reply is dropped: the node is repeated, or the run fails.
            if self.reply_node.take_if(|(node, _)| *node == event.node_id).is_some() {
                self.display.finish_reply(updates);
            }
        }
    }

    fn push_reply(&mut self, event: &RunEvent, name: &str, content: &str, updates: &mut Vec<DisplayUpdate>) {
        let begins = self.reply_node.as_ref().is_none_or(|(node, text)| *node != event.node_id || text.is_empty());
        // Leading line breaks separate paragraphs of the reply; here each part starts on a new line anyway.
        let content = if begins { content.trim_start_matches('\n') } else { content };
        if !REPLY_NODES.contains(&name) || content.is_empty() {
            return;
        }
        if begins {
            self.display.finish_reply(updates);
            self.reply_node = Some((event.node_id.clone(), String::new()));
        }
        if let Some((_, text)) = &mut self.reply_node {
            text.push_str(content);
        }
        self.display.push_reply(content, updates);
    }

    fn state(&mut self, state: &Value, updates: &mut Vec<DisplayUpdate>) {
        match &mut self.diagram {
            Some(ProgressDiagram::Thoughts(thoughts)) => {
                let depth = state.get("tot").and_then(|tot| tot.get("depth")).and_then(Value::as_u64);
                thoughts.place_proposed(depth.and_then(|depth| usize::try_from(depth).ok()));
            }
            Some(ProgressDiagram::Tasks(tasks)) => tasks.apply_state(state),
            None => return,
        }
        self.draw(updates);
    }

    fn thoughts(&mut self, updates: &mut Vec<DisplayUpdate>, change: impl FnOnce(&mut ThoughtTree)) {
        if !matches!(self.diagram, Some(ProgressDiagram::Thoughts(_))) {
            self.diagram = Some(ProgressDiagram::Thoughts(ThoughtTree::default()));
        }
        if let Some(ProgressDiagram::Thoughts(thoughts)) = &mut self.diagram {
            change(thoughts);
        }
        self.draw(updates);
    }

    fn tasks(&mut self, updates: &mut Vec<DisplayUpdate>, change: impl FnOnce(&mut TaskGraph)) {
        if !matches!(self.diagram, Some(ProgressDiagram::Tasks(_))) {
            self.diagram = Some(ProgressDiagram::Tasks(TaskGraph::default()));
        }
        if let Some(ProgressDiagram::Tasks(tasks)) = &mut self.diagram {
            change(tasks);
        }
        self.draw(updates);
    }

    fn draw(&mut self, updates: &mut Vec<DisplayUpdate>) {
        let lines = match &self.diagram {
            Some(ProgressDiagram::Thoughts(thoughts)) => thoughts.lines(),
            Some(ProgressDiagram::Tasks(tasks)) => tasks.lines(),
            None => return,
        };
        self.display.show_diagram(lines, updates);
    }
}

/// Arguments as JSON on one line.
pub(in crate::cli) fn arguments_text(arguments: &Value) -> String {
    if arguments.is_null() { String::new() } else { arguments.to_string() }
}

#[cfg(test)]
mod tests;
