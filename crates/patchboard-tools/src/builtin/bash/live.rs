//! What people who watch a command are told: its output in pieces of whole characters, up to a limit.

/// A piece of this size is told at once.
const PIECE_BYTES: usize = 4 * 1024;
/// After this much the watchers have seen enough; what is told is kept for good.
const TOLD_BYTES: usize = 256 * 1024;
const ENOUGH: &str = "\n[… more output is not shown while the command runs …]\n";

#[derive(Debug, Default)]
pub(super) struct Live {
    waiting: String,
    told: usize,
    has_told_enough: bool,
    stdout: Cut,
    stderr: Cut,
}

/// The beginning of a character whose rest has not come yet; at most three bytes.
#[derive(Debug, Default)]
struct Cut(Vec<u8>);

impl Live {
    pub(super) fn hear_stdout(&mut self, bytes: &[u8]) {
        let text = self.stdout.whole(bytes);
        self.hear(&text);
    }

    pub(super) fn hear_stderr(&mut self, bytes: &[u8]) {
        let text = self.stderr.whole(bytes);
        self.hear(&text);
    }

    /// Nothing more comes, so what is incomplete stays so.
    pub(super) fn end(&mut self) {
        let rest = [std::mem::take(&mut self.stdout.0), std::mem::take(&mut self.stderr.0)].concat();
        self.hear(&String::from_utf8_lossy(&rest));
    }

    pub(super) fn has_something(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= PIECE_BYTES
    }

    pub(super) fn take(&mut self) -> Option<String> {
        self.told += self.waiting.len();
        let piece = std::mem::take(&mut self.waiting);
        (!piece.is_empty()).then_some(piece)
    }

    fn hear(&mut self, text: &str) {
        if self.has_told_enough || text.is_empty() {
            return;
        }
        let room = TOLD_BYTES.saturating_sub(self.told + self.waiting.len());
        let end = text.floor_char_boundary(room);
        self.waiting.push_str(text.get(..end).unwrap_or_default());
        if end < text.len() {
            self.waiting.push_str(ENOUGH);
            self.has_told_enough = true;
        }
    }
}

impl Cut {
    /// The characters that are complete with `bytes`; what can never become one is replaced.
    fn whole(&mut self, bytes: &[u8]) -> String {
        self.0.extend_from_slice(bytes);
        let heard = std::mem::take(&mut self.0);
        let mut text = String::with_capacity(heard.len());
        let mut chunks = heard.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let is_last = chunks.peek().is_none();
            if is_last && could_go_on(chunk.invalid()) {
                self.0 = chunk.invalid().to_vec();
            } else if !chunk.invalid().is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        text
    }
}

/// Is this the beginning of a character that was cut off?
fn could_go_on(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests;
