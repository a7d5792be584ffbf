//! The display of one chat turn: gateway frames in, terminal updates out. Pure.

use serde_json::Value;

use super::lists::text;
use crate::cli::approval_mode::refusal_text;
use crate::cli::markdown::MarkdownLayout;
use crate::cli::remedy;
use crate::cli::run::live_display::LiveDisplay;
use crate::cli::run::questions::{ApprovalQuestion, prompt_text};
use crate::cli::run::view::{DisplayUpdate, ProgressDisplay, ReplyTiming, arguments_text};
use crate::output::{one_line, plain};

const ERROR: &str = "error: ";
/// Other ways to approve a call where no person can be asked.
const APPROVAL_HINT: &str = "`patchboard chat` at a terminal asks you, and `patchboard run --approvals wait` waits for `patchboard \
                    approvals`";

pub(super) struct ChatTurn {
    reply: ReplyTiming,
    progress: ProgressDisplay,
    display: LiveDisplay,
    /// Names of announced calls, by id.
    calls: Vec<(String, String)>,
    /// Plain output is in the middle of a line.
    is_mid_line: bool,
    /// The call of the latest approval question.
    pending_approval: Option<ApprovalCall>,
    /// Calls whose refusal was shown.
    refused: Vec<String>,
}

struct ApprovalCall {
    id: String,
    name: String,
    call: String,
}

/// The effect of a frame apart from its display.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FrameEffect {
    Continue,
    AskApproval(ApprovalQuestion),
    /// A call has its result: its approval question is obsolete.
    CallFinished(String),
    Failed(String),
    Done,
}

impl ChatTurn {
    pub(super) fn new(reply: ReplyTiming, progress: ProgressDisplay, layout: MarkdownLayout) -> Self {
        let mut page = LiveDisplay::new(reply, progress, layout);
        page.set_activity("waiting for the answer", &mut Vec::new());
        Self {
            reply,
            progress,
            display: page,
            calls: Vec::new(),
            is_mid_line: false,
            pending_approval: None,
            refused: Vec::new(),
        }
    }

    pub(super) fn display(&mut self) -> &mut LiveDisplay {
        &mut self.display
    }

    /// Handles one event of the stream.
    pub(super) fn event(&mut self, event: &str, data: &Value, updates: &mut Vec<DisplayUpdate>) -> FrameEffect {
        match event {
            "text" => self.push_text(data.as_str().unwrap_or_default(), updates),
            "tool_use" => {
                let (id, name) = (text(data, "id").unwrap_or_default(), text(data, "name").unwrap_or_default());
                let call = format!("{name} {}", input(data));
                if self.progress == ProgressDisplay::None {
                    self.line(format!("[{}]", one_line(call.trim_end())), updates);
                } else {
                    self.display.call(&id, call.trim_end(), updates);
                }
                self.calls.push((id, name));
            }
            "tool_result" => {
                let id = text(data, "tool_use_id").unwrap_or_default();
                let name = self.calls.iter().find(|(call, _)| *call == id).map(|(_, name)| name.clone());
                let content = text(data, "content").unwrap_or_default();
                let is_error = data.get("is_error").and_then(Value::as_bool).unwrap_or_default();
                self.display.result(&id, name.as_deref().unwrap_or("tool"), &content, is_error, updates);
                self.display.set_activity("waiting for the answer", updates);
                return FrameEffect::CallFinished(id);
            }
            "usage" => {
                let count = |key: &str| data.get(key).and_then(Value::as_u64).unwrap_or(0);
                self.display.add_tokens(count("input_tokens") + count("output_tokens"));
            }
            "approval" => {
                let name = text(data, "name").unwrap_or_default();
                let call = format!("{name} {}", input(data)).trim_end().to_owned();
                let id = text(data, "tool_use_id").unwrap_or_default();
                let prompt = prompt_text(&call, text(data, "reason").as_deref());
                self.pending_approval = Some(ApprovalCall { id: id.clone(), name, call });
                return FrameEffect::AskApproval(ApprovalQuestion {
                    id: text(data, "approval_id").unwrap_or_default(),
                    call: id,
                    prompt,
                });
            }
            "error" => {
                let problem = data.as_str().unwrap_or("the server refused").to_owned();
                self.line(format!("{ERROR}{}", plain(&problem)), updates);
                return FrameEffect::Failed(problem);
            }
            "done" => {
                self.end(updates);
                return FrameEffect::Done;
            }
            _ => {}
        }
        FrameEffect::Continue
    }

    /// Shows a separate line on standard error. An error is followed by a hint if one is known.
    pub(super) fn line(&mut self, line: String, updates: &mut Vec<DisplayUpdate>) {
        self.end_line(updates);
        let Some(problem) = line.strip_prefix(ERROR) else { return self.display.remark(line, updates) };
        let advice = remedy::advise(problem);
        self.display.remark(format!("{ERROR}{}", advice.problem), updates);
        if let Some(hint) = advice.hint {
            self.display.remark(format!("hint: {hint}"), updates);
        }
    }

    /// Shows once that the call of the latest question is refused, as no person can approve it.
    pub(super) fn note_refusal(&mut self, updates: &mut Vec<DisplayUpdate>) {
        let Some(ApprovalCall { id, name, call }) =
            self.pending_approval.take().filter(|pending_approval| !self.refused.contains(&pending_approval.id))
        else {
            return;
        };
        self.line(refusal_text(&name, &call, APPROVAL_HINT), updates);
        self.refused.push(id);
    }

    /// Ends an open line and clears the live block.
    pub(super) fn end(&mut self, updates: &mut Vec<DisplayUpdate>) {
        self.end_line(updates);
        self.display.pause(updates);
    }

    fn push_text(&mut self, text: &str, updates: &mut Vec<DisplayUpdate>) {
        if text.is_empty() {
            return;
        }
        self.display.push_reply(text, updates);
        // Output read by a program is plain and unbuffered.
        if self.reply == ReplyTiming::AtEnd {
            self.is_mid_line = !text.ends_with('\n');
            updates.push(DisplayUpdate::Text(plain(text)));
        }
    }

    fn end_line(&mut self, updates: &mut Vec<DisplayUpdate>) {
        if std::mem::take(&mut self.is_mid_line) {
            updates.push(DisplayUpdate::Text("\n".to_owned()));
        }
    }
}

fn input(data: &Value) -> String {
    arguments_text(data.get("input").unwrap_or(&Value::Null))
}

#[cfg(test)]
mod tests;
