//! Follow-up windows: an app that asked the user a question gets the user's next message first.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::app::NoticePriority;
use crate::app::message::AppNotice;

/// Users with an open window; past it the one that expires first is dropped.
const MAX_USERS: usize = 1024;

/// The latest open question of each user.
#[derive(Debug)]
pub struct FollowUpWindows {
    window: Duration,
    open_questions: HashMap<Arc<str>, OpenQuestion>,
}

#[derive(Debug, Clone)]
struct OpenQuestion {
    app: Arc<str>,
    until: Duration,
}

impl FollowUpWindows {
    pub fn new(window: Duration) -> Self {
        Self { window, open_questions: HashMap::new() }
    }

    /// `now` is the time since a fixed moment.
    pub fn record_notice(&mut self, user: &Arc<str>, app: &Arc<str>, notice: &AppNotice, now: Duration) {
        if self.window.is_zero() || !expects_answer(app, notice) {
            return;
        }
        self.open_questions.retain(|_, question| question.until > now);
        if self.open_questions.len() >= MAX_USERS
            && let Some(oldest) =
                self.open_questions.iter().min_by_key(|(_, question)| question.until).map(|(user, _)| user.clone())
        {
            self.open_questions.remove(&oldest);
        }
        self.open_questions.insert(user.clone(), OpenQuestion { app: app.clone(), until: now + self.window });
    }

    /// The app whose question the user's next message may answer.
    pub fn open_question(&self, user: &str, now: Duration) -> Option<Arc<str>> {
        self.open_questions.get(user).filter(|question| question.until > now).map(|question| question.app.clone())
    }

    /// Closes the window after one message was sent to the app that asked.
    pub fn close_question(&mut self, user: &str) {
        self.open_questions.remove(user);
    }
}

/// Whether the notice asks a question. A title equal to the app's name, which also replaces a missing title, does not
/// count as one. A title of the notice's own decides alone: an urgent error is no question, whatever its body ends
/// with.
fn expects_answer(app: &str, notice: &AppNotice) -> bool {
    if notice.expects_reply {
        return true;
    }
    let has_own_title = !notice.title.trim().eq_ignore_ascii_case(app);
    if has_own_title {
        return is_question(&notice.title);
    }
    notice.priority == NoticePriority::High || is_question(&notice.body)
}

fn is_question(text: &str) -> bool {
    text.trim_end().ends_with(['?', '？', '؟'])
}

#[cfg(test)]
mod tests;
