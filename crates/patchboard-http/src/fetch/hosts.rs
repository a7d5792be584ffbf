//! Private hosts that the operator allows for fetching.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use reqwest::Url;

/// A configured entry that is not a valid host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a host or `host:port`: `{entry}`")]
pub struct PrivateHostError {
    pub entry: String,
}

/// `host` or `host:port`; without a port, every port. Accepts every spelling that a URL may use.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PrivateHost {
    host: String,
    port: Option<u16>,
}

impl PrivateHost {
    /// The host and port of a configured URL; `None` if it has no host.
    pub fn of(url: &Url) -> Option<Self> {
        Some(Self { host: url.host_str()?.to_owned(), port: url.port_or_known_default() })
    }

    /// `host` must be in the normal form of the URL parser.
    pub(super) fn matches(&self, host: &str, port: u16) -> bool {
        self.host == host && self.port.is_none_or(|own| own == port)
    }
}

impl FromStr for PrivateHost {
    type Err = PrivateHostError;

    fn from_str(entry: &str) -> Result<Self, PrivateHostError> {
        let refuse = || PrivateHostError { entry: entry.to_owned() };
        let text = entry.trim();
        let text = match text.parse::<Ipv6Addr>() {
            Ok(bare) => format!("[{bare}]"),
            Err(_) => text.to_owned(),
        };
        if text.is_empty()
            || text.contains(|c: char| matches!(c, '/' | '\\' | '?' | '#' | '@' | '*') || c.is_whitespace())
        {
            return Err(refuse());
        }
        // The parser drops the default port of its scheme; parsed with two schemes, every port survives in one of them.
        let as_http = Url::parse(&format!("http://{text}/")).map_err(|_| refuse())?;
        let as_https = Url::parse(&format!("https://{text}/")).map_err(|_| refuse())?;
        let host = as_http.host_str().ok_or_else(refuse)?.to_owned();
        Ok(Self { host, port: as_http.port().or(as_https.port()) })
    }
}

impl fmt::Display for PrivateHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)?;
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
