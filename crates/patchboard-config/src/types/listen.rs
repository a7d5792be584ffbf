//! Listen addresses.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    str::FromStr,
};

use patchboard_core::loopback::is_loopback_address;

/// An address to listen on, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    Off,
    At(SocketAddr),
}

impl ListenAddress {
    pub(crate) const fn loopback(port: u16) -> Self {
        Self::At(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
    }

    pub const fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Off => None,
            Self::At(address) => Some(address),
        }
    }

    /// Whether other machines can reach this listener.
    pub fn is_off_loopback(self) -> bool {
        self.address().is_some_and(|address| !is_loopback_address(address.ip()))
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("off") {
            return Ok(Self::Off);
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::At(address));
        }
        // `:7200` and `localhost:7200` mean loopback. Other host names are rejected: which clients can connect must not
        // depend on a resolver.
        let port = text.strip_prefix("localhost:").or_else(|| text.strip_prefix(':'));
        port.and_then(|port| port.parse().ok())
            .map(Self::loopback)
            .ok_or_else(|| format!("`{text}` is not an address such as `127.0.0.1:7200`, `:0` or `off`"))
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => formatter.write_str("off"),
            Self::At(address) => address.fmt(formatter),
        }
    }
}

super::string_value!(
    ListenAddress,
    kind: "listen",
    expects: "an address such as \"127.0.0.1:7200\", or \"off\"",
    pattern: "^([oO][fF][fF]|.*:[0-9]+)$"
);
