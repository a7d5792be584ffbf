//! Marks inside a line: what is bold, code or a link.

use unicode_width::UnicodeWidthStr;

/// An opening mark and its closing one are at most so far apart: words wait for the closing one.
const FURTHEST: usize = 400;

/// How text looks; several at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Style(u8);

impl Style {
    pub(super) const PLAIN: Self = Self(0);
    pub(super) const BOLD: Self = Self(1);
    pub(super) const DIM: Self = Self(2);
    pub(super) const ITALIC: Self = Self(4);
    pub(super) const UNDERLINE: Self = Self(8);
    pub(super) const STRIKE: Self = Self(16);
    pub(super) const CODE: Self = Self(32);
    /// The mark of an item.
    pub(super) const MARK: Self = Self(64);

    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The bytes that begin it.
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

pub(super) const END: &str = "\x1b[0m";

/// Text of one look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) text: String,
    pub(super) style: Style,
}

/// Columns that text takes.
pub(super) fn columns(text: &str) -> usize {
    text.chars().filter(|c| *c == '\t').count() * 3 + text.width()
}

/// How much of `text` can be shown whatever follows: up to a space outside of any mark that may still be closed.
pub(super) fn ready(text: &str) -> usize {
    let mut last_space = 0;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with([' ', '\t']) {
            last_space = at;
        }
        match span(text, at) {
            Found::Nothing(length) => at += length,
            Found::Span { end, .. } => at = end,
            Found::Open => return last_space,
        }
    }
    last_space
}

/// The runs of a text that is whole.
pub(super) fn runs(text: &str, base: Style) -> Vec<Run> {
    let mut runs = Vec::new();
    read(text, base, &mut runs);
    runs
}

fn read(text: &str, base: Style, runs: &mut Vec<Run>) {
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        match span(text, at) {
            Found::Span { end, kind } => {
                match kind {
                    Kind::Escaped(c) => add(runs, c, base),
                    Kind::Code(code) => add(runs, code, base.with(Style::CODE)),
                    Kind::Styled(inner, style) => read(inner, base.with(style), runs),
                    Kind::Link { words, address } => {
                        read(words, base.with(Style::UNDERLINE), runs);
                        if words != address && !address.is_empty() {
                            add(runs, " (", base.with(Style::DIM));
                            add(runs, address, base.with(Style::DIM));
                            add(runs, ")", base.with(Style::DIM));
                        }
                    }
                }
                at = end;
            }
            Found::Nothing(length) => {
                add(runs, rest.get(..length).unwrap_or(rest), base);
                at += length;
            }
            // Never closed: it is what it is.
            Found::Open => {
                let length = rest.chars().next().map_or(1, char::len_utf8);
                add(runs, rest.get(..length).unwrap_or(rest), base);
                at += length;
            }
        }
    }
}

fn add(runs: &mut Vec<Run>, text: &str, style: Style) {
    match runs.last_mut() {
        Some(run) if run.style == style => run.text.push_str(text),
        _ => runs.push(Run { text: text.to_owned(), style }),
    }
}

enum Found<'a> {
    /// So many bytes of ordinary text.
    Nothing(usize),
    Span {
        end: usize,
        kind: Kind<'a>,
    },
    /// A mark that may be closed by what is still to come.
    Open,
}

enum Kind<'a> {
    Escaped(&'a str),
    Code(&'a str),
    Styled(&'a str, Style),
    Link { words: &'a str, address: &'a str },
}

/// What begins at `at`.
fn span(text: &str, at: usize) -> Found<'_> {
    let rest = text.get(at..).unwrap_or_default();
    let Some(first) = rest.chars().next() else { return Found::Nothing(0) };
    match first {
        '\\' => match rest.get(1..2) {
            Some(c) if c.starts_with(|c: char| c.is_ascii_punctuation()) => {
                Found::Span { end: at + 2, kind: Kind::Escaped(c) }
            }
            Some(_) => Found::Nothing(1),
            None if rest.len() > 1 => Found::Nothing(1),
            None => Found::Open,
        },
        '`' => code(rest, at),
        '*' | '_' | '~' => emphasis(text, rest, at, first),
        '[' => link(rest, at, 0),
        '!' if rest.get(1..2) == Some("[") => link(rest, at, 1),
        _ => Found::Nothing(first.len_utf8()),
    }
}

fn window(rest: &str) -> &str {
    let mut end = rest.len().min(FURTHEST);
    while !rest.is_char_boundary(end) {
        end -= 1;
    }
    rest.get(..end).unwrap_or(rest)
}

fn run_of(rest: &str, mark: char) -> usize {
    rest.chars().take_while(|c| *c == mark).count()
}

fn code(rest: &str, at: usize) -> Found<'_> {
    let length = run_of(rest, '`');
    let seen = window(rest);
    let mut from = length;
    while let Some(found) = seen.get(from..).and_then(|rest| rest.find('`')) {
        let begin = from + found;
        let close = run_of(rest.get(begin..).unwrap_or_default(), '`');
        if close == length {
            let inner = seen.get(length..begin).unwrap_or_default();
            let inner = match inner.strip_prefix(' ').and_then(|inner| inner.strip_suffix(' ')) {
                Some(bare) if !bare.trim().is_empty() => bare,
                _ => inner,
            };
            return Found::Span { end: at + begin + close, kind: Kind::Code(inner) };
        }
        from = begin + close;
    }
    never_closed(rest, length)
}

fn emphasis<'a>(text: &'a str, rest: &'a str, at: usize, mark: char) -> Found<'a> {
    let length = run_of(rest, mark);
    let Some(next) = rest.get(length..).and_then(|rest| rest.chars().next()) else {
        return never_closed(rest, length);
    };
    let before = text.get(..at).and_then(|before| before.chars().next_back());
    let inside_word = mark == '_' && before.is_some_and(char::is_alphanumeric);
    let style = match (mark, length) {
        ('~', 2) => Style::STRIKE,
        ('*' | '_', 1) => Style::ITALIC,
        ('*' | '_', 2) => Style::BOLD,
        ('*' | '_', 3) => Style::BOLD.with(Style::ITALIC),
        _ => return Found::Nothing(length),
    };
    if next.is_whitespace() || inside_word {
        return Found::Nothing(length);
    }
    let seen = window(rest);
    let mut from = length;
    while let Some(found) = seen.get(from..).and_then(|rest| rest.find([mark, '`', '\\'])) {
        let begin = from + found;
        let here = rest.get(begin..).unwrap_or_default();
        if here.starts_with('\\') {
            from = begin + 1 + here.chars().nth(1).map_or(0, char::len_utf8);
            continue;
        }
        if here.starts_with('`') {
            // Marks inside code are none.
            from = match code(here, begin) {
                Found::Span { end, .. } => end,
                Found::Nothing(_) | Found::Open => begin + run_of(here, '`'),
            };
            continue;
        }
        let close = run_of(here, mark);
        let after = rest.get(begin + close..).and_then(|rest| rest.chars().next());
        let follows_word = seen.get(..begin).and_then(|before| before.chars().next_back());
        let closes = close == length
            && follows_word.is_some_and(|c| !c.is_whitespace())
            && !(mark == '_' && after.is_some_and(char::is_alphanumeric));
        if closes {
            let inner = seen.get(length..begin).unwrap_or_default();
            return Found::Span { end: at + begin + close, kind: Kind::Styled(inner, style) };
        }
        from = begin + close;
    }
    never_closed(rest, length)
}

/// `skip`: bytes before the bracket.
fn link(rest: &str, at: usize, skip: usize) -> Found<'_> {
    let seen = window(rest);
    let Some(close) = seen.find(']') else { return never_closed(rest, skip + 1) };
    let words = seen.get(skip + 1..close).unwrap_or_default();
    let after = seen.get(close + 1..).unwrap_or_default();
    match after.chars().next() {
        None => never_closed(rest, skip + 1),
        Some('(') => match after.find([')', ' ']) {
            Some(end) if after.get(end..).is_some_and(|end| end.starts_with(')')) => {
                let address = after.get(1..end).unwrap_or_default();
                Found::Span { end: at + close + 1 + end + 1, kind: Kind::Link { words, address } }
            }
            Some(_) => Found::Nothing(skip + 1),
            None => never_closed(rest, skip + 1),
        },
        Some(_) => Found::Nothing(skip + 1),
    }
}

/// Open while it may still be closed, ordinary text after that.
fn never_closed(rest: &str, length: usize) -> Found<'_> {
    if rest.len() < FURTHEST { Found::Open } else { Found::Nothing(length) }
}
