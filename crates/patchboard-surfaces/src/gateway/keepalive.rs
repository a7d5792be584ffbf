//! The text of keepalive frames on a silent stream. It is empty, so that clients show nothing; while an approval is
//! pending, the first frame says so, because most clients do not show approvals.

use std::sync::Arc;

use patchboard_core::event::{Event, InputKind};
use patchboard_core::id::InputId;

#[derive(Debug)]
pub(super) struct KeepaliveText {
    /// Set if the client shows approvals itself.
    shows_approvals: bool,
    /// Bounded by the core's limit on pending approvals.
    open: Vec<ApprovalNotice>,
    /// Whether the text sent so far ends with a line break.
    is_at_line_start: bool,
}

#[derive(Debug)]
struct ApprovalNotice {
    approval: InputId,
    tool: Arc<str>,
    is_announced: bool,
}

impl KeepaliveText {
    pub(super) fn new(shows_approvals: bool) -> Self {
        Self { shows_approvals, open: Vec::new(), is_at_line_start: true }
    }

    pub(super) fn observe(&mut self, event: &Event) {
        if let Event::InputRequested(request) = event
            && let InputKind::Approval { call, .. } = &request.kind
        {
            let (approval, tool) = (request.input, call.name.clone());
            self.open.push(ApprovalNotice { approval, tool, is_announced: self.shows_approvals });
        } else if let Event::InputProvided { input, .. } = event {
            self.open.retain(|notice| notice.approval != *input);
        } else if let Event::AnswerText(chunks) = event
            && let Some(chunk) = chunks.iter().filter(|chunk| !chunk.is_empty()).last()
        {
            self.is_at_line_start = chunk.ends_with('\n');
        }
    }

    /// The text of the next keepalive frame: starts on a line of its own and announces each approval once.
    pub(super) fn next_text(&mut self) -> String {
        let mut tools: Vec<&str> = Vec::new();
        for notice in self.open.iter_mut().filter(|notice| !notice.is_announced) {
            notice.is_announced = true;
            if !tools.contains(&&*notice.tool) {
                tools.push(&notice.tool);
            }
        }
        if tools.is_empty() {
            return String::new();
        }
        let line_break = if std::mem::replace(&mut self.is_at_line_start, true) { "" } else { "\n" };
        let tools = tools.join(" and ");
        format!("{line_break}(waiting for approval of {tools}: answer with `patchboard approvals`)\n")
    }
}
