//! What people who watch a command are told: its output in pieces of whole characters, up to a limit.

/// A piece of this size is told at once.
const PIECE_BYTES: usize = 4 * 1024;
/// After this much the watchers have seen enough; what is told is kept for good.
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

/// The beginning of a character whose rest has not come yet; at most three bytes.
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

    /// Nothing more comes, so what is incomplete stays so.
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
    /// The characters that are complete with `bytes`; what can never become one is replaced.
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

/// Is this the beginning of a character that was cut off?
fn is_incomplete(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests;
