//! The live display of a working agent: its reply, its tool calls, and a status block at the end of the screen.
//!
//! Pure: events in, display updates out. Shared by `run` and `chat`. Written lines stay; only the block at the end of
//! the screen is redrawn in place, and only while no line of the reply is open above it.

use std::collections::VecDeque;
use std::time::Duration;

use super::view::{DisplayUpdate, ProgressDisplay, ReplyTiming};
use crate::cli::markdown::{MarkdownLayout, MarkdownRenderer};
use crate::output::cut;
use crate::output::one_line;

/// Redraw interval of the status block.
pub(in crate::cli) const TICK_INTERVAL: Duration = Duration::from_millis(120);
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Maximum columns of a line about a tool.
const ASIDE_COLUMNS: usize = 160;
/// Shown lines of a tool's result.
const RESULT_LINES: usize = 3;
/// Recent notes shown below a diagram.
const MAX_RECENT: usize = 4;
/// Maximum length of a stored thought: while it grows its end is shown, afterwards its beginning.
const MAX_THOUGHT: usize = 4 * 1024;
/// Estimated bytes per token until the model reports the count.
const BYTES_OF_TOKEN: u64 = 4;

pub(in crate::cli) struct LiveDisplay {
    reply: ReplyTiming,
    progress: ProgressDisplay,
    markdown: MarkdownRenderer,
    columns: usize,
    elapsed: Duration,
    activity: Option<String>,
    thought: Option<ThoughtText>,
    tokens: u64,
    /// Bytes received since the last token count.
    streamed: u64,
    diagram: Vec<String>,
    recent: VecDeque<String>,
    /// The reply is below the diagram: redrawing the diagram would overwrite it.
    has_replied: bool,
    /// The last shown call; the result of another call repeats its tool's name.
    last_call: Option<String>,
}

struct ThoughtText {
    node: String,
    text: String,
}

impl LiveDisplay {
    pub(in crate::cli) fn new(reply: ReplyTiming, progress: ProgressDisplay, layout: MarkdownLayout) -> Self {
        Self {
            reply,
            progress,
            markdown: MarkdownRenderer::new(layout),
            columns: layout.columns,
            elapsed: Duration::ZERO,
            activity: None,
            thought: None,
            tokens: 0,
            streamed: 0,
            diagram: Vec::new(),
            recent: VecDeque::new(),
            has_replied: false,
            last_call: None,
        }
    }

    pub(in crate::cli) fn resize(&mut self, columns: usize) {
        self.columns = columns;
        self.markdown.resize(columns);
    }

    /// Updates the elapsed time and redraws.
    pub(in crate::cli) fn tick(&mut self, elapsed: Duration) -> Vec<DisplayUpdate> {
        self.elapsed = elapsed;
        let mut updates = Vec::new();
        self.draw(&mut updates);
        updates
    }

    pub(in crate::cli) fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Sets the current activity: a node's name or a text.
    pub(in crate::cli) fn set_activity(&mut self, what: &str, updates: &mut Vec<DisplayUpdate>) {
        self.end_thought(updates);
        self.activity = Some(cut(&one_line(node_label(what)), ASIDE_COLUMNS));
        if self.progress == ProgressDisplay::Lines {
            self.note(what, updates);
        }
        self.draw(updates);
    }

    /// Adds text of the reply.
    pub(in crate::cli) fn push_reply(&mut self, text: &str, updates: &mut Vec<DisplayUpdate>) {
        self.streamed += text.len() as u64;
        if self.reply == ReplyTiming::AtEnd {
            return;
        }
        self.end_thought(updates);
        self.clear(updates);
        self.has_replied = true;
        let rendered = self.markdown.push(text);
        if !rendered.is_empty() {
            updates.push(DisplayUpdate::Text(rendered));
        }
    }

    /// Ends the reply's line, so that the next output starts on a new one.
    pub(in crate::cli) fn finish_reply(&mut self, updates: &mut Vec<DisplayUpdate>) {
        let rendered = self.markdown.finish();
        if !rendered.is_empty() {
            self.clear(updates);
            updates.push(DisplayUpdate::Text(rendered));
        }
    }

    /// Adds text that is not part of the reply: reasoning and drafts.
    pub(in crate::cli) fn push_thought(&mut self, of: &str, text: &str, updates: &mut Vec<DisplayUpdate>) {
        self.streamed += text.len() as u64;
        if self.thought.as_ref().is_some_and(|thought| thought.node != of) {
            self.end_thought(updates);
        }
        let thought = self.thought.get_or_insert_with(|| ThoughtText { node: of.to_owned(), text: String::new() });
        thought.text.push_str(text);
        if thought.text.len() > MAX_THOUGHT {
            // The beginning is shown at the end of the thought, the tail while it grows.
            let tail_start = thought.text.len() - MAX_THOUGHT / 2;
            let from = (tail_start..thought.text.len()).find(|at| thought.text.is_char_boundary(*at)).unwrap_or(0);
            let head: String = thought.text.chars().take(ASIDE_COLUMNS).collect();
            thought.text = format!("{head} … {}", thought.text.get(from..).unwrap_or_default());
        }
    }

    /// Counts argument text that is being streamed.
    pub(in crate::cli) fn count_arguments(&mut self, text: &str) {
        self.streamed += text.len() as u64;
    }

    pub(in crate::cli) fn call(&mut self, id: &str, text: &str, updates: &mut Vec<DisplayUpdate>) {
        self.end_thought(updates);
        self.last_call = Some(id.to_owned());
        self.note(text, updates);
        self.activity = Some(cut(&one_line(text), 40));
        self.draw(updates);
    }

    /// Shows the first lines of a tool's result.
    pub(in crate::cli) fn result(
        &mut self,
        id: &str,
        name: &str,
        content: &str,
        is_error: bool,
        updates: &mut Vec<DisplayUpdate>,
    ) {
        let lines = || content.lines().filter(|line| !line.trim().is_empty());
        let first = lines().next().unwrap_or_default();
        if is_error {
            self.note(&format!("{name} failed: {first}"), updates);
        } else if !self.is_below_diagram() {
            if self.last_call.as_deref() != Some(id) {
                self.note(&format!("{name}, its result:"), updates);
            }
            for line in lines().take(RESULT_LINES) {
                self.dim_line(&format!("  {}", one_line(&line.replace('\t', "  "))), updates);
            }
            match lines().count().saturating_sub(RESULT_LINES) {
                0 => {}
                more => self.dim_line(&format!("  … {more} more line{}", if more == 1 { "" } else { "s" }), updates),
            }
        }
        self.last_call = None;
        self.activity = None;
        self.draw(updates);
    }

    /// Adds the reported tokens of a call, input and output together.
    pub(in crate::cli) fn add_tokens(&mut self, tokens: u64) {
        self.tokens += tokens;
        self.streamed = 0;
    }

    /// Shows a diagram above the status.
    pub(super) fn show_diagram(&mut self, lines: Vec<String>, updates: &mut Vec<DisplayUpdate>) {
        if self.progress == ProgressDisplay::Live && !self.has_replied {
            self.diagram = lines;
            self.draw(updates);
        }
    }

    /// Adds one line about an event. Below a diagram it is part of the block, elsewhere it stays.
    pub(in crate::cli) fn note(&mut self, text: &str, updates: &mut Vec<DisplayUpdate>) {
        let line = format!("· {}", one_line(text));
        if self.is_below_diagram() {
            self.recent.push_back(cut(&line, ASIDE_COLUMNS));
            if self.recent.len() > MAX_RECENT {
                self.recent.pop_front();
            }
            self.draw(updates);
        } else {
            self.dim_line(&line, updates);
        }
    }

    /// Adds a line that stays above the block.
    pub(in crate::cli) fn remark(&mut self, line: String, updates: &mut Vec<DisplayUpdate>) {
        self.finish_reply(updates);
        self.clear(updates);
        updates.push(DisplayUpdate::Line(line));
    }

    /// Leaves the final state: whole lines and the diagram, without the status.
    pub(in crate::cli) fn pause(&mut self, updates: &mut Vec<DisplayUpdate>) {
        self.end_thought(updates);
        self.activity = None;
        self.recent.clear();
        self.finish_reply(updates);
        self.clear(updates);
    }

    fn is_below_diagram(&self) -> bool {
        !self.diagram.is_empty() && !self.has_replied
    }

    fn dim_line(&mut self, line: &str, updates: &mut Vec<DisplayUpdate>) {
        if self.progress == ProgressDisplay::None {
            return;
        }
        self.finish_reply(updates);
        self.clear(updates);
        let columns =
            if self.progress == ProgressDisplay::Live { self.columns.saturating_sub(1) } else { ASIDE_COLUMNS };
        updates.push(DisplayUpdate::DimLine(cut(line, columns.min(ASIDE_COLUMNS))));
    }

    /// Folds the thought into one line.
    fn end_thought(&mut self, updates: &mut Vec<DisplayUpdate>) {
        let Some(thought) = self.thought.take() else { return };
        let text = one_line(thought.text.split_whitespace().collect::<Vec<_>>().join(" ").trim());
        if !self.is_below_diagram() && !text.is_empty() {
            self.dim_line(&format!("· {}: {text}", one_line(&thought.node)), updates);
        }
    }

    fn clear(&self, updates: &mut Vec<DisplayUpdate>) {
        if self.progress == ProgressDisplay::Live {
            updates.push(DisplayUpdate::LiveBlock(if self.has_replied { Vec::new() } else { self.diagram.clone() }));
        }
    }

    fn draw(&self, updates: &mut Vec<DisplayUpdate>) {
        let is_open = self.reply == ReplyTiming::Streamed && self.markdown.is_mid_line();
        if self.progress != ProgressDisplay::Live || is_open {
            return;
        }
        let mut lines = if self.has_replied { Vec::new() } else { self.diagram.clone() };
        lines.extend(self.recent.iter().cloned());
        if let Some(thought) = &self.thought {
            lines.push(format!(
                "  {}",
                last_columns(&one_line(&thought.text.replace('\n', " ")), self.columns.saturating_sub(4))
            ));
        }
        lines.push(self.status());
        updates.push(DisplayUpdate::LiveBlock(lines));
    }

    fn status(&self) -> String {
        let ticks = self.elapsed.as_millis() / TICK_INTERVAL.as_millis();
        let spinner = SPINNER[usize::try_from(ticks).unwrap_or(0) % SPINNER.len()];
        let doing = self.activity.as_deref().unwrap_or("working");
        let mut status = format!("{spinner} {doing} · {}", format_elapsed(self.elapsed));
        match (self.tokens, self.streamed / BYTES_OF_TOKEN) {
            (0, 0) => {}
            (counted, 0) => status.push_str(&format!(" · {} tokens", format_count(counted))),
            (counted, streamed) => status.push_str(&format!(" · ~{} tokens", format_count(counted + streamed))),
        }
        status
    }
}

/// The label of a strategy's node. Unknown names and texts are returned unchanged.
fn node_label(node: &str) -> &str {
    match node {
        "think" | "plan" => "thinking",
        "understand" => "reading the question",
        "act" => "using tools",
        "think_expand" => "thinking of next steps",
        "think_evaluate" => "weighing the steps",
        "backtrack" => "going back a step",
        "plan_graph" => "planning the tasks",
        "execute_graph" => "working on the tasks",
        "answer" => "writing the answer",
        "aggregate" => "putting the results together",
        other => other,
    }
}

/// The last `columns` columns of a text.
fn last_columns(text: &str, columns: usize) -> String {
    let mut taken = 0;
    let tail: Vec<char> = text
        .chars()
        .rev()
        .take_while(|c| {
            taken += unicode_width::UnicodeWidthChar::width(*c).unwrap_or(1);
            taken < columns
        })
        .collect();
    let tail: String = tail.into_iter().rev().collect();
    if tail.len() == text.len() { tail } else { format!("…{}", tail.trim_start()) }
}

/// Formats as `7 s` or `2 min 05 s`.
pub(in crate::cli) fn format_elapsed(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    match seconds / 60 {
        0 => format!("{seconds} s"),
        minutes => format!("{minutes} min {:02} s", seconds % 60),
    }
}

/// Formats as `1,234`.
pub(in crate::cli) fn format_count(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests;
