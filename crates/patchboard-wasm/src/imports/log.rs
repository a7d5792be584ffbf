//! Host function that writes to the server's log under the plugin's name.

use crate::state::CallState;
use crate::world::patchboard::plugin::log::{Host, Level};

const MAX_LINE_BYTES: usize = 4 * 1024;

impl Host for CallState {
    async fn write(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        self.begin_host_call().await?;
        let Some(remaining) = self.log_lines_left.checked_sub(1) else {
            self.log_lines_dropped = self.log_lines_dropped.saturating_add(1);
            return Ok(());
        };
        self.log_lines_left = remaining;
        let (plugin, message) = (&*self.rights.plugin, one_line(&message));
        match level {
            Level::Trace => tracing::trace!(target: "plugin", plugin, "{message}"),
            Level::Debug => tracing::debug!(target: "plugin", plugin, "{message}"),
            Level::Info => tracing::info!(target: "plugin", plugin, "{message}"),
            Level::Warn => tracing::warn!(target: "plugin", plugin, "{message}"),
            Level::Error => tracing::error!(target: "plugin", plugin, "{message}"),
        }
        Ok(())
    }
}

/// Logs at the end of a call how many lines were dropped.
pub(crate) fn log_dropped_lines(state: &CallState) {
    let (plugin, dropped) = (&*state.rights.plugin, state.log_lines_dropped);
    if dropped > 0 {
        tracing::warn!(target: "plugin", plugin, dropped, "wrote too many lines in one call; the rest was dropped");
    }
}

/// Makes `text` one safe log line: without line breaks, cursor movements or changes of text direction.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(MAX_LINE_BYTES + 4));
    for c in text.chars() {
        if line.len() + c.len_utf8() > MAX_LINE_BYTES {
            line.push('…');
            break;
        }
        match is_harmless(c) {
            true => line.push(c),
            false => line.extend(c.escape_default()),
        }
    }
    line
}

fn is_harmless(c: char) -> bool {
    let breaks_or_turns = matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !c.is_control() && !breaks_or_turns
}
