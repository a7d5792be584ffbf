//! Text that this crate shows to people and to models.

use std::time::Duration;

use patchboard_core::text::{controls_as_spaces, cut_chars};

/// Longest quote of a guest's text in a message.
const QUOTED_CHARS: usize = 300;

/// Quotes text from a plugin in a message.
pub(crate) fn quote_untrusted(text: &str) -> String {
    const MAX_SHOWN_CHARS: usize = 80;
    let shown: String = text.escape_debug().take(MAX_SHOWN_CHARS + 1).collect();
    cut_chars(&shown, MAX_SHOWN_CHARS).into_owned()
}

/// A guest's text on one line: control characters could start another line or move the cursor.
pub(crate) fn printable(text: &str) -> String {
    controls_as_spaces(&cut_chars(text, QUOTED_CHARS))
}

/// A size for messages: `64 MiB`, `1500 bytes`.
pub(crate) fn format_size(bytes: usize) -> String {
    const KIB: usize = 1024;
    const MIB: usize = 1024 * KIB;
    match bytes {
        0 => "0 bytes".to_owned(),
        _ if bytes.is_multiple_of(MIB) => format!("{} MiB", bytes / MIB),
        _ if bytes.is_multiple_of(KIB) => format!("{} KiB", bytes / KIB),
        _ => format!("{bytes} bytes"),
    }
}

/// A duration for messages: `30 s`, `250 ms`.
pub(crate) fn format_duration(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{} s", time.as_secs()),
        _ => format!("{} ms", time.as_millis()),
    }
}

#[cfg(test)]
mod tests;
