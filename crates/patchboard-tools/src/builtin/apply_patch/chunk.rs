//! Applies the chunks of a patch to the text of a file.

use super::super::matching::{IndentMap, MatchTolerance, find_runs};
use super::parse::{Chunk, ChunkPosition, PatchLine};
use crate::text::quoted;

/// Chunk numbers start at 1.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ChunkError {
    #[error("chunk {chunk}: no line {place} from line {from} on")]
    AnchorNotFound { chunk: usize, place: String, from: usize },
    #[error("chunk {chunk}: its lines, beginning with {first}, are not found together from line {from} on")]
    NotFound { chunk: usize, first: String, from: usize },
    #[error(
        "chunk {chunk}: its lines, beginning with {first}, are found {count} times: give more lines around the change, or \
         an `@@` line above it"
    )]
    Ambiguous { chunk: usize, first: String, count: usize },
    #[error("chunk {chunk}: its lines are found only with other indentation, and how to indent new ones is unclear")]
    Indentation { chunk: usize },
}

/// A line of the file and its line ending.
#[derive(Clone, Copy)]
struct FileLine<'a> {
    text: &'a str,
    end: &'a str,
}

/// Chunks must be in the order of the file: each is searched for after the previous one.
pub(super) fn apply_chunks(content: &str, chunks: &[Chunk]) -> Result<String, ChunkError> {
    let lines: Vec<FileLine<'_>> = content.split_inclusive('\n').map(FileLine::new).collect();
    let texts: Vec<&str> = lines.iter().map(|line| line.text).collect();
    let line_end = lines.first().map_or("\n", |line| if line.end.is_empty() { "\n" } else { line.end });
    let mut result: Vec<(String, &str)> = Vec::new();
    let mut done = 0;
    for (index, chunk) in chunks.iter().enumerate() {
        let found = locate_chunk(&texts, chunk, index + 1, done)?;
        result.extend(lines.iter().take(found.start).skip(done).map(FileLine::output_line));
        let mut there = lines.iter().skip(found.start);
        let mut used = 0;
        for line in &chunk.lines {
            match line {
                // The file's own line, in case the two differ in blanks.
                PatchLine::Context(_) => result.extend(there.next().map(FileLine::output_line)),
                PatchLine::Removed(_) => {
                    there.next();
                }
                PatchLine::Added(text) => {
                    result.push((found.indent.as_ref().map_or(text.clone(), |indent| indent.apply(text)), line_end));
                    continue;
                }
            }
            used += 1;
        }
        done = found.start + used;
    }
    result.extend(lines.iter().skip(done).map(FileLine::output_line));
    let ends_with_a_line_end = content.is_empty() || content.ends_with('\n');
    Ok(join_lines(result, line_end, ends_with_a_line_end))
}

struct ChunkMatch<'a> {
    start: usize,
    indent: Option<IndentMap<'a>>,
}

fn locate_chunk<'a>(
    texts: &[&'a str],
    chunk: &'a Chunk,
    number: usize,
    done: usize,
) -> Result<ChunkMatch<'a>, ChunkError> {
    let mut from = done;
    for place in &chunk.anchors {
        let rest = texts.get(from..).unwrap_or_default();
        let at =
            MatchTolerance::ALL.into_iter().find_map(|closeness| find_runs(rest, &[place], closeness).first().copied());
        let no_place = || ChunkError::AnchorNotFound { chunk: number, place: quoted(place), from: from + 1 };
        from += at.ok_or_else(no_place)? + 1;
    }
    let old: Vec<&str> = chunk.lines.iter().filter_map(PatchLine::old).collect();
    let Some(first) = old.first() else {
        // Only added lines: inserted below the anchor, or at the end of the file.
        let start =
            if chunk.anchors.is_empty() || chunk.position == ChunkPosition::EndOfFile { texts.len() } else { from };
        return Ok(ChunkMatch { start, indent: None });
    };
    let first = quoted(first);
    // The anchor line may also be the first line of the chunk.
    let starts = if chunk.anchors.is_empty() { vec![from] } else { vec![from, from - 1] };
    for from in starts {
        let rest = texts.get(from..).unwrap_or_default();
        for closeness in MatchTolerance::ALL {
            let mut found = find_runs(rest, &old, closeness);
            if chunk.position == ChunkPosition::EndOfFile {
                found.retain(|start| start + old.len() == rest.len());
            }
            let Some(start) = found.first().copied() else { continue };
            if found.len() > 1 && chunk.anchors.is_empty() {
                return Err(ChunkError::Ambiguous { chunk: number, first, count: found.len() });
            }
            let there = rest.iter().skip(start).copied();
            let indent =
                IndentMap::from_pairs(old.iter().copied().zip(there)).ok_or(ChunkError::Indentation { chunk: number });
            return Ok(ChunkMatch { start: from + start, indent: Some(indent?) });
        }
    }
    Err(ChunkError::NotFound { chunk: number, first, from: from + 1 })
}

impl PatchLine {
    /// The line before the change.
    fn old(&self) -> Option<&str> {
        match self {
            Self::Context(text) | Self::Removed(text) => Some(text),
            Self::Added(_) => None,
        }
    }
}

impl<'a> FileLine<'a> {
    fn new(line: &'a str) -> Self {
        let text = line.strip_suffix('\n').map_or(line, |bare| bare.strip_suffix('\r').unwrap_or(bare));
        Self { text, end: line.get(text.len()..).unwrap_or_default() }
    }

    fn output_line(&self) -> (String, &'a str) {
        (self.text.to_owned(), self.end)
    }
}

/// Ends every line; the last one only if the file ended with a line ending.
fn join_lines(lines: Vec<(String, &str)>, line_end: &str, ends_with_a_line_end: bool) -> String {
    let last = lines.len().saturating_sub(1);
    let mut whole = String::new();
    for (index, (text, end)) in lines.into_iter().enumerate() {
        whole.push_str(&text);
        match (index == last, ends_with_a_line_end) {
            (true, false) => {}
            (true, true) | (false, _) => whole.push_str(if end.is_empty() { line_end } else { end }),
        }
    }
    whole
}
