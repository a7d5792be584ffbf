//! Locates the piece of a text that an edit refers to and replaces it.

use std::ops::Range;

use super::super::file_runtime::ToolRefusal;
use super::super::file_runtime::content::MAX_FILE_BYTES;
use super::super::matching::{IndentMap, MatchTolerance, find_runs};

/// Occurrences are counted up to this number; more than one is an error anyway.
const MAX_COUNTED: usize = 1000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::builtin) struct TextEdit {
    pub(in crate::builtin) old: String,
    pub(in crate::builtin) new: String,
    pub(in crate::builtin) occurrences: Occurrences,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::builtin) enum Occurrences {
    Unique,
    All,
}

#[derive(Debug, PartialEq, Eq)]
pub(in crate::builtin) struct ReplacedText {
    pub(in crate::builtin) text: String,
    count: usize,
    /// Line of the first piece, from 1.
    line: usize,
    method: MatchMethod,
}

/// How the old text was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::builtin) enum MatchMethod {
    /// Exactly, apart from line endings.
    Verbatim,
    Tolerant(MatchTolerance),
    /// After escapes such as `\n` and `\"` were decoded.
    Unescaped,
}

#[derive(Debug, PartialEq, Eq)]
pub(in crate::builtin) enum EditError {
    Empty,
    SameText,
    NotFound,
    /// The only match is indented so inconsistently that the indentation of new lines is unclear.
    Indentation {
        line: usize,
    },
    Ambiguous {
        count: usize,
        how: MatchMethod,
    },
    TooLarge,
}

/// A range of the text and its replacement.
struct TextReplacement {
    range: Range<usize>,
    new: String,
}

impl TextEdit {
    pub(in crate::builtin) fn apply(&self, text: &str) -> Result<ReplacedText, EditError> {
        if self.old.is_empty() {
            return Err(EditError::Empty);
        }
        if self.old == self.new {
            return Err(EditError::SameText);
        }
        let found = self.find(text)?;
        let Some(first) = found.pieces.first() else { return Err(EditError::NotFound) };
        let line = line_of(text, first.range.start);
        let removed: usize = found.pieces.iter().map(|piece| piece.range.len()).sum();
        let added: usize = found.pieces.iter().map(|piece| piece.new.len()).sum();
        let length = text.len() - removed + added;
        if length > MAX_FILE_BYTES {
            return Err(EditError::TooLarge);
        }
        let (mut whole, mut from) = (String::with_capacity(length), 0);
        for piece in &found.pieces {
            whole.push_str(text.get(from..piece.range.start).unwrap_or_default());
            whole.push_str(&piece.new);
            from = piece.range.end;
        }
        whole.push_str(text.get(from..).unwrap_or_default());
        if whole == text {
            return Err(EditError::SameText);
        }
        Ok(ReplacedText { text: whole, count: found.pieces.len(), line, method: found.method })
    }

    /// Uses the first method that finds anything: a more tolerant one would find the same and more.
    fn find(&self, text: &str) -> Result<EditMatch, EditError> {
        let (old, new, ends) = self.with_line_ends_of(text);
        let (told, adapted) = ((self.old.as_str(), self.new.as_str()), (old.as_str(), new.as_str()));
        // In a file with uniform line endings the new text must not introduce others.
        let ways = if ends == LineEnds::Windows { [adapted, told] } else { [told, adapted] };
        for (old, new) in ways {
            if let Some(found) = self.find_exact(text, old, new, MatchMethod::Verbatim)? {
                return Ok(found);
            }
        }
        let trimmed = (without_blank_lines(&self.old), without_blank_lines(&self.new));
        let mut indented_oddly = None;
        for (old, new) in [(self.old.as_str(), self.new.as_str()), trimmed] {
            for closeness in MatchTolerance::ALL {
                match self.find_by_lines(text, old, new, closeness) {
                    Ok(Some(found)) => return Ok(found),
                    Ok(None) => {}
                    Err(EditError::Indentation { line }) => indented_oddly = Some(line),
                    Err(other) => return Err(other),
                }
            }
        }
        let (old, new) = (unescaped(&self.old), unescaped(&self.new));
        if old != self.old
            && !old.is_empty()
            && let Some(found) = self.find_exact(text, &old, &new, MatchMethod::Unescaped)?
        {
            return Ok(found);
        }
        Err(indented_oddly.map_or(EditError::NotFound, |line| EditError::Indentation { line }))
    }

    fn find_exact(&self, text: &str, old: &str, new: &str, how: MatchMethod) -> Result<Option<EditMatch>, EditError> {
        let starts: Vec<usize> = match self.occurrences {
            Occurrences::All => text.match_indices(old).map(|(start, _)| start).collect(),
            // Overlapping occurrences count too: which of them is meant is unknown.
            Occurrences::Unique => overlapping_starts(text, old),
        };
        let pieces =
            starts.into_iter().map(|start| TextReplacement { range: start..start + old.len(), new: new.to_owned() });
        self.check_count(pieces.collect(), how)
    }

    fn find_by_lines(
        &self,
        text: &str,
        old: &str,
        new: &str,
        closeness: MatchTolerance,
    ) -> Result<Option<EditMatch>, EditError> {
        if old.trim().is_empty() {
            return Ok(None);
        }
        let (wanted, takes_line_end) = (lines_of(old), old.ends_with('\n'));
        let spans = spans_of(text);
        let lines: Vec<&str> = spans.iter().filter_map(|span| text.get(span.clone())).collect();
        let starts = find_runs(&lines, &wanted, closeness);
        if self.occurrences == Occurrences::Unique && starts.len() > 1 {
            return Err(EditError::Ambiguous { count: starts.len(), how: MatchMethod::Tolerant(closeness) });
        }
        let mut pieces: Vec<TextReplacement> = Vec::new();
        for start in starts {
            let Some(there) = spans.get(start..start + wanted.len()) else { continue };
            let (Some(first), Some(last)) = (there.first(), there.last()) else { continue };
            if pieces.last().is_some_and(|before| before.range.end > first.start) {
                continue;
            }
            let told = wanted.iter().copied();
            let pairs = told.zip(there.iter().filter_map(|span| text.get(span.clone())));
            let Some(indent) = IndentMap::from_pairs(pairs) else {
                return Err(EditError::Indentation { line: start + 1 });
            };
            let line_end =
                if text.get(last.end..).is_some_and(|rest| rest.starts_with("\r\n")) { "\r\n" } else { "\n" };
            let new_lines: Vec<_> = lines_of(new).into_iter().map(|line| indent.apply(line)).collect();
            let mut piece = new_lines.join(line_end);
            let end = match takes_line_end {
                true => spans.get(start + wanted.len()).map_or(text.len(), |next| next.start),
                false => last.end,
            };
            // A last line without a line ending stays without one.
            if new.ends_with('\n') && (end > last.end || !takes_line_end) {
                piece.push_str(line_end);
            }
            pieces.push(TextReplacement { range: first.start..end, new: piece });
        }
        self.check_count(pieces, MatchMethod::Tolerant(closeness))
    }

    fn check_count(&self, pieces: Vec<TextReplacement>, how: MatchMethod) -> Result<Option<EditMatch>, EditError> {
        match (pieces.len(), self.occurrences) {
            (0, _) => Ok(None),
            (1, _) | (_, Occurrences::All) => Ok(Some(EditMatch { pieces, method: how })),
            (count, Occurrences::Unique) => Err(EditError::Ambiguous { count, how }),
        }
    }

    /// Models write `\n`; in a file with only Windows line endings the edit's text is converted.
    fn with_line_ends_of(&self, text: &str) -> (String, String, LineEnds) {
        let (ends, windows_ends) = (text.matches('\n').count(), text.matches("\r\n").count());
        let unix = |text: &str| text.replace("\r\n", "\n");
        if windows_ends > 0 && windows_ends == ends {
            let windows = |text: &str| unix(text).replace('\n', "\r\n");
            (windows(&self.old), windows(&self.new), LineEnds::Windows)
        } else {
            (unix(&self.old), unix(&self.new), LineEnds::UnixOrMixed)
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineEnds {
    Windows,
    UnixOrMixed,
}

struct EditMatch {
    pieces: Vec<TextReplacement>,
    method: MatchMethod,
}

impl ReplacedText {
    /// What the model should know: that the text matched only approximately, or how often it matched.
    pub(in crate::builtin) fn remark(&self) -> Option<String> {
        let line = self.line;
        match (self.method, self.count) {
            (MatchMethod::Verbatim, 1) => None,
            (MatchMethod::Verbatim, count) => Some(format!("{count} occurrences replaced")),
            (MatchMethod::Tolerant(closeness), 1) => Some(format!("found at line {line} {}", closeness.as_str())),
            (MatchMethod::Tolerant(closeness), count) => {
                Some(format!("{count} occurrences found {}", closeness.as_str()))
            }
            (MatchMethod::Unescaped, 1) => Some(format!("found at line {line} after reading escapes such as `\\n`")),
            (MatchMethod::Unescaped, count) => {
                Some(format!("{count} occurrences found after reading escapes such as `\\n`"))
            }
        }
    }
}

impl EditError {
    pub(in crate::builtin) fn into_refusal(self, path: &str) -> ToolRefusal {
        ToolRefusal(match self {
            Self::Empty => "`oldString` is empty".to_owned(),
            Self::SameText => "nothing would change: `oldString` and `newString` come to the same".to_owned(),
            Self::NotFound => format!("`oldString` is not in {path}: `read` the file and copy the text from it"),
            Self::Indentation { line } => format!(
                "`oldString` fits {path} at line {line} only when indentation is ignored, and how to indent `newString` \
                 cannot be told from it: copy the text exactly"
            ),
            Self::Ambiguous { count, how } => {
                let count = if count >= MAX_COUNTED { format!("at least {count}") } else { count.to_string() };
                let how = match how {
                    MatchMethod::Verbatim => String::new(),
                    MatchMethod::Tolerant(closeness) => format!(" {}", closeness.as_str()),
                    MatchMethod::Unescaped => " after reading escapes".to_owned(),
                };
                format!(
                    "`oldString` is found {count} times in {path}{how}: take more lines around it, or set `replaceAll`"
                )
            }
            Self::TooLarge => format!("{path} would become larger than {MAX_FILE_BYTES} bytes"),
        })
    }
}

fn overlapping_starts(text: &str, old: &str) -> Vec<usize> {
    let step = old.chars().next().map_or(1, char::len_utf8);
    let (mut starts, mut from) = (Vec::new(), 0);
    while let Some(found) = text.get(from..).and_then(|rest| rest.find(old)) {
        starts.push(from + found);
        if starts.len() == MAX_COUNTED {
            break;
        }
        from += found + step;
    }
    starts
}

fn line_of(text: &str, offset: usize) -> usize {
    text.get(..offset).map_or(0, |before| before.matches('\n').count()) + 1
}

/// The lines without their line endings.
fn lines_of(text: &str) -> Vec<&str> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect()
}

/// The ranges of the lines without their line endings.
fn spans_of(text: &str) -> Vec<Range<usize>> {
    let mut start = 0;
    let spans = text.split_inclusive('\n').map(|line| {
        let bare = line.strip_suffix('\n').unwrap_or(line);
        let bare = bare.strip_suffix('\r').unwrap_or(bare);
        let span = start..start + bare.len();
        start += line.len();
        span
    });
    spans.collect()
}

fn without_blank_lines(text: &str) -> &str {
    let mut kept = text;
    while let Some((first, rest)) = kept.split_once('\n')
        && first.trim().is_empty()
    {
        kept = rest;
    }
    while let Some((rest, last)) = kept.rsplit_once('\n')
        && last.trim().is_empty()
    {
        kept = rest;
    }
    kept
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        match characters.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('r') => plain.push('\r'),
            Some(mark @ ('\\' | '"' | '\'' | '`' | '$')) => plain.push(mark),
            Some(other) => plain.extend(['\\', other]),
            None => plain.push('\\'),
        }
    }
    plain
}
