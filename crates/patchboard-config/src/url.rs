//! Validation of web addresses, origins and host names.

use http::Uri;
use patchboard_core::loopback::is_loopback_host;

/// Why an address is invalid, without repeating it, because it may contain a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidUrl {
    pub message: String,
    pub hint: &'static str,
}

impl InvalidUrl {
    fn new(message: impl Into<String>, hint: &'static str) -> Self {
        Self { message: message.into(), hint }
    }
}

const URL_HINT: &str = "write it whole: https://api.example.com/v1";

/// Why `text` is invalid as the root of a web API.
pub fn invalid_reason(text: &str) -> Option<InvalidUrl> {
    let Ok(uri) = text.parse::<Uri>() else {
        return Some(InvalidUrl::new("is not a web address", URL_HINT));
    };
    let Some(authority) = uri.authority() else {
        return Some(InvalidUrl::new("is not a web address", URL_HINT));
    };
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Some(InvalidUrl::new("must start with http:// or https://", URL_HINT));
    }
    if authority.as_str().contains('@') {
        return Some(InvalidUrl::new("holds a user name or password", "use api_key = \"env:NAME\" for credentials"));
    }
    if authority.host().is_empty() {
        return Some(InvalidUrl::new("names no host", URL_HINT));
    }
    if uri.query().is_some() || text.contains('#') {
        return Some(InvalidUrl::new("must end with its path", URL_HINT));
    }
    None
}

/// Why `text` is invalid as a browser's origin.
pub(crate) fn invalid_origin(text: &str) -> Option<InvalidUrl> {
    let hint = "write scheme and host only: https://console.example.com";
    if text == "*" {
        return Some(InvalidUrl::new("`*` would let every web page in", "name each origin"));
    }
    let wrong = || InvalidUrl::new(format!("`{text}` is not an origin"), hint);
    let Some((scheme, rest)) = text.split_once("://") else {
        return Some(wrong());
    };
    let scheme_fits = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    (!scheme_fits || invalid_host(rest).is_some()).then(wrong)
}

/// Why `text` is invalid as a host, with or without a port.
pub(crate) fn invalid_host(text: &str) -> Option<InvalidUrl> {
    let wrong = || {
        InvalidUrl::new(
            format!("`{text}` is not a host name"),
            "write the name, with a port if it matters: board.example.com:7200",
        )
    };
    let (host, port) = split_port(text);
    let host_fits = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)),
    };
    let port_fits = port.is_none_or(|port| port.parse::<u16>().is_ok());
    (!host_fits || !port_fits).then(wrong)
}

fn split_port(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        // The last colon of a bracketed IPv6 address does not start a port.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        Some(_) | None => (text, None),
    }
}

/// Whether a web address refers to this machine.
pub(crate) fn is_loopback(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else {
        return false;
    };
    uri.host().is_some_and(is_loopback_host)
}
