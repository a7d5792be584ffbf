//! Parses the grants of a plugin as the operator configured them: `http:HOST[:PORT]`, `store:NAME`,
//! `host-function:NAME`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// One resource a plugin may access.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PluginGrant {
    Http(HostGrant),
    Store(Arc<str>),
    HostFunction(Arc<str>),
}

/// A host that may be requested, under exactly the granted name or address; aliases are not resolved.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostGrant {
    /// Lower case; IPv6 addresses without brackets.
    pub host: Arc<str>,
    /// `None`: any port.
    pub port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a grant: write http:HOST, http:HOST:PORT, store:NAME or host-function:NAME")]
pub struct InvalidGrant(pub String);

impl HostGrant {
    pub fn covers(&self, host: &str, port: u16) -> bool {
        self.port.is_none_or(|granted| granted == port) && self.host.eq_ignore_ascii_case(strip_brackets(host))
    }
}

impl FromStr for HostGrant {
    type Err = InvalidGrant;

    fn from_str(text: &str) -> Result<Self, InvalidGrant> {
        let bad = || InvalidGrant(format!("http:{text}"));
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, "")) => (address, None),
            Some((address, rest)) => (address, Some(rest.strip_prefix(':').ok_or_else(bad)?)),
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let is_address = text.starts_with('[') && host.parse::<std::net::Ipv6Addr>().is_ok();
        let is_name = !text.starts_with('[') && is_host_name(host);
        if !is_address && !is_name {
            return Err(bad());
        }
        let port = match port {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(bad)?)
            }
            Some(_) => return Err(bad()),
            None => None,
        };
        Ok(Self { host: host.to_ascii_lowercase().into(), port })
    }
}

impl fmt::Display for HostGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]", self.host)?,
            false => f.write_str(&self.host)?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl FromStr for PluginGrant {
    type Err = InvalidGrant;

    fn from_str(text: &str) -> Result<Self, InvalidGrant> {
        let bad = || InvalidGrant(text.to_owned());
        let (kind, what) = text.split_once(':').ok_or_else(bad)?;
        match kind {
            "http" => what.parse().map(Self::Http).map_err(|_| bad()),
            "store" if is_name(what) => Ok(Self::Store(what.into())),
            // `host_function` is an older spelling.
            "host-function" | "host_function" if is_name(what) => Ok(Self::HostFunction(what.into())),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for PluginGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(host) => write!(f, "http:{host}"),
            Self::Store(name) => write!(f, "store:{name}"),
            Self::HostFunction(name) => write!(f, "host-function:{name}"),
        }
    }
}

/// Is it a valid name of a store or a tool?
fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !text.is_empty() && text.len() <= 128 && text.bytes().all(fits)
}

fn is_host_name(host: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    !host.is_empty() && host.len() <= 253 && host.bytes().all(fits) && !host.starts_with('.') && !host.contains("..")
}

fn strip_brackets(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

#[cfg(test)]
mod tests;
