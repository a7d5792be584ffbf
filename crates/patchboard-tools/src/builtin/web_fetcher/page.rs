//! Converts a response body to text where possible. Pure.

use std::fmt;

use patchboard_core::port::FetchResponse;

use crate::text::{clipped, escape_control_chars};

const MAX_EXCERPT_BYTES: usize = 500;

/// Why a body is not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotText {
    Compressed,
    HoldsNul,
    NotUtf8,
}

/// Bodies declared as text are decoded lossily; others must be valid UTF-8.
pub(super) fn page_text(fetched: &FetchResponse) -> Result<String, NotText> {
    let is_encoded = |coding: &str| !coding.trim().is_empty() && !coding.trim().eq_ignore_ascii_case("identity");
    if header(fetched, "content-encoding").is_some_and(is_encoded) {
        return Err(NotText::Compressed);
    }
    if fetched.body.contains(&0) {
        return Err(NotText::HoldsNul);
    }
    let content_type = header(fetched, "content-type").unwrap_or_default().to_ascii_lowercase();
    let body = trim_partial_character(&fetched.body, fetched.is_truncated);
    match std::str::from_utf8(body) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').unwrap_or(text).to_owned()),
        Err(_) if is_latin1(&content_type) => Ok(body.iter().map(|byte| char::from(*byte)).collect()),
        Err(_) if is_text(&content_type) => Ok(String::from_utf8_lossy(body).into_owned()),
        Err(_) => Err(NotText::NotUtf8),
    }
}

/// By its content type, or if that is missing by its first characters.
pub(super) fn is_html(fetched: &FetchResponse, text: &str) -> bool {
    match header(fetched, "content-type") {
        Some(content_type) => {
            let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            matches!(essence.as_str(), "text/html" | "application/xhtml+xml")
        }
        None => {
            let begins =
                |with: &str| text.trim_start().get(..with.len()).is_some_and(|head| head.eq_ignore_ascii_case(with));
            begins("<!doctype html") || begins("<html")
        }
    }
}

/// A sentence about a failed response, with the reason it contains.
pub(crate) fn failure_message(fetched: &FetchResponse) -> String {
    let status = fetched.status;
    let name = patchboard_http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let name = name.map(|name| format!(" {name}")).unwrap_or_default();
    let words = page_text(fetched).unwrap_or_default();
    let words = escape_control_chars(words.split_whitespace().collect::<Vec<_>>().join(" ").as_ref());
    match words.is_empty() {
        true => format!("the server answered {status}{name}"),
        false => format!("the server answered {status}{name}: {}", clipped(&words, MAX_EXCERPT_BYTES)),
    }
}

/// The first header with this name.
pub(super) fn header<'a>(fetched: &'a FetchResponse, name: &str) -> Option<&'a str> {
    let mut headers = fetched.headers.iter();
    headers.find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

fn trim_partial_character(body: &[u8], is_cut: bool) -> &[u8] {
    match std::str::from_utf8(body) {
        Err(error) if is_cut && error.error_len().is_none() => body.get(..error.valid_up_to()).unwrap_or(body),
        Ok(_) | Err(_) => body,
    }
}

fn is_latin1(content_type: &str) -> bool {
    ["charset=iso-8859-1", "charset=\"iso-8859-1\"", "charset=latin1"].iter().any(|name| content_type.contains(name))
}

fn is_text(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let parts = ["json", "xml", "javascript", "ecmascript", "yaml", "x-www-form-urlencoded", "graphql", "toml"];
    essence.starts_with("text/")
        || essence.strip_prefix("application/").is_some_and(|rest| parts.iter().any(|part| rest.ends_with(part)))
}

impl fmt::Display for NotText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Compressed => "it is compressed",
            Self::HoldsNul => "it holds NUL bytes",
            Self::NotUtf8 => "it is not UTF-8",
        })
    }
}
