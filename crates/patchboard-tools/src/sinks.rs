//! Notice sinks: log, desktop, HTTP.
//!
//! A sink shows one notice at a time; the core's `Notifier` decides when and how many are shown. Errors are messages
//! for the log and name hosts, never full URLs: a path may contain a secret.

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
