//! Classifies addresses as public or blocked. IPv6 addresses that embed an IPv4 address are classified by the embedded
//! one.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use patchboard_core::loopback::is_loopback_address;

/// Why an address is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockedAddress {
    Unspecified,
    Loopback,
    Private,
    CarrierGrade,
    LinkLocal,
    /// Serves credentials of cloud machines.
    Metadata,
    Multicast,
    Documentation,
    Reserved,
}

const METADATA_V4: [Ipv4Addr; 5] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    // These three lie outside the link-local network; the second is in public space.
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

/// Returns `None` for a public address.
pub(super) fn blocked_address(address: IpAddr) -> Option<BlockedAddress> {
    match address {
        IpAddr::V4(address) => blocked_v4(address),
        IpAddr::V6(address) => blocked_v6(address),
    }
}

fn blocked_v4(address: Ipv4Addr) -> Option<BlockedAddress> {
    if METADATA_V4.contains(&address) {
        return Some(BlockedAddress::Metadata);
    }
    if is_loopback_address(address.into()) {
        return Some(BlockedAddress::Loopback);
    }
    Some(match address.octets() {
        [0, ..] => BlockedAddress::Unspecified,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => BlockedAddress::Private,
        [100, 64..=127, ..] => BlockedAddress::CarrierGrade,
        [169, 254, ..] => BlockedAddress::LinkLocal,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => BlockedAddress::Documentation,
        // Protocol assignments, 6to4 relays, benchmarking, and class E with broadcast.
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18..=19, ..] | [240..=255, ..] => BlockedAddress::Reserved,
        [224..=239, ..] => BlockedAddress::Multicast,
        _ => return None,
    })
}

fn blocked_v6(address: Ipv6Addr) -> Option<BlockedAddress> {
    if METADATA_V6.contains(&address) {
        return Some(BlockedAddress::Metadata);
    }
    if address.is_unspecified() {
        return Some(BlockedAddress::Unspecified);
    }
    if is_loopback_address(address.into()) {
        return Some(BlockedAddress::Loopback);
    }
    let segments = address.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        blocked_v4(Ipv4Addr::new(a, b, c, d))
    };
    // ISATAP embeds an IPv4 address in the interface identifier, behind any prefix.
    if let [.., 0 | 0x200, 0x5efe, high, low] = segments
        && let Some(reason) = v4(high, low)
    {
        return Some(reason);
    }
    match segments {
        // IPv4-compatible, -mapped and -translated, and NAT64.
        [0, 0, 0, 0, 0, 0, high, low]
        | [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        // 6to4.
        [0x2002, high, low, ..] => v4(high, low),
        // Teredo: the server, and the client, whose bits are inverted.
        [0x2001, 0, server_high, server_low, _, _, high, low] => {
            v4(server_high, server_low).or_else(|| v4(!high, !low))
        }
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Some(BlockedAddress::Private),
        [0xfe80..=0xfebf, ..] => Some(BlockedAddress::LinkLocal),
        [0xff00..=0xffff, ..] => Some(BlockedAddress::Multicast),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some(BlockedAddress::Documentation),
        [0x2001, 0..=0x1ff, ..] => Some(BlockedAddress::Reserved),
        [0x2000..=0x3fff, ..] => None,
        // The rest is not allocated for global unicast.
        _ => Some(BlockedAddress::Reserved),
    }
}

impl fmt::Display for BlockedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspecified => "an unspecified address",
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::CarrierGrade => "an address of a carrier's own network",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "the address of a metadata service",
            Self::Multicast => "a multicast address",
            Self::Documentation => "an address for documentation",
            Self::Reserved => "a reserved address",
        })
    }
}

#[cfg(test)]
mod tests;
