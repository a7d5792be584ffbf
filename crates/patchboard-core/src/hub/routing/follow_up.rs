//! An app that asked the user something gets the next words first.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::app::NoticePriority;
use crate::app::message::AppNotice;

/// Users remembered; the one whose window closes first goes when there are more.
const MAX_USERS: usize = 1024;

/// Open questions, one per user: the newest.
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

    /// `now` is the time since some fixed moment.
    pub fn record_notice(&mut self, user: &Arc<str>, app: &Arc<str>, notice: &AppNotice, now: Duration) {
        if self.window.is_zero() || !expects_answer(app, notice) {
            return;
        }
        self.open_questions.retain(|_, asked| asked.until > now);
        if self.open_questions.len() >= MAX_USERS
            && let Some(first) =
                self.open_questions.iter().min_by_key(|(_, asked)| asked.until).map(|(user, _)| user.clone())
        {
            self.open_questions.remove(&first);
        }
        self.open_questions.insert(user.clone(), OpenQuestion { app: app.clone(), until: now + self.window });
    }

    /// Whose question the user's next words may answer.
    pub fn open_question(&self, user: &str, now: Duration) -> Option<Arc<str>> {
        self.open_questions.get(user).filter(|asked| asked.until > now).map(|asked| asked.app.clone())
    }

    /// The question is answered: one message went to whoever asked.
    pub fn close_question(&mut self, user: &str) {
        self.open_questions.remove(user);
    }
}

/// A title that is merely the app's name, which also stands in for none, is no title of the notice's own. One of its own
/// says what the notice is: an error that is urgent is no question, whatever its text ends with.
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
