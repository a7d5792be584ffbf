//! Host function that writes to the server's log under the plugin's name.

use patchboard_core::text::{cut, cut_with_mark, escape_line};

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
    // Of a longer text, so much is escaped that it shows to be cut.
    let beginning = cut(text, MAX_LINE_BYTES + char::MAX.len_utf8());
    cut_with_mark(&escape_line(beginning), MAX_LINE_BYTES).into_owned()
}
