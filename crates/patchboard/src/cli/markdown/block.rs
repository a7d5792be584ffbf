//! Determines the kind of block a line starts, and when that is certain.

#[derive(Debug)]
pub(super) enum BlockStart<'a> {
    Blank,
    Heading { level: usize, text: &'a str },
    Rule,
    Fence { mark: char, length: usize, language: &'a str },
    Row,
    Item { mark: ListMarker<'a>, text: &'a str },
    Quote { text: &'a str },
    Paragraph,
}

#[derive(Debug)]
pub(super) enum ListMarker<'a> {
    Bullet,
    Number(&'a str),
}

/// The kind of a line that is complete or certain. Leading spaces have been removed.
pub(super) fn parse_block_start(line: &str) -> BlockStart<'_> {
    let trimmed = line.trim_end();
    let Some(first) = trimmed.chars().next() else { return BlockStart::Blank };
    let run = trimmed.chars().take_while(|c| *c == first).count();
    let after = trimmed.get(run..).unwrap_or_default();
    match first {
        '#' if run <= 6 && (after.is_empty() || after.starts_with(' ')) => {
            BlockStart::Heading { level: run, text: after.trim().trim_end_matches('#').trim_end() }
        }
        '`' | '~' if run >= 3 && !after.contains('`') => {
            BlockStart::Fence { mark: first, length: run, language: after }
        }
        '|' if run == 1 => BlockStart::Row,
        '-' | '*' | '_' if is_rule(trimmed, first) => BlockStart::Rule,
        '>' => {
            let rest = line.get(1..).unwrap_or_default();
            BlockStart::Quote { text: rest.strip_prefix(' ').unwrap_or(rest) }
        }
        '-' | '*' | '+' if run == 1 && after.starts_with(' ') => {
            let text = line.get(1..).unwrap_or_default().trim_start();
            BlockStart::Item { mark: ListMarker::Bullet, text }
        }
        '0'..='9' => match number(line) {
            Some((number, text)) => BlockStart::Item { mark: ListMarker::Number(number), text },
            None => BlockStart::Paragraph,
        },
        _ => BlockStart::Paragraph,
    }
}

/// Whether the kind of a line and the position of its text are settled whatever follows. Only flowing lines can be
/// certain before their end.
pub(super) fn is_certain(line: &str) -> bool {
    // Trailing whitespace may be the end of the line or not, which can change its kind.
    let line = line.trim();
    let Some(first) = line.chars().next() else { return false };
    match first {
        '#' | '|' | '`' | '~' => !may_be_whole(line, first),
        '>' => line.len() > 1,
        '-' | '*' | '_' | '+' => has_words(line.trim_start_matches(|c: char| c == first || c.is_whitespace())),
        '0'..='9' => {
            let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
            // A number alone may be the whole line; one with a point may start an item.
            match rest.strip_prefix(['.', ')']) {
                Some(text) if text.starts_with(' ') => has_words(text.trim_start()),
                Some(text) => !text.is_empty(),
                None => !rest.is_empty(),
            }
        }
        _ => true,
    }
}

/// Whether text follows the marker. The box of a task belongs to the marker.
fn has_words(rest: &str) -> bool {
    !rest.is_empty() && (rest.len() > 3 || !rest.starts_with('['))
}

/// Whether the line can still become a heading, row or fence, which are processed whole.
fn may_be_whole(line: &str, first: char) -> bool {
    let run = line.chars().take_while(|c| *c == first).count();
    let after = line.chars().nth(run);
    match first {
        '|' => true,
        '#' => run <= 6 && after.is_none_or(|c| c == ' '),
        // Backticks and tildes: three start a fence; fewer at the end may become three.
        _ => run >= 3 || after.is_none(),
    }
}

fn is_rule(line: &str, mark: char) -> bool {
    line.chars().all(|c| c == mark || c == ' ') && line.chars().filter(|c| *c == mark).count() >= 3
}

/// `12. ` or `12) `, and the rest.
fn number(line: &str) -> Option<(&str, &str)> {
    let digits = line.chars().take_while(char::is_ascii_digit).count();
    let (mark, text) = line.split_at_checked(digits + 1)?;
    let is_mark = digits <= 9 && mark.ends_with(['.', ')']) && text.starts_with(' ');
    is_mark.then(|| (mark, text.trim_start()))
}
