//! Ways to show a notice: in the log, on the desktop, over HTTP.
//!
//! Each knows how to show one notice now. When and how many are shown is the core's `NoticeDesk`'s business. Errors are
//! sentences for the log and name hosts, never addresses: a path may be as good as a password.

mod console;
mod desktop;
mod ntfy;
mod post;
mod webhook;

pub use console::ConsoleSink;
pub use desktop::{DesktopSink, SessionBus};
pub use ntfy::{NtfyOptions, NtfySink};
pub use webhook::{WebhookOptions, WebhookSink};

use patchboard_core::app::NoticePriority;

fn priority_word(priority: NoticePriority) -> &'static str {
    match priority {
        NoticePriority::Low => "low",
        NoticePriority::Normal => "normal",
        NoticePriority::High => "high",
    }
}

#[cfg(test)]
mod tests;
