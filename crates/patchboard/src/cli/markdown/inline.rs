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

/// What can be shown whatever follows: as many bytes, up to a space outside of any mark that may still be closed, and their
/// runs.
pub(super) fn ready(text: &str, base: Style) -> (usize, Vec<Run>) {
    let mut last_space = 0;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with([' ', '\t']) {
            last_space = at;
        }
        match span(text, at, End::Unknown) {
            Found::Nothing(length) => at += length,
            Found::Span { end, .. } => at = end,
            Found::Open => break,
        }
    }
    // What is behind the space is seen again, so that every mark is understood as it was above.
    let mut runs = Vec::new();
    read(text, last_space, End::Unknown, base, &mut runs);
    (last_space, runs)
}

/// The runs of a text that is whole.
pub(super) fn runs(text: &str, base: Style) -> Vec<Run> {
    let mut runs = Vec::new();
    read(text, text.len(), End::Known, base, &mut runs);
    runs
}

/// Whether more of a text may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Known,
    Unknown,
}

/// The runs of as many bytes.
fn read(text: &str, length: usize, end: End, base: Style, runs: &mut Vec<Run>) {
    let mut at = 0;
    while at < length {
        let rest = text.get(at..length).unwrap_or_default();
        match span(text, at, end) {
            Found::Span { end, kind } => {
                let mut whole = |text: &str, style: Style| read(text, text.len(), End::Known, base.with(style), runs);
                match kind {
                    Kind::Styled(inner, style) => whole(inner, style),
                    Kind::Link { words, address } => {
                        whole(words, Style::UNDERLINE);
                        if words != address && !address.is_empty() {
                            add(runs, " (", base.with(Style::DIM));
                            add(runs, address, base.with(Style::DIM));
                            add(runs, ")", base.with(Style::DIM));
                        }
                    }
                    Kind::Escaped(c) => add(runs, c, base),
                    Kind::Code(code) => add(runs, code, base.with(Style::CODE)),
                }
                at = end;
            }
            Found::Nothing(length) => {
                add(runs, rest.get(..length).unwrap_or(rest), base);
                at += length;
            }
            // Only where the end is not known, and nothing is read from there on.
            Found::Open => return,
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

/// What is looked at to understand a mark. Nothing behind it counts, so that the same is found however much has come.
#[derive(Debug, Clone, Copy)]
struct Seen<'a> {
    text: &'a str,
    /// A mark that is not closed in it stays open as long as more may come.
    is_all: bool,
}

impl<'a> Seen<'a> {
    fn new(rest: &'a str, end: End) -> Self {
        let mut length = rest.len().min(FURTHEST);
        while !rest.is_char_boundary(length) {
            length -= 1;
        }
        Self { text: rest.get(..length).unwrap_or(rest), is_all: end == End::Known || rest.len() >= FURTHEST }
    }

    fn from(self, begin: usize) -> Self {
        Self { text: self.text.get(begin..).unwrap_or_default(), ..self }
    }

    /// Open while it may still be closed; after that so many bytes of it are ordinary text.
    fn never_closed(self, length: usize) -> Found<'a> {
        if self.is_all { Found::Nothing(length) } else { Found::Open }
    }
}

/// What begins at `at`.
fn span(text: &str, at: usize, end: End) -> Found<'_> {
    let seen = Seen::new(text.get(at..).unwrap_or_default(), end);
    let Some(first) = seen.text.chars().next() else { return Found::Nothing(1) };
    match first {
        '\\' => match seen.text.chars().nth(1) {
            Some(c) if c.is_ascii_punctuation() => {
                Found::Span { end: at + 2, kind: Kind::Escaped(seen.text.get(1..2).unwrap_or_default()) }
            }
            Some(_) => Found::Nothing(1),
            None => seen.never_closed(1),
        },
        '`' => code(seen, at),
        '*' | '_' | '~' => {
            let before = text.get(..at).and_then(|before| before.chars().next_back());
            emphasis(seen, at, first, before)
        }
        '[' => link(seen, at, 0),
        '!' if seen.text.starts_with("![") => link(seen, at, 1),
        _ => Found::Nothing(first.len_utf8()),
    }
}

fn run_of(rest: &str, mark: char) -> usize {
    rest.chars().take_while(|c| *c == mark).count()
}

fn code(seen: Seen<'_>, at: usize) -> Found<'_> {
    let length = run_of(seen.text, '`');
    let mut from = length;
    while let Some(found) = seen.text.get(from..).and_then(|rest| rest.find('`')) {
        let begin = from + found;
        let close = run_of(seen.from(begin).text, '`');
        if close == length {
            let inner = seen.text.get(length..begin).unwrap_or_default();
            let inner = match inner.strip_prefix(' ').and_then(|inner| inner.strip_suffix(' ')) {
                Some(bare) if !bare.trim().is_empty() => bare,
                _ => inner,
            };
            return Found::Span { end: at + begin + close, kind: Kind::Code(inner) };
        }
        from = begin + close;
    }
    seen.never_closed(length)
}

/// `before`: the character before it.
fn emphasis(seen: Seen<'_>, at: usize, mark: char, before: Option<char>) -> Found<'_> {
    let length = run_of(seen.text, mark);
    // Where as many are not closed, fewer of them may be.
    let never_closed = seen.never_closed(1);
    let Some(next) = seen.from(length).text.chars().next() else { return never_closed };
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
    let mut from = length;
    while let Some(found) = seen.text.get(from..).and_then(|rest| rest.find([mark, '`', '\\'])) {
        let begin = from + found;
        let here = seen.from(begin);
        if here.text.starts_with('\\') {
            from = begin + 1 + here.text.chars().nth(1).map_or(0, char::len_utf8);
            continue;
        }
        if here.text.starts_with('`') {
            // Marks inside code are none.
            from = match code(here, begin) {
                Found::Span { end, .. } => end,
                Found::Nothing(length) => begin + length,
                Found::Open => return Found::Open,
            };
            continue;
        }
        let close = run_of(here.text, mark);
        let after = here.from(close).text.chars().next();
        let follows_word = seen.text.get(..begin).and_then(|before| before.chars().next_back());
        let closes = close == length
            && follows_word.is_some_and(|c| !c.is_whitespace())
            && !(mark == '_' && after.is_some_and(char::is_alphanumeric));
        if closes {
            let inner = seen.text.get(length..begin).unwrap_or_default();
            return Found::Span { end: at + begin + close, kind: Kind::Styled(inner, style) };
        }
        from = begin + close;
    }
    never_closed
}

/// `skip`: bytes before the bracket.
fn link(seen: Seen<'_>, at: usize, skip: usize) -> Found<'_> {
    let never_closed = seen.never_closed(1);
    let Some(close) = seen.text.find(']') else { return never_closed };
    let words = seen.text.get(skip + 1..close).unwrap_or_default();
    let after = seen.from(close + 1).text;
    match after.chars().next() {
        None => never_closed,
        Some('(') => match after.find([')', ' ']) {
            Some(end) if after.get(end..).is_some_and(|end| end.starts_with(')')) => {
                let address = after.get(1..end).unwrap_or_default();
                Found::Span { end: at + close + 1 + end + 1, kind: Kind::Link { words, address } }
            }
            Some(_) => Found::Nothing(skip + 1),
            None => never_closed,
        },
        Some(_) => Found::Nothing(skip + 1),
    }
}
