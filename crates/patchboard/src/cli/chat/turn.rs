//! One turn of a chat as it is shown: frames of the gateway in, words for the terminal out. Pure.

use serde_json::Value;

use super::lists::text;
use crate::cli::approval_mode::refusal;
use crate::cli::markdown::Look;
use crate::cli::output::{one_line, plain};
use crate::cli::remedy;
use crate::cli::run::page::Page;
use crate::cli::run::questions::{Question, words};
use crate::cli::run::view::{Asides, Reply, Say, shown};

const ERROR: &str = "error: ";
/// What else lets a call through that nobody could be asked about.
const WAYS: &str = "`patchboard chat` at a terminal asks you, and `patchboard run --approvals wait` waits for `patchboard \
                    approvals`";

pub(super) struct Turn {
    reply: Reply,
    asides: Asides,
    page: Page,
    /// Names of the calls that were told, by their ids.
    calls: Vec<(String, String)>,
    /// Plain text stands in the middle of a line.
    is_mid_line: bool,
    /// The call that was asked about last.
    asked: Option<Asked>,
    /// Calls of which it was said that they are refused.
    refused: Vec<String>,
}

struct Asked {
    id: String,
    name: String,
    call: String,
}

/// What a frame means beyond what it shows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Goes,
    Asks(Question),
    /// A call has its result: nobody need be asked about it any more.
    Settled(String),
    Failed(String),
    Done,
}

impl Turn {
    pub(super) fn new(reply: Reply, asides: Asides, look: Look) -> Self {
        let mut page = Page::new(reply, asides, look);
        page.doing("waiting for the answer", &mut Vec::new());
        Self { reply, asides, page, calls: Vec::new(), is_mid_line: false, asked: None, refused: Vec::new() }
    }

    pub(super) fn page(&mut self) -> &mut Page {
        &mut self.page
    }

    /// An event of the stream.
    pub(super) fn event(&mut self, event: &str, data: &Value, said: &mut Vec<Say>) -> Step {
        match event {
            "text" => self.words(data.as_str().unwrap_or_default(), said),
            "tool_use" => {
                let (id, name) = (text(data, "id").unwrap_or_default(), text(data, "name").unwrap_or_default());
                let words = format!("{name} {}", input(data));
                if self.asides == Asides::None {
                    self.line(format!("[{}]", one_line(words.trim_end())), said);
                } else {
                    self.page.call(&id, words.trim_end(), said);
                }
                self.calls.push((id, name));
            }
            "tool_result" => {
                let id = text(data, "tool_use_id").unwrap_or_default();
                let name = self.calls.iter().find(|(call, _)| *call == id).map(|(_, name)| name.clone());
                let content = text(data, "content").unwrap_or_default();
                let is_error = data.get("is_error").and_then(Value::as_bool).unwrap_or_default();
                self.page.result(&id, name.as_deref().unwrap_or("tool"), &content, is_error, said);
                self.page.doing("waiting for the answer", said);
                return Step::Settled(id);
            }
            "usage" => {
                let count = |key: &str| data.get(key).and_then(Value::as_u64).unwrap_or(0);
                self.page.used(count("input_tokens") + count("output_tokens"));
            }
            "approval" => {
                let name = text(data, "name").unwrap_or_default();
                let call = format!("{name} {}", input(data)).trim_end().to_owned();
                let id = text(data, "tool_use_id").unwrap_or_default();
                let words = words(&call, text(data, "reason").as_deref());
                self.asked = Some(Asked { id: id.clone(), name, call });
                return Step::Asks(Question { id: text(data, "approval_id").unwrap_or_default(), call: id, words });
            }
            "error" => {
                let problem = data.as_str().unwrap_or("the server refused").to_owned();
                self.line(format!("{ERROR}{}", plain(&problem)), said);
                return Step::Failed(problem);
            }
            "done" => {
                self.end(said);
                return Step::Done;
            }
            _ => {}
        }
        Step::Goes
    }

    /// A line of its own on standard error. An error is followed by what to do about it, where that is known.
    pub(super) fn line(&mut self, line: String, said: &mut Vec<Say>) {
        self.end_line(said);
        let Some(problem) = line.strip_prefix(ERROR) else { return self.page.remark(line, said) };
        let told = remedy::of(problem);
        self.page.remark(format!("{ERROR}{}", told.problem), said);
        if let Some(hint) = told.hint {
            self.page.remark(format!("hint: {hint}"), said);
        }
    }

    /// The call that was asked about last is refused, as there is nobody who could agree. It is said once.
    pub(super) fn refused(&mut self, said: &mut Vec<Say>) {
        let Some(Asked { id, name, call }) = self.asked.take().filter(|asked| !self.refused.contains(&asked.id)) else {
            return;
        };
        self.line(refusal(&name, &call, WAYS), said);
        self.refused.push(id);
    }

    /// Nothing is left half said.
    pub(super) fn end(&mut self, said: &mut Vec<Say>) {
        self.end_line(said);
        self.page.pause(said);
    }

    fn words(&mut self, text: &str, said: &mut Vec<Say>) {
        if text.is_empty() {
            return;
        }
        self.page.words(text, said);
        // Read by a program it is plain, and as it comes.
        if self.reply == Reply::AtTheEnd {
            self.is_mid_line = !text.ends_with('\n');
            said.push(Say::Words(plain(text)));
        }
    }

    fn end_line(&mut self, said: &mut Vec<Say>) {
        if std::mem::take(&mut self.is_mid_line) {
            said.push(Say::Words("\n".to_owned()));
        }
    }
}

fn input(data: &Value) -> String {
    shown(data.get("input").unwrap_or(&Value::Null))
}

#[cfg(test)]
mod tests;
