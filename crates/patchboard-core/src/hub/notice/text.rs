//! Notices as text: sanitized, counted and summarised.

use std::sync::Arc;

use crate::app::UserNotice;

pub(super) const MAX_TITLE: usize = 200;
pub(super) const MAX_BODY: usize = 2000;
const MAX_APP: usize = 64;
/// Characters of one notice in a digest.
const MAX_LINE: usize = 120;
/// Notices with a line of their own in a digest; the others are counted.
const MAX_LINES: usize = 12;
const HUB_TITLE: &str = "Patchboard";

/// How often a notice was posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RepeatCount {
    /// All of them, this one included.
    Total(u32),
    /// Repeats only; the first was shown before and is not counted.
    Additional(u32),
}

impl RepeatCount {
    pub(super) fn count(self) -> u32 {
        match self {
            Self::Total(count) | Self::Additional(count) => count,
        }
    }

    pub(super) fn plus(self, more: u32) -> Self {
        match self {
            Self::Total(count) => Self::Total(count.saturating_add(more)),
            Self::Additional(count) => Self::Additional(count.saturating_add(more)),
        }
    }

    fn suffix(self) -> String {
        match self {
            Self::Total(0 | 1) => String::new(),
            Self::Total(count) => format!(" ({count} times)"),
            Self::Additional(0 | 1) => " (once more)".to_owned(),
            Self::Additional(count) => format!(" ({count} more times)"),
        }
    }
}

/// Removes control and bidirectional characters, and limits the lengths.
pub(super) fn sanitize(notice: UserNotice) -> UserNotice {
    let app = notice.app.map(|app| Arc::from(one_line(&app, MAX_APP)));
    let title = match one_line(&notice.title, MAX_TITLE) {
        title if title.is_empty() => app.clone().unwrap_or_else(|| HUB_TITLE.into()),
        title => title.into(),
    };
    UserNotice { title, body: several_lines(&notice.body, MAX_BODY).into(), app, ..notice }
}

/// Appends the repeat count to the body.
pub(super) fn with_repeat_count(notice: UserNotice, repeat_count: RepeatCount) -> UserNotice {
    let suffix = repeat_count.suffix();
    if suffix.is_empty() {
        return notice;
    }
    let body = cut(&notice.body, MAX_BODY.saturating_sub(suffix.len()));
    let body = format!("{body}{suffix}");
    UserNotice { body: body.trim_start().into(), ..notice }
}

/// Several notices of one app as one. `overflow_count` counts those that were not queued at all.
pub(super) fn digest(queued: &[(UserNotice, RepeatCount)], overflow_count: u64, latest: UserNotice) -> UserNotice {
    let mut body = String::new();
    let mut hidden = overflow_count;
    for (position, (notice, repeat_count)) in queued.iter().enumerate() {
        match position < MAX_LINES {
            true => {
                body.push_str(&line(notice));
                body.push_str(&repeat_count.suffix());
                body.push('\n');
            }
            false => hidden += u64::from(repeat_count.count()),
        }
    }
    match (hidden, body.is_empty()) {
        (0, _) => drop(body.pop()),
        (_, true) => body = format!("{hidden} were not shown; see `patchboard hub messages`"),
        (_, false) => body.push_str(&format!("… and {hidden} more were not shown; see `patchboard hub messages`")),
    }
    let total = overflow_count + queued.iter().map(|(_, repeat_count)| u64::from(repeat_count.count())).sum::<u64>();
    let source = latest.app.as_deref().unwrap_or("the hub");
    let message = latest.message.filter(|message| queued.iter().all(|(one, _)| one.message == Some(*message)));
    UserNotice { title: format!("{total} more from {source}").into(), body: body.into(), message, ..latest }
}

/// Title and body of the hub's notice about apps for which there was no queue.
pub(super) fn overflow_text(count: u64) -> (Arc<str>, Arc<str>) {
    (
        format!("{count} more from other apps").into(),
        format!("{count} were not shown, as too many apps notify at once; see `patchboard hub messages`").into(),
    )
}

/// Title and body of a sink's notice about notices that it failed to show.
pub(super) fn missed_text(count: u64) -> (Arc<str>, Arc<str>) {
    let notices = if count == 1 { "1 notice" } else { &format!("{count} notices") };
    (
        format!("{notices} missing here").into(),
        format!("{notices} could not be shown here; see `patchboard hub messages`").into(),
    )
}

fn line(notice: &UserNotice) -> String {
    let first = notice.body.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line = match (first, notice.app.as_deref() == Some(&*notice.title)) {
        ("", _) => notice.title.to_string(),
        (first, true) => first.to_owned(),
        (first, false) => format!("{}: {first}", notice.title),
    };
    cut(&line, MAX_LINE)
}

fn one_line(text: &str, limit: usize) -> String {
    let one = |character| if character == '\n' { ' ' } else { character };
    let clean: String = clean_characters(text, limit).map(one).collect();
    cut(clean.trim_end(), limit)
}

fn several_lines(text: &str, limit: usize) -> String {
    let clean: String = clean_characters(text, limit).collect();
    cut(clean.trim_end(), limit)
}

/// Drops characters that move the cursor, ring the bell or change the text direction. Yields one character more than
/// the limit, so that [`cut`] can tell that there was more.
fn clean_characters(text: &str, limit: usize) -> impl Iterator<Item = char> {
    let clean = |character| match character {
        '\n' | '\u{2028}' | '\u{2029}' => Some('\n'),
        '\t' => Some(' '),
        // Embeddings, overrides and isolates; the plain marks of right-to-left scripts stay.
        '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => None,
        // Interlinear annotations can hide text.
        '\u{FFF9}'..='\u{FFFB}' => None,
        other if other.is_control() => None,
        other => Some(other),
    };
    text.chars().filter_map(clean).skip_while(|character| character.is_whitespace()).take(limit + 1)
}

/// At most `limit` characters; ends with `…` if something was cut off.
fn cut(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some(_) => {
            let mut kept: String = text.chars().take(limit.saturating_sub(1)).collect();
            kept.truncate(kept.trim_end().len());
            kept.push('…');
            kept
        }
    }
}

#[cfg(test)]
mod tests;
