//! Whose the other end of a loopback connection is, as the system's table of connections says.

#[cfg(target_os = "linux")]
use std::io;
use std::net::SocketAddrV4;

/// Sockets that speak both protocols are in the second one.
#[cfg(target_os = "linux")]
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// The user who connected from `client` to `server`; `None` when nobody is known to have.
#[cfg(target_os = "linux")]
pub(super) fn user(client: SocketAddrV4, server: SocketAddrV4) -> Option<u32> {
    let tables: Vec<io::Result<String>> = TABLES.iter().map(std::fs::read_to_string).collect();
    let found = tables.iter().flatten().find_map(|table| find(table, client, server));
    if found.is_none() && tables.iter().all(io::Result::is_err) {
        tracing::warn!("who connects to a worker's line cannot be seen on this system");
        // As on systems that have no such table: loopback has to do.
        return Some(super::super::unix::own_user());
    }
    found
}

#[cfg(not(target_os = "linux"))]
pub(super) fn user(_client: SocketAddrV4, _server: SocketAddrV4) -> Option<u32> {
    Some(super::super::unix::own_user())
}

/// Each row names the two ends as its socket sees them, and whose the socket is.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux has the table"))]
fn find(table: &str, client: SocketAddrV4, server: SocketAddrV4) -> Option<u32> {
    let (from, to) = (written(client), written(server));
    let is_it = |field: &str, end: &str| {
        // An address of the other protocol has the same end behind a prefix that says what it is.
        field == end || field.strip_suffix(end).is_some_and(|prefix| prefix == mapped())
    };
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        if !is_it(fields.next()?, &from) || !is_it(fields.next()?, &to) {
            return None;
        }
        // State, queues, timer, retransmissions.
        fields.nth(4)?.parse().ok()
    })
}

/// An address as the kernel prints it: the number as this machine reads its bytes.
fn written(address: SocketAddrV4) -> String {
    format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
}

/// What stands before an address of version 4 written as one of version 6.
fn mapped() -> String {
    format!("{:08X}{:08X}{:08X}", 0, 0, u32::from_ne_bytes([0, 0, 255, 255]))
}

#[cfg(test)]
mod tests;
