//! Secrets in outgoing requests. Plugins write placeholders, `{{secret:NAME}}`; values are inserted only where they
//! cannot change the request's destination, and removed from the response. Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use patchboard_core::plugin::HostGrant;
use secrecy::{ExposeSecret, SecretString};

use crate::text::quote_untrusted;

pub(crate) type SecretMap = BTreeMap<String, SecretString>;

const OPEN: &str = "{{secret:";
const CLOSE: &str = "}}";
/// Replaces a value in responses.
const REDACTED: &str = "[secret]";
/// Shorter values occur in any text; hiding them would make responses unreadable.
const MIN_REDACTED_BYTES: usize = 4;
/// Limit per text; no legitimate URL or header needs more.
const MAX_PLACEHOLDERS: usize = 16;

/// A URL with its secrets inserted.
#[derive(PartialEq, Eq)]
pub(crate) struct FilledUrl {
    pub(crate) url: String,
    /// The only host it may be sent to.
    pub(crate) host: HostGrant,
}

/// Determines how a value is encoded.
#[derive(Clone, Copy)]
enum SecretPosition {
    Path,
    Query,
    Header,
}

pub(crate) fn has_placeholder(text: &str) -> bool {
    text.contains(OPEN)
}

/// Parses the URL more strictly than elsewhere, so that every parser agrees on its host.
pub(crate) fn fill_url(url: &str, secrets: &SecretMap) -> Result<FilledUrl, String> {
    let (prefix, rest, host) = split_authority(url)?;
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    if has_placeholder(fragment) {
        return Err("a secret stands in the fragment of the URL, which is never sent".to_owned());
    }
    let (path, query) = match rest.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (rest, None),
    };
    let mut url = format!("{prefix}{}", fill(path, secrets, SecretPosition::Path)?);
    if let Some(query) = query {
        url.push('?');
        url.push_str(&fill(query, secrets, SecretPosition::Query)?);
    }
    Ok(FilledUrl { url, host })
}

pub(crate) fn fill_header<'a>(value: &'a str, secrets: &SecretMap) -> Result<Cow<'a, str>, String> {
    fill(value, secrets, SecretPosition::Header)
}

/// Removes secrets from responses, in every encoding they were sent in.
pub(crate) struct SecretRedactor {
    /// Longest first, because one may contain another.
    forms: Vec<SecretString>,
}

impl SecretRedactor {
    pub(crate) fn new(secrets: &SecretMap) -> Self {
        let values =
            secrets.values().map(ExposeSecret::expose_secret).filter(|value| value.len() >= MIN_REDACTED_BYTES);
        let forms = values.flat_map(|value| {
            [value.to_owned(), encoded(value, SecretPosition::Path), encoded(value, SecretPosition::Query)]
        });
        let mut forms: Vec<_> = forms.collect();
        forms.sort_unstable_by(|one, other| (other.len(), other).cmp(&(one.len(), one)));
        forms.dedup();
        Self { forms: forms.into_iter().map(SecretString::from).collect() }
    }

    pub(crate) fn text(&self, text: String) -> String {
        let redact = |text: String, form: &SecretString| match text.contains(form.expose_secret()) {
            true => text.replace(form.expose_secret(), REDACTED),
            false => text,
        };
        self.forms.iter().fold(text, redact)
    }

    pub(crate) fn bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        self.forms.iter().fold(bytes, |bytes, form| redact_bytes(bytes, form.expose_secret().as_bytes()))
    }
}

/// Splits a URL into the part before the path, the rest, and the host.
fn split_authority(url: &str) -> Result<(&str, &str, HostGrant), String> {
    let plain = || "the host of a URL with a secret is written plainly: `https://HOST/…` or `https://HOST:PORT/…`";
    let (scheme, rest) = url.split_once("://").ok_or_else(plain)?;
    let port = match scheme {
        _ if scheme.eq_ignore_ascii_case("https") => 443,
        _ if scheme.eq_ignore_ascii_case("http") => 80,
        _ if has_placeholder(scheme) => return Err(misplaced_error()),
        _ => return Err(plain().to_owned()),
    };
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (authority, suffix) = rest.split_at_checked(end).ok_or_else(plain)?;
    if has_placeholder(authority) {
        return Err(misplaced_error());
    }
    let host = read_host(authority, port).ok_or_else(plain)?;
    let (prefix, _) = url.split_at_checked(url.len() - suffix.len()).ok_or_else(plain)?;
    Ok((prefix, suffix, host))
}

/// Accepts only hosts that every parser reads the same way: no user, no escapes, nothing that would be normalised.
fn read_host(authority: &str, known_port: u16) -> Option<HostGrant> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']')?;
            address.parse::<std::net::Ipv6Addr>().ok()?;
            (address, if rest.is_empty() { "" } else { rest.strip_prefix(':')? })
        }
        None => {
            let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
            let host = host.strip_suffix('.').unwrap_or(host);
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
            (!host.is_empty() && host.bytes().all(is_plain)).then_some((host, port))?
        }
    };
    let port = match port {
        "" => known_port,
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok()?,
        _ => return None,
    };
    Some(HostGrant { host: host.to_ascii_lowercase().into(), port: Some(port) })
}

fn misplaced_error() -> String {
    "a secret may stand in the path, the query or the value of a header, not in the scheme, the user, the host or the \
     port"
        .to_owned()
}

fn fill<'a>(text: &'a str, secrets: &SecretMap, position: SecretPosition) -> Result<Cow<'a, str>, String> {
    if !has_placeholder(text) {
        return Ok(Cow::Borrowed(text));
    }
    let mut pieces = text.split(OPEN);
    let mut filled = pieces.next().unwrap_or_default().to_owned();
    for (number, piece) in pieces.enumerate() {
        if number >= MAX_PLACEHOLDERS {
            return Err(format!("there are more than {MAX_PLACEHOLDERS} secrets in one text"));
        }
        let (name, rest) = piece.split_once(CLOSE).ok_or_else(|| format!("`{OPEN}` has no `{CLOSE}`"))?;
        let value = secrets.get(name).ok_or_else(|| format!("there is no secret `{}`", quote_untrusted(name)))?;
        let value = value.expose_secret();
        match position {
            SecretPosition::Header if value.chars().any(char::is_control) => {
                return Err(format!("secret `{name}` holds what cannot be sent in a header"));
            }
            SecretPosition::Header => filled.push_str(value),
            SecretPosition::Path | SecretPosition::Query => filled.push_str(&encoded(value, position)),
        }
        filled.push_str(rest);
    }
    Ok(Cow::Owned(filled))
}

/// Encodes only what a URL parser would change, because some services compare paths literally.
fn encoded(value: &str, position: SecretPosition) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        let is_unescaped = match byte {
            b'-' | b'.' | b'_' | b'~' | b':' => true,
            b'@' | b'!' | b'$' | b'&' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' => {
                matches!(position, SecretPosition::Path)
            }
            _ => byte.is_ascii_alphanumeric(),
        };
        match is_unescaped {
            true => text.push(char::from(byte)),
            // Writing to a string cannot fail.
            false => drop(write!(text, "%{byte:02X}")),
        }
    }
    text
}

fn redact_bytes(bytes: Vec<u8>, form: &[u8]) -> Vec<u8> {
    let Some(first) = form.first() else { return bytes };
    let (mut redacted, mut rest) = (Vec::new(), &*bytes);
    while let Some(at) = find(rest, *first, form) {
        let (before, found) = rest.split_at(at);
        redacted.extend_from_slice(before);
        redacted.extend_from_slice(REDACTED.as_bytes());
        rest = found.get(form.len()..).unwrap_or_default();
    }
    if rest.len() == bytes.len() {
        return bytes;
    }
    redacted.extend_from_slice(rest);
    redacted
}

fn find(bytes: &[u8], first: u8, form: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let rest = bytes.get(from..)?;
        let at = from + rest.iter().position(|byte| *byte == first)?;
        if bytes.get(at..)?.starts_with(form) {
            return Some(at);
        }
        from = at + 1;
    }
}

#[cfg(test)]
mod tests;
