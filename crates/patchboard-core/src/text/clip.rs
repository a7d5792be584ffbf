//! Formatting bounded in bytes.

use std::fmt::{self, Write};

/// The `Display` text of a value, cut to `limit` bytes plus `…`. The rest is never formatted.
pub fn clipped(value: &dyn fmt::Display, limit: usize) -> String {
    let mut clip = ClippedWriter { text: String::new(), remaining: limit };
    match write!(clip, "{value}") {
        Ok(()) => clip.text,
        Err(fmt::Error) => clip.text + "…",
    }
}

struct ClippedWriter {
    text: String,
    remaining: usize,
}

impl fmt::Write for ClippedWriter {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let end = piece.floor_char_boundary(self.remaining);
        self.text.push_str(piece.get(..end).unwrap_or_default());
        self.remaining -= end;
        if end == piece.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests;
