//! What a person sees of a run: the reply on standard output, exactly once; everything else on standard error.
//!
//! Pure: events in, words out. On a terminal the reply appears as it is written; where it is read by a program it comes
//! whole at the end, without what the agent said on the way.

use serde_json::Value;

use super::event::{Event, Happening};
use super::tasks::Tasks;
use super::thoughts::Thoughts;
use crate::cli::output::{one_line, plain};
use crate::cli::screen::cut;
use crate::client::runs::{RunEnd, Usage};

/// Nodes whose words are for the user. What others write is a draft: plans, candidates, votes, results of tasks.
const SPEAKING: [&str; 4] = ["think", "plan", "answer", "aggregate"];
/// Nodes in which nothing can be seen to happen.
const SILENT: [&str; 2] = ["observe", "compress"];
/// Columns of a line about a tool.
const ASIDE_COLUMNS: usize = 160;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// Standard output is a terminal.
    AsItComes,
    AtTheEnd,
}

/// What is told beside the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asides {
    /// Standard error is not a terminal: only what it cost.
    None,
    /// A line for everything that happens.
    Lines,
    /// The same, and a picture of searches and graphs, drawn in its place.
    Pictures,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Say {
    /// Words for standard output.
    Words(String),
    /// A line for standard error, of little weight.
    Aside(String),
    /// A line for standard error.
    Line(String),
    /// What the picture shows now.
    Picture(Vec<String>),
}

pub(super) struct View {
    reply: Reply,
    asides: Asides,
    /// The node whose words are being written, and the words.
    speaking: Option<(String, String)>,
    /// The node entered last, of those seen from their beginning.
    entered: Option<String>,
    /// Standard output is inside a line.
    mid_line: bool,
    picture: Option<Picture>,
    /// What is going on, below the picture.
    activity: Option<String>,
}

enum Picture {
    Thoughts(Thoughts),
    Tasks(Tasks),
}

impl View {
    pub(super) fn new(reply: Reply, asides: Asides) -> Self {
        Self { reply, asides, speaking: None, entered: None, mid_line: false, picture: None, activity: None }
    }

    pub(super) fn event(&mut self, event: &Event) -> Vec<Say> {
        let mut said = Vec::new();
        match &event.what {
            Happening::NodeEnter { id } => {
                self.entered = Some(event.node_id.clone());
                self.enter(id, &mut said);
            }
            Happening::NodeExit { id, result } => self.leave(event, id, result, &mut said),
            Happening::MessageChunk { content, id } => self.words(event, id, content, &mut said),
            Happening::ToolCall { name, arguments } => {
                self.activity(format!("{name} {}", shown(arguments)), &mut said);
            }
            Happening::ToolEnd { name, result, is_error: true, .. } => {
                let first = result.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
                self.activity(format!("{name} failed: {first}"), &mut said);
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
            Happening::ToolEnd { is_error: false, .. }
            | Happening::ToolApproval { .. }
            | Happening::Custom { .. }
            | Happening::Other => {}
        }
        said
    }

    /// The reply, unless it stands there already, and what it took.
    pub(super) fn ended(&mut self, end: &RunEnd) -> Vec<Say> {
        let mut said = Vec::new();
        self.activity = None;
        self.draw(&mut said);
        let (node, spoken) = self.speaking.take().unwrap_or_default();
        let is_end = !spoken.is_empty() && end.reply.ends_with(&spoken);
        let words = match self.reply {
            // Joined in the middle of the reply, its end is all that was asked for.
            Reply::AsItComes if is_end => "",
            // What was said before tools were called is a part of the reply, and not of what a program asked for.
            Reply::AtTheEnd if is_end && self.entered.as_deref() == Some(&*node) => &spoken,
            Reply::AsItComes | Reply::AtTheEnd => &end.reply,
        };
        if !words.is_empty() {
            self.end_line(&mut said);
            self.mid_line = !words.ends_with('\n');
            said.push(Say::Words(plain(words)));
        }
        self.end_line(&mut said);
        if let Some(Usage { prompt_tokens, completion_tokens, .. }) = end.total_usage {
            said.push(Say::Aside(format!("{prompt_tokens} tokens in, {completion_tokens} out")));
        }
        said
    }

    /// Standard output is left at the beginning of a line, and the picture as it is.
    pub(super) fn pause(&mut self) -> Vec<Say> {
        let mut said = Vec::new();
        self.activity = None;
        self.draw(&mut said);
        self.end_line(&mut said);
        said
    }

    fn enter(&mut self, name: &str, said: &mut Vec<Say>) {
        if !SILENT.contains(&name) {
            self.activity(name.to_owned(), said);
        }
    }

    fn leave(&mut self, event: &Event, name: &str, result: &Value, said: &mut Vec<Say>) {
        if let Some(problem) = result.get("Err").and_then(Value::as_str) {
            self.activity(format!("{name} failed: {problem}"), said);
            // Half an answer is no answer: it is asked for again, or the run fails.
            self.speaking.take_if(|(node, _)| *node == event.node_id);
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
            if self.reply == Reply::AsItComes {
                self.activity = None;
                self.draw(said);
                self.end_line(said);
            }
            self.speaking = Some((event.node_id.clone(), String::new()));
        }
        if let Some((_, words)) = &mut self.speaking {
            words.push_str(content);
        }
        if self.reply == Reply::AtTheEnd {
            return;
        }
        self.mid_line = !content.ends_with('\n');
        said.push(Say::Words(plain(content)));
    }

    fn activity(&mut self, text: String, said: &mut Vec<Say>) {
        let text = cut(&one_line(&text), ASIDE_COLUMNS);
        match (self.asides, &self.picture) {
            (Asides::None, _) => {}
            (Asides::Pictures, Some(_)) => {
                self.activity = Some(text);
                self.draw(said);
            }
            (Asides::Lines | Asides::Pictures, _) => {
                self.end_line(said);
                said.push(Say::Aside(format!("· {text}")));
            }
        }
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
        let lines = match (self.asides, &self.picture) {
            (Asides::Pictures, Some(Picture::Thoughts(thoughts))) => thoughts.lines(),
            (Asides::Pictures, Some(Picture::Tasks(tasks))) => tasks.lines(),
            (Asides::None | Asides::Lines, _) | (Asides::Pictures, None) => return,
        };
        // The reply is below the picture by now; what still changes would be drawn over it.
        if self.speaking.is_some() && self.reply == Reply::AsItComes {
            return;
        }
        self.end_line(said);
        said.push(Say::Picture(
            lines.into_iter().chain(self.activity.iter().map(|text| format!("· {text}"))).collect(),
        ));
    }

    fn end_line(&mut self, said: &mut Vec<Say>) {
        if std::mem::take(&mut self.mid_line) {
            said.push(Say::Words("\n".to_owned()));
        }
    }
}

/// Arguments as JSON on one line.
pub(super) fn shown(arguments: &Value) -> String {
    if arguments.is_null() { String::new() } else { arguments.to_string() }
}

#[cfg(test)]
mod tests;
