//! Live output of a command for people who watch it: pieces of whole characters, up to a limit.

/// A piece of this size is sent at once.
const PIECE_BYTES: usize = 4 * 1024;
/// Live output ends after this many bytes, because progress is stored permanently.
const MAX_LIVE_BYTES: usize = 256 * 1024;
const LIMIT_NOTICE: &str = "\n[… more output is not shown while the command runs …]\n";

#[derive(Debug, Default)]
pub(super) struct LiveOutput {
    pending: String,
    sent_bytes: usize,
    limit_reached: bool,
    stdout: PartialCharacter,
    stderr: PartialCharacter,
}

/// The first bytes of a character that is not complete yet; at most three.
#[derive(Debug, Default)]
struct PartialCharacter(Vec<u8>);

impl LiveOutput {
    pub(super) fn push_stdout(&mut self, bytes: &[u8]) {
        let text = self.stdout.decode(bytes);
        self.push_text(&text);
    }

    pub(super) fn push_stderr(&mut self, bytes: &[u8]) {
        let text = self.stderr.decode(bytes);
        self.push_text(&text);
    }

    /// Flushes incomplete characters at the end of the streams.
    pub(super) fn end(&mut self) {
        let rest = [std::mem::take(&mut self.stdout.0), std::mem::take(&mut self.stderr.0)].concat();
        self.push_text(&String::from_utf8_lossy(&rest));
    }

    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.pending.len() >= PIECE_BYTES
    }

    pub(super) fn take(&mut self) -> Option<String> {
        self.sent_bytes += self.pending.len();
        let piece = std::mem::take(&mut self.pending);
        (!piece.is_empty()).then_some(piece)
    }

    fn push_text(&mut self, text: &str) {
        if self.limit_reached || text.is_empty() {
            return;
        }
        let room = MAX_LIVE_BYTES.saturating_sub(self.sent_bytes + self.pending.len());
        let end = text.floor_char_boundary(room);
        self.pending.push_str(text.get(..end).unwrap_or_default());
        if end < text.len() {
            self.pending.push_str(LIMIT_NOTICE);
            self.limit_reached = true;
        }
    }
}

impl PartialCharacter {
    /// Decodes the characters that are complete with `bytes`; invalid bytes are replaced.
    fn decode(&mut self, bytes: &[u8]) -> String {
        self.0.extend_from_slice(bytes);
        let heard = std::mem::take(&mut self.0);
        let mut text = String::with_capacity(heard.len());
        let mut chunks = heard.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let is_last = chunks.peek().is_none();
            if is_last && is_incomplete(chunk.invalid()) {
                self.0 = chunk.invalid().to_vec();
            } else if !chunk.invalid().is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        text
    }
}

/// Returns true for a valid but truncated character.
fn is_incomplete(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests;
