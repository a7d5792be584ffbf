//! Which host names and addresses mean this machine. Every decision about trust asks here: who may connect without a
//! token, where a key may travel unencrypted, what a proxy must not see. Pure: nothing is resolved.
//!
//! Names count by RFC 6761: `localhost` and every name below it, in any case, with or without the root's dot. Browsers
//! resolve them to loopback themselves, so they are safe in a `Host` or `Origin` header. Other resolvers may ask a name
//! server for `app.localhost`, so what connects to such a name must connect to [`addresses`] and not ask a resolver.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const LOCALHOST: &str = "localhost";

/// 127.0.0.0/8 and `::1`. An IPv4 address mapped into IPv6 counts as the IPv4 address.
pub fn is_loopback_address(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => matches!(address.octets(), [127, ..]),
        IpAddr::V6(address) => address == Ipv6Addr::LOCALHOST,
    }
}

/// Whether a host without its port, as a URL or a header writes it, is a loopback name or address. IPv6 may stand in
/// brackets.
pub fn is_loopback_host(host: &str) -> bool {
    match literal(host) {
        Some(address) => is_loopback_address(address),
        None => is_loopback_name(host),
    }
}

/// Where to connect to reach a loopback host, in the order to try; empty for any other host.
pub fn addresses(host: &str) -> Vec<IpAddr> {
    match literal(host) {
        Some(address) if is_loopback_address(address) => vec![address],
        Some(_) => Vec::new(),
        // The order in which system resolvers give them.
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
    // Whatever has a character that no host name has, such as `user@app.localhost`, is not one.
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    labels.next().is_some_and(|last| last.eq_ignore_ascii_case(LOCALHOST)) && labels.all(is_label)
}

#[cfg(test)]
mod tests;
