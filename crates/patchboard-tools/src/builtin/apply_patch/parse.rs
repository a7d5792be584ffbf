//! Parser for the patch format.

use super::super::file_runtime::content::MAX_FILE_BYTES;
use crate::text::quoted;

/// A patch that names more files is refused.
const MAX_CHANGES: usize = 200;

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Patch {
    pub(super) changes: Vec<FileChange>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileChange {
    Add { path: String, content: String },
    Delete { path: String },
    Update { path: String, move_to: Option<String>, chunks: Vec<Chunk> },
}

/// Consecutive lines, some of which are added or removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Anchor lines above the chunk that locate it, outermost first.
    pub(super) anchors: Vec<String>,
    pub(super) lines: Vec<PatchLine>,
    pub(super) position: ChunkPosition,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum PatchLine {
    Context(String),
    Removed(String),
    Added(String),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ChunkPosition {
    #[default]
    Anywhere,
    EndOfFile,
}

/// Line numbers start at 1 and refer to the text of the patch.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ParseError {
    #[error("the patch is longer than {MAX_FILE_BYTES} bytes")]
    TooLong,
    #[error("the patch has no line `{BEGIN}`")]
    NoBegin,
    #[error("the patch has no line `{END}`")]
    NoEnd,
    #[error("the patch changes nothing")]
    Empty,
    #[error("the patch changes more than {MAX_CHANGES} files")]
    TooMany,
    #[error("line {line} of the patch names no file")]
    NoPath { line: usize },
    #[error(
        "line {line} of the patch is {text}, where `*** Add File: `, `*** Delete File: ` or `*** Update File: ` is expected"
    )]
    NoChange { line: usize, text: String },
    #[error("line {line} of the patch is {text}, but every line of a new file begins with `+`")]
    NotAdded { line: usize, text: String },
    #[error("line {line} of the patch is {text}, but lines of a change begin with a space, `+`, `-` or `@@`")]
    NotALine { line: usize, text: String },
    #[error("the update at line {line} of the patch changes nothing")]
    NothingUpdated { line: usize },
}

impl Patch {
    /// Text before the beginning and after the end, such as a code fence, is ignored.
    pub(super) fn parse(text: &str) -> Result<Self, ParseError> {
        if text.len() > MAX_FILE_BYTES {
            return Err(ParseError::TooLong);
        }
        let lines: Vec<&str> = text.lines().collect();
        let begin = lines.iter().position(|line| line.trim() == BEGIN).ok_or(ParseError::NoBegin)?;
        // A line with a leading space is content of a file, even if it looks like the end marker.
        let end = lines.iter().rposition(|line| line.trim_end() == END).filter(|end| *end > begin);
        let end = end.or_else(|| lines.iter().rposition(|line| line.trim() == END).filter(|end| *end > begin));
        let end = end.ok_or(ParseError::NoEnd)?;
        let mut parser =
            PatchParser { lines: lines.get(begin + 1..end).unwrap_or_default(), next: 0, lines_before: begin + 1 };
        let mut changes = Vec::new();
        while let Some(change) = parser.change()? {
            changes.push(change);
            if changes.len() > MAX_CHANGES {
                return Err(ParseError::TooMany);
            }
        }
        if changes.is_empty() { Err(ParseError::Empty) } else { Ok(Self { changes }) }
    }
}

struct PatchParser<'a> {
    lines: &'a [&'a str],
    next: usize,
    /// Number of lines of the text before `lines`.
    lines_before: usize,
}

impl<'a> PatchParser<'a> {
    fn change(&mut self) -> Result<Option<FileChange>, ParseError> {
        while self.peek().is_some_and(|line| line.trim().is_empty()) {
            self.next += 1;
        }
        let Some(line) = self.take() else { return Ok(None) };
        let number = self.line_number();
        if let Some(path) = strip_marker(line, ADD) {
            let path = required_path(path, number)?;
            return Ok(Some(FileChange::Add { path, content: self.added()? }));
        }
        if let Some(path) = strip_marker(line, DELETE) {
            return Ok(Some(FileChange::Delete { path: required_path(path, number)? }));
        }
        if let Some(path) = strip_marker(line, UPDATE) {
            let path = required_path(path, number)?;
            return self.update(path, number).map(Some);
        }
        Err(ParseError::NoChange { line: number, text: quoted(line) })
    }

    fn added(&mut self) -> Result<String, ParseError> {
        let mut content = String::new();
        while let Some(line) = self.peek().filter(|line| !begins_change(line)) {
            self.next += 1;
            if let Some(added) = line.strip_prefix('+') {
                content.push_str(added);
                content.push('\n');
            } else if !line.trim().is_empty() || !self.only_blank_until_next_change() {
                return Err(ParseError::NotAdded { line: self.line_number(), text: quoted(line) });
            }
        }
        Ok(content)
    }

    fn update(&mut self, path: String, number: usize) -> Result<FileChange, ParseError> {
        let mut move_to = None;
        if let Some(target) = self.peek().and_then(|line| strip_marker(line, MOVE)) {
            self.next += 1;
            move_to = Some(required_path(target, self.line_number())?);
        }
        let mut chunks = Vec::new();
        while let Some(line) = self.peek().filter(|line| !begins_change(line)) {
            if line.trim().is_empty() && self.only_blank_until_next_change() {
                self.next += 1;
                continue;
            }
            chunks.push(self.chunk()?);
        }
        if chunks.is_empty() && move_to.is_none() {
            return Err(ParseError::NothingUpdated { line: number });
        }
        Ok(FileChange::Update { path, move_to, chunks })
    }

    fn chunk(&mut self) -> Result<Chunk, ParseError> {
        let mut chunk = Chunk::default();
        while let Some(header) = self.peek().and_then(|line| line.strip_prefix("@@")) {
            self.next += 1;
            chunk.anchors.extend(anchor_in(header));
        }
        while let Some(line) = self.peek().filter(|line| !begins_change(line) && !line.starts_with("@@")) {
            if line.trim_end() == END_OF_FILE {
                self.next += 1;
                chunk.position = ChunkPosition::EndOfFile;
                break;
            }
            if line.is_empty() && self.only_blank_until_next_change() {
                break;
            }
            self.next += 1;
            let rest = || line.get(1..).unwrap_or_default().to_owned();
            chunk.lines.push(match line.chars().next() {
                Some(' ') => PatchLine::Context(rest()),
                Some('-') => PatchLine::Removed(rest()),
                Some('+') => PatchLine::Added(rest()),
                // The leading space of an empty context line is easily lost.
                None => PatchLine::Context(String::new()),
                Some(_) => return Err(ParseError::NotALine { line: self.line_number(), text: quoted(line) }),
            });
        }
        if chunk.lines.iter().all(|line| matches!(line, PatchLine::Context(_))) {
            return Err(ParseError::NothingUpdated { line: self.line_number() });
        }
        Ok(chunk)
    }

    fn only_blank_until_next_change(&self) -> bool {
        let rest = self.lines.get(self.next..).unwrap_or_default();
        rest.iter().find(|line| !line.trim().is_empty()).is_none_or(|line| begins_change(line))
    }

    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.next).copied()
    }

    fn take(&mut self) -> Option<&'a str> {
        let line = self.peek()?;
        self.next += 1;
        Some(line)
    }

    /// Number of the line taken last.
    fn line_number(&self) -> usize {
        self.lines_before + self.next
    }
}

fn begins_change(line: &str) -> bool {
    [ADD, DELETE, UPDATE].iter().any(|mark| line.starts_with(mark))
}

fn strip_marker<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    line.strip_prefix(mark).map(str::trim)
}

fn required_path(path: &str, line: usize) -> Result<String, ParseError> {
    if path.is_empty() { Err(ParseError::NoPath { line }) } else { Ok(path.to_owned()) }
}

/// Returns the text after `@@`. Line numbers of the unified format, as in `@@ -1,3 +1,4 @@ place`, are ignored.
fn anchor_in(header: &str) -> Option<String> {
    let header = header.trim();
    let place = match header.split_once("@@") {
        Some((numbers, place)) if numbers.starts_with('-') => place.trim(),
        Some((place, "")) => place.trim(),
        Some(_) | None => header,
    };
    (!place.is_empty()).then(|| place.to_owned())
}
