//! Decides which host names and addresses are loopback. All trust decisions use this module: which clients may connect
//! without a token, where a key may be sent unencrypted, what must bypass a proxy. Pure: resolves nothing.
//!
//! Names follow RFC 6761: `localhost` and every name below it, in any case, with or without the trailing dot. Browsers
//! resolve them to loopback themselves, so they are safe in a `Host` or `Origin` header. Other resolvers may ask a name
//! server for `app.localhost`, so a client of such a name must connect to [`addresses`] instead of resolving it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const LOCALHOST: &str = "localhost";

/// 127.0.0.0/8 and `::1`. An IPv4 address mapped into IPv6 counts as the IPv4 address.
pub fn is_loopback_address(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => matches!(address.octets(), [127, ..]),
        IpAddr::V6(address) => address == Ipv6Addr::LOCALHOST,
    }
}

/// Whether a host without its port, as written in a URL or header, is a loopback name or address. IPv6 may be in
/// brackets.
pub fn is_loopback_host(host: &str) -> bool {
    match literal(host) {
        Some(address) => is_loopback_address(address),
        None => is_loopback_name(host),
    }
}

/// Addresses of a loopback host, in the order to try; empty for any other host.
pub fn addresses(host: &str) -> Vec<IpAddr> {
    match literal(host) {
        Some(address) if is_loopback_address(address) => vec![address],
        Some(_) => Vec::new(),
        // The order that system resolvers use.
        None if is_loopback_name(host) => vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()],
        None => Vec::new(),
    }
}

fn literal(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(bare) => bare.parse().ok().map(IpAddr::V6),
        None => host.parse().ok(),
    }
}

fn is_loopback_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let mut labels = name.rsplit('.');
    // Names with a character that is invalid in host names, such as `user@app.localhost`, are rejected.
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    labels.next().is_some_and(|last| last.eq_ignore_ascii_case(LOCALHOST)) && labels.all(is_label)
}

#[cfg(test)]
mod tests;
