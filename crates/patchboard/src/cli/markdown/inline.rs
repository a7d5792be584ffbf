//! Inline markup: emphasis, code and links.

use unicode_width::UnicodeWidthStr;

/// Maximum distance between opening and closing markup, as words are held back until the closing one.
const MAX_LOOKAHEAD: usize = 400;

/// A set of text attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextStyle(u8);

impl TextStyle {
    pub(super) const PLAIN: Self = Self(0);
    pub(super) const BOLD: Self = Self(1);
    pub(super) const DIM: Self = Self(2);
    pub(super) const ITALIC: Self = Self(4);
    pub(super) const UNDERLINE: Self = Self(8);
    pub(super) const STRIKE: Self = Self(16);
    pub(super) const CODE: Self = Self(32);
    /// The marker of a list item.
    pub(super) const MARK: Self = Self(64);

    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The escape sequence that turns the style on.
    pub(super) fn begin(self) -> String {
        let codes = [
            (Self::BOLD, "1"),
            (Self::DIM, "2"),
            (Self::ITALIC, "3"),
            (Self::UNDERLINE, "4"),
            (Self::STRIKE, "9"),
            (Self::CODE, "36"),
            (Self::MARK, "33"),
        ];
        let codes: Vec<&str> = codes.into_iter().filter(|(style, _)| self.has(*style)).map(|(_, code)| code).collect();
        if codes.is_empty() { String::new() } else { format!("\x1b[{}m", codes.join(";")) }
    }
}

pub(super) const RESET_SEQUENCE: &str = "\x1b[0m";

/// Text in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextRun {
    pub(super) text: String,
    pub(super) style: TextStyle,
}

/// Columns that a text takes.
pub(super) fn display_width(text: &str) -> usize {
    text.chars().filter(|c| *c == '\t').count() * 3 + text.width()
}

/// The prefix whose rendering cannot change: its length in bytes, up to a space outside of unclosed markup, and its
/// runs.
pub(super) fn stable_prefix(text: &str, base: TextStyle) -> (usize, Vec<TextRun>) {
    let mut last_space = 0;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with([' ', '\t']) {
            last_space = at;
        }
        match match_span(text, at, InputState::Partial) {
            SpanMatch::PlainText(length) => at += length,
            SpanMatch::Span { end, .. } => at = end,
            SpanMatch::Incomplete => break,
        }
    }
    // Parsed with the text after the space in view, so that markup is matched as in the loop above.
    let mut runs = Vec::new();
    parse_into(text, last_space, InputState::Partial, base, &mut runs);
    (last_space, runs)
}

/// The runs of a complete text.
pub(super) fn parse_runs(text: &str, base: TextStyle) -> Vec<TextRun> {
    let mut runs = Vec::new();
    parse_into(text, text.len(), InputState::Complete, base, &mut runs);
    runs
}

/// Whether more text may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputState {
    Complete,
    Partial,
}

/// Adds the runs of the first `length` bytes.
fn parse_into(text: &str, length: usize, end: InputState, base: TextStyle, runs: &mut Vec<TextRun>) {
    let mut at = 0;
    while at < length {
        let rest = text.get(at..length).unwrap_or_default();
        match match_span(text, at, end) {
            SpanMatch::Span { end, kind } => {
                let mut whole = |text: &str, style: TextStyle| {
                    parse_into(text, text.len(), InputState::Complete, base.with(style), runs);
                };
                match kind {
                    InlineKind::Styled(inner, style) => whole(inner, style),
                    InlineKind::Link { words, address } => {
                        whole(words, TextStyle::UNDERLINE);
                        if words != address && !address.is_empty() {
                            add(runs, " (", base.with(TextStyle::DIM));
                            add(runs, address, base.with(TextStyle::DIM));
                            add(runs, ")", base.with(TextStyle::DIM));
                        }
                    }
                    InlineKind::Escaped(c) => add(runs, c, base),
                    InlineKind::Code(code) => add(runs, code, base.with(TextStyle::CODE)),
                }
                at = end;
            }
            SpanMatch::PlainText(length) => {
                add(runs, rest.get(..length).unwrap_or(rest), base);
                at += length;
            }
            // Occurs only for partial input, where the rest is not read.
            SpanMatch::Incomplete => return,
        }
    }
}

fn add(runs: &mut Vec<TextRun>, text: &str, style: TextStyle) {
    match runs.last_mut() {
        Some(run) if run.style == style => run.text.push_str(text),
        _ => runs.push(TextRun { text: text.to_owned(), style }),
    }
}

enum SpanMatch<'a> {
    /// Ordinary text of this many bytes.
    PlainText(usize),
    Span {
        end: usize,
        kind: InlineKind<'a>,
    },
    /// Markup that later text may close.
    Incomplete,
}

enum InlineKind<'a> {
    Escaped(&'a str),
    Code(&'a str),
    Styled(&'a str, TextStyle),
    Link { words: &'a str, address: &'a str },
}

/// The text examined to match markup. Later text is ignored, so that the result does not depend on how much has
/// arrived.
#[derive(Debug, Clone, Copy)]
struct LookaheadWindow<'a> {
    text: &'a str,
    /// Unclosed markup stays open as long as the window can grow.
    is_complete: bool,
}

impl<'a> LookaheadWindow<'a> {
    fn new(rest: &'a str, end: InputState) -> Self {
        let mut length = rest.len().min(MAX_LOOKAHEAD);
        while !rest.is_char_boundary(length) {
            length -= 1;
        }
        Self {
            text: rest.get(..length).unwrap_or(rest),
            is_complete: end == InputState::Complete || rest.len() >= MAX_LOOKAHEAD,
        }
    }

    fn from(self, begin: usize) -> Self {
        Self { text: self.text.get(begin..).unwrap_or_default(), ..self }
    }

    /// Incomplete while it may still be closed; after that ordinary text of `length` bytes.
    fn unclosed(self, length: usize) -> SpanMatch<'a> {
        if self.is_complete { SpanMatch::PlainText(length) } else { SpanMatch::Incomplete }
    }
}

/// Matches the markup at `at`.
fn match_span(text: &str, at: usize, end: InputState) -> SpanMatch<'_> {
    let seen = LookaheadWindow::new(text.get(at..).unwrap_or_default(), end);
    let Some(first) = seen.text.chars().next() else { return SpanMatch::PlainText(1) };
    match first {
        '\\' => match seen.text.chars().nth(1) {
            Some(c) if c.is_ascii_punctuation() => {
                SpanMatch::Span { end: at + 2, kind: InlineKind::Escaped(seen.text.get(1..2).unwrap_or_default()) }
            }
            Some(_) => SpanMatch::PlainText(1),
            None => seen.unclosed(1),
        },
        '`' => code(seen, at),
        '*' | '_' | '~' => {
            let before = text.get(..at).and_then(|before| before.chars().next_back());
            emphasis(seen, at, first, before)
        }
        '[' => link(seen, at, 0),
        '!' if seen.text.starts_with("![") => link(seen, at, 1),
        _ => SpanMatch::PlainText(first.len_utf8()),
    }
}

fn marker_length(rest: &str, mark: char) -> usize {
    rest.chars().take_while(|c| *c == mark).count()
}

fn code(seen: LookaheadWindow<'_>, at: usize) -> SpanMatch<'_> {
    let length = marker_length(seen.text, '`');
    let mut from = length;
    while let Some(found) = seen.text.get(from..).and_then(|rest| rest.find('`')) {
        let begin = from + found;
        let close = marker_length(seen.from(begin).text, '`');
        if close == length {
            let inner = seen.text.get(length..begin).unwrap_or_default();
            let inner = match inner.strip_prefix(' ').and_then(|inner| inner.strip_suffix(' ')) {
                Some(bare) if !bare.trim().is_empty() => bare,
                _ => inner,
            };
            return SpanMatch::Span { end: at + begin + close, kind: InlineKind::Code(inner) };
        }
        from = begin + close;
    }
    seen.unclosed(length)
}

/// `before`: the preceding character.
fn emphasis(seen: LookaheadWindow<'_>, at: usize, mark: char, before: Option<char>) -> SpanMatch<'_> {
    let length = marker_length(seen.text, mark);
    // A long marker that is not closed is retried as a shorter one.
    let never_closed = seen.unclosed(1);
    let Some(next) = seen.from(length).text.chars().next() else { return never_closed };
    let inside_word = mark == '_' && before.is_some_and(char::is_alphanumeric);
    let style = match (mark, length) {
        ('~', 2) => TextStyle::STRIKE,
        ('*' | '_', 1) => TextStyle::ITALIC,
        ('*' | '_', 2) => TextStyle::BOLD,
        ('*' | '_', 3) => TextStyle::BOLD.with(TextStyle::ITALIC),
        _ => return SpanMatch::PlainText(length),
    };
    if next.is_whitespace() || inside_word {
        return SpanMatch::PlainText(length);
    }
    let mut from = length;
    while let Some(found) = seen.text.get(from..).and_then(|rest| rest.find([mark, '`', '\\'])) {
        let begin = from + found;
        let here = seen.from(begin);
        if here.text.starts_with('\\') {
            from = begin + 1 + here.text.chars().nth(1).map_or(0, char::len_utf8);
            continue;
        }
        if here.text.starts_with('`') {
            // Markup inside code is ignored.
            from = match code(here, begin) {
                SpanMatch::Span { end, .. } => end,
                SpanMatch::PlainText(length) => begin + length,
                SpanMatch::Incomplete => return SpanMatch::Incomplete,
            };
            continue;
        }
        let close = marker_length(here.text, mark);
        let after = here.from(close).text.chars().next();
        let follows_word = seen.text.get(..begin).and_then(|before| before.chars().next_back());
        let closes = close == length
            && follows_word.is_some_and(|c| !c.is_whitespace())
            && !(mark == '_' && after.is_some_and(char::is_alphanumeric));
        if closes {
            let inner = seen.text.get(length..begin).unwrap_or_default();
            return SpanMatch::Span { end: at + begin + close, kind: InlineKind::Styled(inner, style) };
        }
        from = begin + close;
    }
    never_closed
}

/// `skip`: bytes before the bracket.
fn link(seen: LookaheadWindow<'_>, at: usize, skip: usize) -> SpanMatch<'_> {
    let never_closed = seen.unclosed(1);
    let Some(close) = seen.text.find(']') else { return never_closed };
    let words = seen.text.get(skip + 1..close).unwrap_or_default();
    let after = seen.from(close + 1).text;
    match after.chars().next() {
        None => never_closed,
        Some('(') => match after.find([')', ' ']) {
            Some(end) if after.get(end..).is_some_and(|end| end.starts_with(')')) => {
                let address = after.get(1..end).unwrap_or_default();
                SpanMatch::Span { end: at + close + 1 + end + 1, kind: InlineKind::Link { words, address } }
            }
            Some(_) => SpanMatch::PlainText(skip + 1),
            None => never_closed,
        },
        Some(_) => SpanMatch::PlainText(skip + 1),
    }
}
