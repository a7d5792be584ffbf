//! A decoder for server-sent events in arbitrary byte chunks. Knows the framing but no model API; does no I/O.
//!
//! Follows the event stream format of the HTML standard (all three line endings, a byte order mark, comments,
//! multi-line data, malformed UTF-8 replaced) with two concessions to servers: a final event without the blank line
//! after it is not lost, and a field named `error` is treated as the data of an event of that name.

use std::borrow::Cow;

/// Longest line, and most data of one event. Exceeding it ends the stream with an error.
pub const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One event. Both texts are borrowed from the decoder unless bytes had to be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSentEvent<'a> {
    /// Empty if the event has no name.
    pub name: Cow<'a, str>,
    pub data: Cow<'a, str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("event is larger than {limit} bytes")]
pub struct EventTooLarge {
    pub limit: usize,
}

/// Push bytes, then take events until there are none; every byte is examined once and moved at most once.
#[derive(Debug)]
pub struct EventDecoder {
    buffer: Vec<u8>,
    /// Start of the first unread line.
    line: usize,
    /// No line ends between `line` and this position.
    scanned: usize,
    /// The previous line ended with a carriage return; an immediately following line feed belongs to it.
    after_carriage_return: bool,
    at_start: bool,
    name: FieldBuffer,
    data: FieldBuffer,
    /// The event in `name` and `data` has been returned.
    dispatched: bool,
    limit: usize,
    failed: bool,
}

/// A field's value: a range of the buffer while it is a single line, otherwise copied bytes.
#[derive(Debug, Default)]
struct FieldBuffer {
    present: bool,
    range: Option<(usize, usize)>,
    spilled: Vec<u8>,
}

impl Default for EventDecoder {
    fn default() -> Self {
        Self::with_limit(MAX_EVENT_BYTES)
    }
}

impl EventDecoder {
    pub fn with_limit(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            line: 0,
            scanned: 0,
            after_carriage_return: false,
            at_start: true,
            name: FieldBuffer::default(),
            data: FieldBuffer::default(),
            dispatched: false,
            limit,
            failed: false,
        }
    }

    /// Adds bytes. All events must be taken first: unread bytes stay in the buffer.
    pub fn push(&mut self, bytes: &[u8]) {
        self.clear_dispatched();
        // Lines already read are removed from the buffer, so values that still refer to it are copied.
        self.name.spill(&self.buffer);
        self.data.spill(&self.buffer);
        if self.line > 0 {
            self.buffer.drain(..self.line);
            self.scanned = self.scanned.saturating_sub(self.line);
            self.line = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete event, or `None` until more bytes arrive. After an error there are no more events.
    pub fn next_event(&mut self) -> Result<Option<ServerSentEvent<'_>>, EventTooLarge> {
        self.clear_dispatched();
        loop {
            if self.failed {
                return Err(self.too_large());
            }
            if !self.skip_line_feed() {
                return Ok(None);
            }
            let Some((offset, ending)) = self.buffer.get(self.scanned..).and_then(find_line_end) else {
                self.scanned = self.buffer.len();
                if self.scanned.saturating_sub(self.line) > self.limit {
                    self.failed = true;
                }
                if self.failed {
                    continue;
                }
                return Ok(None);
            };
            let (start, end) = (self.line, self.scanned + offset);
            self.line = end + 1;
            self.scanned = self.line;
            self.after_carriage_return = ending == b'\r';
            if self.read_line(start, end) == LineKind::Blank && self.dispatch() {
                return Ok(Some(self.current()));
            }
        }
    }

    /// The final, unterminated event, if it has data. Must be called once, after the last byte.
    pub fn finish(&mut self) -> Result<Option<ServerSentEvent<'_>>, EventTooLarge> {
        self.clear_dispatched();
        if !self.failed && self.skip_line_feed() {
            let (start, end) = (self.line, self.buffer.len());
            self.line = end;
            self.scanned = end;
            if start < end {
                self.read_line(start, end);
            }
        }
        if self.failed {
            return Err(self.too_large());
        }
        Ok(if self.dispatch() { Some(self.current()) } else { None })
    }

    /// `false` if it is not known yet whether a line feed must be skipped, because there is no further byte.
    fn skip_line_feed(&mut self) -> bool {
        let Some(first) = self.buffer.get(self.line) else { return !self.after_carriage_return };
        if std::mem::take(&mut self.after_carriage_return) && *first == b'\n' {
            self.line += 1;
            self.scanned = self.line;
        }
        true
    }

    fn read_line(&mut self, mut start: usize, end: usize) -> LineKind {
        if end - start > self.limit {
            self.failed = true;
            return LineKind::Field;
        }
        let mut line = self.buffer.get(start..end).unwrap_or_default();
        if std::mem::take(&mut self.at_start)
            && let Some(rest) = line.strip_prefix(BYTE_ORDER_MARK)
        {
            line = rest;
            start += BYTE_ORDER_MARK.len();
        }
        if line.is_empty() {
            return LineKind::Blank;
        }
        // Fast path: almost every line of a model's stream starts like this.
        let name_length = if line.starts_with(b"data:") {
            4
        } else {
            line.iter().position(|byte| *byte == b':').unwrap_or(line.len())
        };
        let (name, value) = line.split_at_checked(name_length).unwrap_or((line, &[]));
        let separator = match value {
            [b':', b' ', ..] => 2,
            [b':', ..] => 1,
            _ => 0,
        };
        let range = (start + name_length + separator, end);
        match name {
            b"data" => self.add_data(range),
            b"event" => self.name.set(range),
            b"error" => {
                // Treated as `event: error` followed by its data.
                self.name.set((start, start + name_length));
                self.add_data(range);
            }
            _ => {}
        }
        LineKind::Field
    }

    fn add_data(&mut self, range: (usize, usize)) {
        self.data.add_line(range, &self.buffer);
        if self.data.len() > self.limit {
            self.failed = true;
        }
    }

    /// Ends the event. An event without data is discarded.
    fn dispatch(&mut self) -> bool {
        self.dispatched = self.data.present;
        if !self.dispatched {
            self.name.clear();
        }
        self.dispatched
    }

    fn current(&self) -> ServerSentEvent<'_> {
        ServerSentEvent { name: self.name.text(&self.buffer), data: self.data.text(&self.buffer) }
    }

    fn clear_dispatched(&mut self) {
        if std::mem::take(&mut self.dispatched) {
            self.name.clear();
            self.data.clear();
        }
    }

    fn too_large(&self) -> EventTooLarge {
        EventTooLarge { limit: self.limit }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum LineKind {
    Blank,
    Field,
}

impl FieldBuffer {
    fn set(&mut self, range: (usize, usize)) {
        self.present = true;
        self.range = Some(range);
        self.spilled.clear();
    }

    fn add_line(&mut self, range: (usize, usize), buffer: &[u8]) {
        if !self.present {
            return self.set(range);
        }
        self.spill(buffer);
        self.spilled.push(b'\n');
        self.spilled.extend_from_slice(slice(buffer, range));
    }

    fn spill(&mut self, buffer: &[u8]) {
        if let Some(range) = self.range.take() {
            self.spilled.extend_from_slice(slice(buffer, range));
        }
    }

    fn bytes<'a>(&'a self, buffer: &'a [u8]) -> &'a [u8] {
        self.range.map_or(&self.spilled, |range| slice(buffer, range))
    }

    fn len(&self) -> usize {
        self.range.map_or(self.spilled.len(), |(start, end)| end - start)
    }

    fn text<'a>(&'a self, buffer: &'a [u8]) -> Cow<'a, str> {
        String::from_utf8_lossy(self.bytes(buffer))
    }

    fn clear(&mut self) {
        self.present = false;
        self.range = None;
        self.spilled.clear();
    }
}

fn slice(buffer: &[u8], (start, end): (usize, usize)) -> &[u8] {
    buffer.get(start..end).unwrap_or_default()
}

/// Finds the first line feed or carriage return, eight bytes at a time, because this processes every byte of every
/// stream.
fn find_line_end(bytes: &[u8]) -> Option<(usize, u8)> {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH_BITS: u64 = u64::from_ne_bytes([0x80; 8]);
    // Marks zero bytes; marks above the lowest one may be wrong, and only the lowest is used.
    let zero_bytes = |word: u64| word.wrapping_sub(ONES) & !word & HIGH_BITS;

    let (words, rest) = bytes.as_chunks::<8>();
    let mut position = None;
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let marks = zero_bytes(word ^ (ONES * u64::from(b'\n'))) | zero_bytes(word ^ (ONES * u64::from(b'\r')));
        if marks != 0 {
            position = Some(index * 8 + marks.trailing_zeros() as usize / 8);
            break;
        }
    }
    let position = position.or_else(|| {
        let offset = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'))?;
        Some(words.len() * 8 + offset)
    })?;
    bytes.get(position).map(|ending| (position, *ending))
}

#[cfg(test)]
mod tests;
