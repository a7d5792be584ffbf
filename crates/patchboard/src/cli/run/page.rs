//! What a person sees while an agent works: its words, its tools and, at the end of the screen, what it is doing now.
//!
//! Pure: what happens goes in, what is shown comes out. Shared by `run` and `chat`. What was put out stays; only the block at
//! the end of the screen is drawn again in its place, and only while no line of the reply is open above it.

use std::collections::VecDeque;
use std::time::Duration;

use super::view::{Asides, Reply, Say};
use crate::cli::markdown::{Look, Markdown};
use crate::cli::output::one_line;
use crate::cli::screen::cut;

/// How often the block at the end of the screen changes by itself.
pub(in crate::cli) const BEAT: Duration = Duration::from_millis(120);
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Columns of a line about a tool.
const ASIDE_COLUMNS: usize = 160;
/// Lines of a tool's result that are shown, and columns of each.
const RESULT_LINES: usize = 3;
/// What happened last, below a picture.
const RECENT: usize = 4;
/// Of a thought only its end is shown while it grows, and its beginning once it is over.
const MAX_THOUGHT: usize = 4 * 1024;
/// A token is about so many bytes, until the model says how many there were.
const BYTES_OF_TOKEN: u64 = 4;

pub(in crate::cli) struct Page {
    reply: Reply,
    asides: Asides,
    markdown: Markdown,
    columns: usize,
    elapsed: Duration,
    doing: Option<String>,
    thought: Option<Thought>,
    tokens: u64,
    /// Bytes that came since the tokens were last counted.
    streamed: u64,
    picture: Vec<String>,
    recent: VecDeque<String>,
    /// The reply stands below the picture: what still changes in it would be drawn over the reply.
    has_replied: bool,
    /// The call that was shown last; a result of another one says whose it is.
    last_call: Option<String>,
}

struct Thought {
    of: String,
    text: String,
}

impl Page {
    pub(in crate::cli) fn new(reply: Reply, asides: Asides, look: Look) -> Self {
        Self {
            reply,
            asides,
            markdown: Markdown::new(look),
            columns: look.columns,
            elapsed: Duration::ZERO,
            doing: None,
            thought: None,
            tokens: 0,
            streamed: 0,
            picture: Vec::new(),
            recent: VecDeque::new(),
            has_replied: false,
            last_call: None,
        }
    }

    pub(in crate::cli) fn resize(&mut self, columns: usize) {
        self.columns = columns;
        self.markdown.resize(columns);
    }

    /// Time goes on.
    pub(in crate::cli) fn tick(&mut self, elapsed: Duration) -> Vec<Say> {
        self.elapsed = elapsed;
        let mut said = Vec::new();
        self.draw(&mut said);
        said
    }

    pub(in crate::cli) fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// What it does from now on: the name of a node, or words.
    pub(in crate::cli) fn doing(&mut self, what: &str, said: &mut Vec<Say>) {
        self.end_thought(said);
        self.doing = Some(cut(&one_line(node_in_words(what)), ASIDE_COLUMNS));
        if self.asides == Asides::Lines {
            self.note(what, said);
        }
        self.draw(said);
    }

    /// Words of the reply.
    pub(in crate::cli) fn words(&mut self, text: &str, said: &mut Vec<Say>) {
        self.streamed += text.len() as u64;
        if self.reply == Reply::AtTheEnd {
            return;
        }
        self.end_thought(said);
        self.clear(said);
        self.has_replied = true;
        let words = self.markdown.push(text);
        if !words.is_empty() {
            said.push(Say::Words(words));
        }
    }

    /// What is said next stands on a line of its own.
    pub(in crate::cli) fn end_words(&mut self, said: &mut Vec<Say>) {
        let words = self.markdown.finish();
        if !words.is_empty() {
            self.clear(said);
            said.push(Say::Words(words));
        }
    }

    /// Words that are not for the user: reasoning, drafts.
    pub(in crate::cli) fn thought(&mut self, of: &str, text: &str, said: &mut Vec<Say>) {
        self.streamed += text.len() as u64;
        if self.thought.as_ref().is_some_and(|thought| thought.of != of) {
            self.end_thought(said);
        }
        let thought = self.thought.get_or_insert_with(|| Thought { of: of.to_owned(), text: String::new() });
        thought.text.push_str(text);
        if thought.text.len() > MAX_THOUGHT {
            // The beginning is what is shown in the end, the rest what is shown now.
            let keep = thought.text.len() - MAX_THOUGHT / 2;
            let from = (keep..thought.text.len()).find(|at| thought.text.is_char_boundary(*at)).unwrap_or(0);
            let head: String = thought.text.chars().take(ASIDE_COLUMNS).collect();
            thought.text = format!("{head} … {}", thought.text.get(from..).unwrap_or_default());
        }
    }

    /// Arguments as they are written.
    pub(in crate::cli) fn arguments(&mut self, text: &str) {
        self.streamed += text.len() as u64;
    }

    pub(in crate::cli) fn call(&mut self, id: &str, words: &str, said: &mut Vec<Say>) {
        self.end_thought(said);
        self.last_call = Some(id.to_owned());
        self.note(words, said);
        self.doing = Some(cut(&one_line(words), 40));
        self.draw(said);
    }

    /// The first lines of a tool's result.
    pub(in crate::cli) fn result(&mut self, id: &str, name: &str, content: &str, is_error: bool, said: &mut Vec<Say>) {
        let lines = || content.lines().filter(|line| !line.trim().is_empty());
        let first = lines().next().unwrap_or_default();
        if is_error {
            self.note(&format!("{name} failed: {first}"), said);
        } else if !self.is_below_picture() {
            if self.last_call.as_deref() != Some(id) {
                self.note(&format!("{name}, its result:"), said);
            }
            for line in lines().take(RESULT_LINES) {
                self.aside(&format!("  {}", one_line(&line.replace('\t', "  "))), said);
            }
            match lines().count().saturating_sub(RESULT_LINES) {
                0 => {}
                more => self.aside(&format!("  … {more} more line{}", if more == 1 { "" } else { "s" }), said),
            }
        }
        self.last_call = None;
        self.doing = None;
        self.draw(said);
    }

    /// The model has said how many tokens a call took, both ways together.
    pub(in crate::cli) fn used(&mut self, tokens: u64) {
        self.tokens += tokens;
        self.streamed = 0;
    }

    /// A picture above what happens now.
    pub(super) fn picture(&mut self, lines: Vec<String>, said: &mut Vec<Say>) {
        if self.asides == Asides::Pictures && !self.has_replied {
            self.picture = lines;
            self.draw(said);
        }
    }

    /// One line about what happens. Below a picture it goes with the block, elsewhere it stays.
    pub(in crate::cli) fn note(&mut self, text: &str, said: &mut Vec<Say>) {
        let line = format!("· {}", one_line(text));
        if self.is_below_picture() {
            self.recent.push_back(cut(&line, ASIDE_COLUMNS));
            if self.recent.len() > RECENT {
                self.recent.pop_front();
            }
            self.draw(said);
        } else {
            self.aside(&line, said);
        }
    }

    /// A line that stays, whatever is drawn.
    pub(in crate::cli) fn remark(&mut self, line: String, said: &mut Vec<Say>) {
        self.end_words(said);
        self.clear(said);
        said.push(Say::Line(line));
    }

    /// What an ended run leaves: whole lines, the picture, and nothing that looks as if it went on.
    pub(in crate::cli) fn pause(&mut self, said: &mut Vec<Say>) {
        self.end_thought(said);
        self.doing = None;
        self.recent.clear();
        self.end_words(said);
        self.clear(said);
    }

    fn is_below_picture(&self) -> bool {
        !self.picture.is_empty() && !self.has_replied
    }

    fn aside(&mut self, line: &str, said: &mut Vec<Say>) {
        if self.asides == Asides::None {
            return;
        }
        self.end_words(said);
        self.clear(said);
        let columns = if self.asides == Asides::Pictures { self.columns.saturating_sub(1) } else { ASIDE_COLUMNS };
        said.push(Say::Aside(cut(line, columns.min(ASIDE_COLUMNS))));
    }

    /// What was thought is folded to a line.
    fn end_thought(&mut self, said: &mut Vec<Say>) {
        let Some(thought) = self.thought.take() else { return };
        let text = one_line(thought.text.split_whitespace().collect::<Vec<_>>().join(" ").trim());
        if !self.is_below_picture() && !text.is_empty() {
            self.aside(&format!("· {}: {text}", one_line(&thought.of)), said);
        }
    }

    fn clear(&self, said: &mut Vec<Say>) {
        if self.asides == Asides::Pictures {
            said.push(Say::Picture(if self.has_replied { Vec::new() } else { self.picture.clone() }));
        }
    }

    fn draw(&self, said: &mut Vec<Say>) {
        let is_open = self.reply == Reply::AsItComes && self.markdown.is_mid_line();
        if self.asides != Asides::Pictures || is_open {
            return;
        }
        let mut lines = if self.has_replied { Vec::new() } else { self.picture.clone() };
        lines.extend(self.recent.iter().cloned());
        if let Some(thought) = &self.thought {
            lines.push(format!(
                "  {}",
                tail(&one_line(&thought.text.replace('\n', " ")), self.columns.saturating_sub(4))
            ));
        }
        lines.push(self.status());
        said.push(Say::Picture(lines));
    }

    fn status(&self) -> String {
        let beats = self.elapsed.as_millis() / BEAT.as_millis();
        let spinner = SPINNER[usize::try_from(beats).unwrap_or(0) % SPINNER.len()];
        let doing = self.doing.as_deref().unwrap_or("working");
        let mut status = format!("{spinner} {doing} · {}", time(self.elapsed));
        match (self.tokens, self.streamed / BYTES_OF_TOKEN) {
            (0, 0) => {}
            (counted, 0) => status.push_str(&format!(" · {} tokens", number(counted))),
            (counted, streamed) => status.push_str(&format!(" · ~{} tokens", number(counted + streamed))),
        }
        status
    }
}

/// What a node of a strategy does. Nodes that are not known, and what are words already, stay as they are.
fn node_in_words(node: &str) -> &str {
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

/// The last so many columns.
fn tail(text: &str, columns: usize) -> String {
    let mut taken = 0;
    let kept: Vec<char> = text
        .chars()
        .rev()
        .take_while(|c| {
            taken += unicode_width::UnicodeWidthChar::width(*c).unwrap_or(1);
            taken < columns
        })
        .collect();
    let kept: String = kept.into_iter().rev().collect();
    if kept.len() == text.len() { kept } else { format!("…{}", kept.trim_start()) }
}

/// `7 s`, `2 min 05 s`.
pub(in crate::cli) fn time(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    match seconds / 60 {
        0 => format!("{seconds} s"),
        minutes => format!("{minutes} min {:02} s", seconds % 60),
    }
}

/// `1,234`.
pub(in crate::cli) fn number(number: u64) -> String {
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
