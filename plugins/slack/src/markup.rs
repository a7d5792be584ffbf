//! Slack's own way to write text: `&`, `<` and `>` are escaped, and what stands between `<` and `>` is a reference to a
//! person, a channel, a group or an address.

/// As a person would read it.
pub(crate) fn to_plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        plain.push_str(&unescaped(before));
        let Some((reference, after)) = after.split_once('>') else {
            plain.push('<');
            rest = after;
            continue;
        };
        plain.push_str(&unescaped(&name_of(reference)));
        rest = after;
    }
    plain.push_str(&unescaped(rest));
    plain
}

/// Whose name in front of a message is there only to call them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Addressed<'a> {
    Anybody,
    /// Whoever has this id; nobody when it is not known.
    Only(Option<&'a str>),
}

pub(crate) fn without_leading_mention<'a>(text: &'a str, addressed: Addressed<'_>) -> &'a str {
    let mention = text.trim_start().strip_prefix("<@").and_then(|rest| rest.split_once('>'));
    let Some((who, rest)) = mention else { return text };
    let who = who.split('|').next().unwrap_or(who);
    let is_meant = match addressed {
        Addressed::Anybody => true,
        Addressed::Only(id) => id == Some(who),
    };
    if is_meant { rest.trim_start() } else { text }
}

fn name_of(reference: &str) -> String {
    let (target, label) = reference.split_once('|').map_or((reference, None), |(target, label)| (target, Some(label)));
    let label = label.filter(|label| !label.is_empty());
    match target.split_at_checked(1) {
        Some(("@", user)) => format!("@{}", label.unwrap_or(user)),
        Some(("#", channel)) => format!("#{}", label.unwrap_or(channel)),
        Some(("!", special)) => {
            let special = special.split('^').next().unwrap_or(special);
            label.map_or_else(|| format!("@{special}"), str::to_owned)
        }
        _ => match label {
            Some(label) if !target.ends_with(label) => format!("{label} ({target})"),
            Some(label) => label.to_owned(),
            None => target.to_owned(),
        },
    }
}

fn unescaped(text: &str) -> String {
    // `&` last, or `&amp;lt;` would become `<`.
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// What a character counts once it is escaped.
pub(crate) fn width(one: char) -> usize {
    match one {
        '&' => "&amp;".len(),
        '<' | '>' => "&lt;".len(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
