//! Converts a `tools/call` response to text for the model.

use patchboard_core::tool::ToolOutput;
use serde_json::Value;

use crate::text::clipped;

/// Callers truncate further; this only keeps an oversized response from being copied around.
const MAX_OUTPUT: usize = 1024 * 1024;
/// Length of a URI or a media type in the output.
const MAX_LABEL: usize = 300;

/// Text blocks are joined; other blocks are described in brackets; structured content is used if there is no text.
pub(super) fn tool_output(result: &Value) -> ToolOutput {
    let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
    let mut text = BoundedText::default();
    let mut has_text = false;
    for block in result.get("content").and_then(Value::as_array).into_iter().flatten() {
        has_text |= text.add(block);
    }
    let structured = result.get("structuredContent").filter(|value| !value.is_null());
    if !has_text && let Some(structured) = structured {
        text.paragraph(&structured.to_string());
    }
    ToolOutput { content: text.finish().into(), is_error, data: None }
}

#[derive(Default)]
struct BoundedText {
    text: String,
    is_cut: bool,
}

impl BoundedText {
    /// Adds a block; returns true if it was text.
    fn add(&mut self, block: &Value) -> bool {
        let field = |name: &str| block.get(name).and_then(Value::as_str);
        match field("type") {
            Some("text") => {
                self.paragraph(field("text").unwrap_or_default());
                true
            }
            Some(kind @ ("image" | "audio")) => {
                let size = field("data").map_or(0, |data| data.len() / 4 * 3);
                self.label(format_args!("[{kind} {}, {size} bytes]", label(field("mimeType").unwrap_or("data"))));
                false
            }
            Some("resource_link") => {
                let uri = field("uri").unwrap_or_default();
                self.label(format_args!("[link to {}]", label(uri)));
                false
            }
            Some("resource") => {
                let resource = block.get("resource").unwrap_or(&Value::Null);
                let field = |name: &str| resource.get(name).and_then(Value::as_str);
                self.label(format_args!("[resource {}]", label(field("uri").unwrap_or_default())));
                match field("text") {
                    Some(text) => self.paragraph(text),
                    None => return false,
                }
                true
            }
            other => {
                self.label(format_args!("[content of type {}]", label(other.unwrap_or("unknown"))));
                false
            }
        }
    }

    fn label(&mut self, text: std::fmt::Arguments<'_>) {
        self.paragraph(&text.to_string());
    }

    fn paragraph(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let remaining = MAX_OUTPUT.saturating_sub(self.text.len());
        let end = text.floor_char_boundary(remaining.min(text.len()));
        self.text.push_str(text.get(..end).unwrap_or_default());
        self.is_cut |= end < text.len();
    }

    fn finish(mut self) -> String {
        if self.is_cut {
            self.text.push_str("\n[cut: the answer was longer]");
        }
        self.text
    }
}

/// Third-party text on one line.
fn label(text: &str) -> String {
    clipped(&text.escape_debug(), MAX_LABEL)
}

#[cfg(test)]
mod tests;
