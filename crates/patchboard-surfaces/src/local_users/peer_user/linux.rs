//! Encoding and decoding of the netlink request and reply: `linux/netlink.h`, `linux/inet_diag.h`.

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

use super::PeerUser;

const HEADER: usize = 16;
const REQUEST: usize = HEADER + 56;
/// Up to and including the inode; attributes may follow.
const REPLY: usize = HEADER + 72;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
const ENOENT: i32 = 2;

/// TCP states in which a process may still hold the other end. Connections that are being opened or already closed are
/// excluded: the kernel has no user for them and reports 0, which is root.
const CONNECTED_STATES: [u8; 4] = [ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT];
const ESTABLISHED: u8 = 1;
const FIN_WAIT1: u8 = 4;
const FIN_WAIT2: u8 = 5;
const CLOSE_WAIT: u8 = 8;
const LISTEN: u8 = 10;

pub(super) fn find(client: SocketAddr, server: SocketAddr) -> io::Result<PeerUser> {
    let request = encode(client, server);
    decode(&query_kernel(&request)?, &request)
}

/// Queries a socket with a zero remote address and port, which only a listening socket has.
pub(super) fn find_listener(address: SocketAddr) -> io::Result<PeerUser> {
    let unspecified = match address.ip().to_canonical() {
        IpAddr::V4(_) => IpAddr::from([0; 4]),
        IpAddr::V6(_) => IpAddr::from([0; 16]),
    };
    let request = encode(address, SocketAddr::new(unspecified, 0));
    decode_listener(&query_kernel(&request)?, address.port())
}

fn query_kernel(request: &[u8; REQUEST]) -> io::Result<Vec<u8>> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
    sendto(&socket, request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut reply = vec![0; 512];
    // The kernel replies synchronously while it handles the request, so the reply is already there.
    let (_, length) = recv(&socket, &mut reply[..], RecvFlags::DONTWAIT)?;
    reply.truncate(length);
    Ok(reply)
}

/// `client` is the socket that is queried, so it is encoded as the local address.
fn encode(client: SocketAddr, server: SocketAddr) -> [u8; REQUEST] {
    let mut bytes = Vec::with_capacity(REQUEST);
    bytes.extend(u32::try_from(REQUEST).unwrap_or_default().to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence number and sender.
    bytes.extend([0; 8]);
    let (client_ip, server_ip) = (client.ip().to_canonical(), server.ip().to_canonical());
    let family = if client_ip.is_ipv4() { AF_INET } else { AF_INET6 };
    // Family, protocol, no extensions, padding.
    bytes.extend([family, IPPROTO_TCP, 0, 0]);
    // All states; the filter does not apply to a query for a single socket.
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(encode_socket_id(client_ip, client.port(), server_ip, server.port()));
    // Any interface.
    bytes.extend(0_u32.to_ne_bytes());
    // No socket cookie is known.
    bytes.extend([0xff; 8]);
    let mut request = [0; REQUEST];
    for (slot, byte) in request.iter_mut().zip(bytes) {
        *slot = byte;
    }
    request
}

/// Ports and addresses in network byte order; an IPv4 address occupies the first of four words.
fn encode_socket_id(own_ip: IpAddr, own_port: u16, other_ip: IpAddr, other_port: u16) -> Vec<u8> {
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => {
            let mut octets = ip.octets().to_vec();
            octets.resize(16, 0);
            octets
        }
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let mut bytes = Vec::with_capacity(36);
    bytes.extend(own_port.to_be_bytes());
    bytes.extend(other_port.to_be_bytes());
    bytes.extend(octets(own_ip));
    bytes.extend(octets(other_ip));
    bytes
}

fn decode(reply: &[u8], request: &[u8; REQUEST]) -> io::Result<PeerUser> {
    // If no connection matches, the kernel returns a listening socket on the same port.
    socket_owner(reply, |state, body| is_requested_socket(body, request) && CONNECTED_STATES.contains(&state))
}

fn decode_listener(reply: &[u8], port: u16) -> io::Result<PeerUser> {
    socket_owner(reply, |state, body| state == LISTEN && fixed_bytes(body, 4).map(u16::from_be_bytes) == Some(port))
}

/// The user of the socket in the reply, if it is the requested one and a process holds it.
fn socket_owner(reply: &[u8], is_wanted: impl Fn(u8, &[u8]) -> bool) -> io::Result<PeerUser> {
    let cut = || io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is too short");
    let kind = u16::from_ne_bytes(fixed_bytes(reply, 4).ok_or_else(cut)?);
    match kind {
        NLMSG_ERROR => {
            let code = -i32::from_ne_bytes(fixed_bytes(reply, HEADER).ok_or_else(cut)?);
            if code == ENOENT { Ok(PeerUser::NotFound) } else { Err(io::Error::from_raw_os_error(code)) }
        }
        SOCK_DIAG_BY_FAMILY => {
            let body = reply.get(HEADER..REPLY).ok_or_else(cut)?;
            // Offsets of `inet_diag_msg`: state 1, uid 64, inode 68.
            let [state] = fixed_bytes(body, 1).ok_or_else(cut)?;
            let user = u32::from_ne_bytes(fixed_bytes(body, 64).ok_or_else(cut)?);
            let inode = u32::from_ne_bytes(fixed_bytes(body, 68).ok_or_else(cut)?);
            Ok(if inode != 0 && is_wanted(state, body) { PeerUser::Known(user) } else { PeerUser::NotFound })
        }
        other => Err(io::Error::new(io::ErrorKind::InvalidData, format!("the kernel answered with type {other}"))),
    }
}

/// Whether the reply names the requested connection: both ports and both addresses.
fn is_requested_socket(body: &[u8], request: &[u8; REQUEST]) -> bool {
    let (answered, requested) = (body.get(4..40), request.get(HEADER + 8..HEADER + 44));
    let Some((answered, requested)) = answered.zip(requested) else { return false };
    // An IPv6 socket connected to an IPv4 address replies in its own family, with mapped addresses.
    answered == requested || unmapped(answered).is_some_and(|answered| answered == requested)
}

/// The same ports and addresses as IPv4, if both addresses are IPv4-mapped.
fn unmapped(identity: &[u8]) -> Option<Vec<u8>> {
    let address = |at| fixed_bytes::<16>(identity, at).map(std::net::Ipv6Addr::from)?.to_ipv4_mapped().map(IpAddr::V4);
    let port = |at| fixed_bytes(identity, at).map(u16::from_be_bytes);
    Some(self::encode_socket_id(address(4)?, port(0)?, address(20)?, port(2)?))
}

fn fixed_bytes<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests;
