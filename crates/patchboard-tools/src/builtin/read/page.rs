//! Selects and formats the lines of a text. Works on readers, not on files; memory is bounded whatever the text.

use std::borrow::Cow;
use std::io::{self, BufRead};

/// Longer lines are cut, with a note that states their length.
const MAX_LINE_BYTES: usize = 2000;
/// A page ends before it exceeds this, so that its last line, which says how to continue, is not cut off by the limit
/// on tool outputs.
const MAX_PAGE_BYTES: usize = 60 * 1024;
/// A NUL within this many bytes marks the file as binary.
const SNIFFED_BYTES: usize = 8 * 1024;

#[derive(Debug, Clone, Copy)]
pub(super) struct LineRange {
    /// Lines to skip.
    pub(super) offset: u64,
    pub(super) limit: u64,
}

#[derive(Debug)]
pub(super) enum PageError {
    Read(io::Error),
    Binary,
    PastEnd {
        lines: u64,
    },
    /// The offset lies beyond what may be scanned.
    TooFar,
}

pub(super) struct TextPage {
    text: String,
    /// Lines passed so far, shown or not.
    lines_read: u64,
    not_utf8: bool,
    crlf: bool,
}

/// A line without its ending.
struct LineExtent {
    length: u64,
    ended_by: LineEnding,
}

#[derive(PartialEq, Eq)]
enum LineEnding {
    Newline,
    EndOfText,
}

impl TextPage {
    /// `scan_limit` is the length to which `reader` is limited: a text that reaches it may be longer.
    pub(super) fn read(reader: &mut impl BufRead, request: LineRange, scan_limit: u64) -> Result<String, PageError> {
        let head = reader.fill_buf().map_err(PageError::Read)?;
        if head.iter().take(SNIFFED_BYTES).any(|byte| *byte == 0) {
            return Err(PageError::Binary);
        }
        if head.is_empty() && request.offset == 0 {
            return Ok("[the file is empty]".to_owned());
        }
        let mut lines = LineScanner { reader, scanned: 0 };
        let mut page = Self { text: String::new(), lines_read: 0, not_utf8: false, crlf: false };
        page.skip(&mut lines, request.offset, scan_limit)?;
        page.push_lines(&mut lines, request.limit)?;
        let shown_to = page.lines_read;
        let total = page.count_rest(&mut lines, scan_limit)?;
        if shown_to == request.offset {
            return Err(PageError::PastEnd { lines: shown_to });
        }
        page.push_notes(request.offset, shown_to, total);
        Ok(page.text)
    }

    fn skip(&mut self, lines: &mut LineScanner<impl BufRead>, offset: u64, scan_limit: u64) -> Result<(), PageError> {
        while self.lines_read < offset {
            match lines.next(LineCapture::Discard).map_err(PageError::Read)? {
                Some(_) => self.lines_read += 1,
                None if lines.scanned >= scan_limit => return Err(PageError::TooFar),
                None => return Err(PageError::PastEnd { lines: self.lines_read }),
            }
        }
        Ok(())
    }

    fn push_lines(&mut self, lines: &mut LineScanner<impl BufRead>, limit: u64) -> Result<(), PageError> {
        let mut kept = Vec::new();
        // The most a line can add: all its bytes may become replacement characters, plus number and note.
        let worst_line = 3 * MAX_LINE_BYTES + 100;
        let mut shown = 0;
        while shown < limit && self.text.len() + worst_line <= MAX_PAGE_BYTES {
            let Some(line) = lines.next(LineCapture::Prefix(&mut kept)).map_err(PageError::Read)? else { break };
            self.lines_read += 1;
            shown += 1;
            self.push_line(&line, &kept);
        }
        Ok(())
    }

    fn push_line(&mut self, line: &LineExtent, kept: &[u8]) {
        let mut kept = kept;
        let mut length = line.length;
        if line.ended_by == LineEnding::Newline
            && line.length == kept.len() as u64
            && let Some(without) = kept.strip_suffix(b"\r")
        {
            self.crlf = true;
            kept = without;
            length -= 1;
        }
        let cut = length > kept.len() as u64;
        if cut {
            kept = whole_characters(kept);
        }
        let text = String::from_utf8_lossy(kept);
        self.not_utf8 |= matches!(text, Cow::Owned(_));
        let number = self.lines_read;
        self.text.push_str(&format!("{number:>6}\t{text}"));
        if cut {
            self.text.push_str(&format!(" [line cut: {} of {length} bytes shown]", kept.len()));
        }
        self.text.push('\n');
    }

    /// Counts the remaining lines; `None` if the text continues beyond the scan limit.
    fn count_rest(&mut self, lines: &mut LineScanner<impl BufRead>, scan_limit: u64) -> Result<Option<u64>, PageError> {
        while lines.next(LineCapture::Discard).map_err(PageError::Read)?.is_some() {
            self.lines_read += 1;
        }
        Ok((lines.scanned < scan_limit).then_some(self.lines_read))
    }

    fn push_notes(&mut self, offset: u64, shown_to: u64, total: Option<u64>) {
        let first = offset + 1;
        let note = match total {
            Some(total) if total == shown_to && offset == 0 => None,
            Some(total) if total == shown_to => Some(format!("[lines {first}-{shown_to}, the last of {total}]")),
            Some(total) => Some(format!("[lines {first}-{shown_to} of {total}; go on with offset {shown_to}]")),
            None => Some(format!("[lines {first}-{shown_to}, more follow; go on with offset {shown_to}]")),
        };
        let not_utf8 = self.not_utf8.then(|| "[bytes that are not UTF-8 are shown as \u{fffd}]".to_owned());
        let crlf = self.crlf.then(|| "[lines end with CR LF]".to_owned());
        for note in [crlf, not_utf8, note].into_iter().flatten() {
            self.text.push_str(&note);
            self.text.push('\n');
        }
        self.text.truncate(self.text.trim_end_matches('\n').len());
    }
}

/// Scans lines of any length and keeps at most their beginning.
struct LineScanner<'a, R> {
    reader: &'a mut R,
    scanned: u64,
}

enum LineCapture<'a> {
    Discard,
    Prefix(&'a mut Vec<u8>),
}

impl<R: BufRead> LineScanner<'_, R> {
    fn next(&mut self, mut keep: LineCapture<'_>) -> io::Result<Option<LineExtent>> {
        if let LineCapture::Prefix(kept) = &mut keep {
            kept.clear();
        }
        let mut length = 0;
        loop {
            let piece = self.reader.fill_buf()?;
            if piece.is_empty() {
                return Ok((length > 0).then_some(LineExtent { length, ended_by: LineEnding::EndOfText }));
            }
            let newline = piece.iter().position(|byte| *byte == b'\n');
            let content = piece.get(..newline.unwrap_or(piece.len())).unwrap_or_default();
            if let LineCapture::Prefix(kept) = &mut keep {
                let room = MAX_LINE_BYTES.saturating_sub(kept.len());
                kept.extend_from_slice(content.get(..room.min(content.len())).unwrap_or_default());
            }
            length += content.len() as u64;
            let used = content.len() + usize::from(newline.is_some());
            self.reader.consume(used);
            self.scanned += used as u64;
            if newline.is_some() {
                return Ok(Some(LineExtent { length, ended_by: LineEnding::Newline }));
            }
        }
    }
}

/// Drops an incomplete character at the end.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.get(..error.valid_up_to()).unwrap_or(bytes),
        Ok(_) | Err(_) => bytes,
    }
}
