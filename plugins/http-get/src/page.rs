//! What a page's bytes say its title is. Knows no network.

/// An answer to a request for a page.
pub(crate) struct Page<'a> {
    pub(crate) url: &'a str,
    pub(crate) status: u16,
    pub(crate) headers: &'a [(String, String)],
    pub(crate) body: &'a [u8],
}

/// Of a title; longer ones are cut.
const LONGEST: usize = 300;

/// The address comes from a model, which is told what it may write. A place for a secret is not among that: the host
/// would put the secret in and send it to wherever the model points.
pub(crate) fn check_address(url: &str) -> Result<(), String> {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    if !matches!(scheme.as_deref(), Some("http" | "https")) {
        return Err(format!("`{url}` is not an http or https address"));
    }
    if url.contains("{{") {
        return Err("an address with `{{` in it is not fetched".to_owned());
    }
    Ok(())
}

pub(crate) fn title(page: &Page<'_>) -> Result<String, String> {
    let url = page.url;
    if !(200..300).contains(&page.status) {
        return Err(format!("{url} answered with status {}", page.status));
    }
    let kind = page.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let kind = kind.map_or_else(String::new, |(_, value)| value.to_ascii_lowercase());
    if !kind.is_empty() && !kind.contains("html") && !kind.contains("xml") {
        return Err(format!("{url} is not a web page but `{kind}`"));
    }
    let text = decoded(page.body, &kind);
    let title = element(&text).map(tidied).filter(|title| !title.is_empty());
    title.ok_or_else(|| format!("{url} has no title"))
}

/// UTF-8, or the one other encoding in which every byte is a character of the same number.
fn decoded(body: &[u8], kind: &str) -> String {
    if kind.contains("iso-8859-1") || kind.contains("windows-1252") {
        return body.iter().map(|byte| char::from(*byte)).collect();
    }
    String::from_utf8_lossy(body).into_owned()
}

/// What stands between `<title …>` and `</title`.
fn element(text: &str) -> Option<&str> {
    let lower = text.to_ascii_lowercase();
    let mut from = 0;
    let start = loop {
        let at = from + lower.get(from..)?.find("<title")?;
        from = at + "<title".len();
        // Not `<titlepage>`.
        if lower.get(from..)?.starts_with(|next: char| next == '>' || next.is_ascii_whitespace()) {
            break from + lower.get(from..)?.find('>')? + 1;
        }
    };
    let end = start + lower.get(start..)?.find("</title")?;
    text.get(start..end)
}

/// On one line, with characters in place of their references, not too long.
fn tidied(title: &str) -> String {
    let text = with_references_resolved(title);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > LONGEST { line.chars().take(LONGEST).chain(['…']).collect() } else { line }
}

fn with_references_resolved(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        plain.push_str(before);
        match after.split_once(';').and_then(|(name, after)| Some((reference(name)?, after))) {
            Some((character, after)) => {
                plain.push(character);
                rest = after;
            }
            None => {
                plain.push('&');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    plain
}

fn reference(name: &str) -> Option<char> {
    let number = |digits: &str, base| u32::from_str_radix(digits, base).ok().and_then(char::from_u32);
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        "nbsp" => Some(' '),
        "ndash" => Some('–'),
        "mdash" => Some('—'),
        "hellip" => Some('…'),
        "copy" => Some('©'),
        "reg" => Some('®'),
        "laquo" => Some('«'),
        "raquo" => Some('»'),
        "lsquo" => Some('‘'),
        "rsquo" => Some('’'),
        "ldquo" => Some('“'),
        "rdquo" => Some('”'),
        "middot" => Some('·'),
        "bull" => Some('•'),
        _ => {
            let digits = name.strip_prefix('#')?;
            digits.strip_prefix(['x', 'X']).map_or_else(|| number(digits, 10), |digits| number(digits, 16))
        }
    }
}

#[cfg(test)]
mod tests;
