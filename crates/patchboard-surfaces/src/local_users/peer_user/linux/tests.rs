use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, TcpListener, TcpStream};

use super::*;

const OWN: fn() -> PeerUser = || PeerUser::Known(rustix::process::geteuid().as_raw());

fn connected() -> (TcpListener, TcpStream, SocketAddr, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let server = listener.local_addr().unwrap();
    let client = TcpStream::connect(server).unwrap();
    let from = client.local_addr().unwrap();
    (listener, client, from, server)
}

#[test]
fn one_connection_is_found_and_no_other() {
    let (_listener, _client, from, server) = connected();
    assert_eq!(find(from, server).unwrap(), OWN());
    let mapped = |address: SocketAddr| match address {
        SocketAddr::V4(v4) => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        v6 @ SocketAddr::V6(_) => v6,
    };
    assert_eq!(find(mapped(from), mapped(server)).unwrap(), OWN(), "a listener of both versions names it like this");
    let elsewhere = SocketAddr::new(Ipv4Addr::new(127, 0, 0, 2).into(), from.port());
    assert_eq!(find(elsewhere, server).unwrap(), PeerUser::NotFound);
    let unused = SocketAddr::new(from.ip(), 1);
    assert_eq!(find(unused, server).unwrap(), PeerUser::NotFound);
}

#[test]
fn a_port_that_is_only_listened_at_is_no_connection() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    assert_eq!(find(address, SocketAddr::new(address.ip(), 9)).unwrap(), PeerUser::NotFound);
}

#[test]
fn who_listens_is_found_and_who_does_not_is_not() {
    for address in [std::net::IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let _client = TcpStream::connect(at).unwrap();
        assert_eq!(find_listener(at).unwrap(), OWN(), "{address}");
        drop(listener);
        assert_eq!(find_listener(at).unwrap(), PeerUser::NotFound, "{address}");
    }
    let everywhere = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let at = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), everywhere.local_addr().unwrap().port());
    assert_eq!(find_listener(at).unwrap(), OWN());
}

#[test]
fn a_client_of_version_six_that_talks_to_version_four_is_found() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let server = listener.local_addr().unwrap();
    let client = socket_with(AddressFamily::INET6, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    let to = SocketAddr::new(Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), server.port());
    rustix::net::connect(&client, &to).unwrap();
    let (_server, from) = listener.accept().unwrap();
    assert_eq!(find(from, server).unwrap(), OWN());
}

#[test]
fn over_version_six() {
    let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
    let server = listener.local_addr().unwrap();
    let client = TcpStream::connect(server).unwrap();
    assert_eq!(find(client.local_addr().unwrap(), server).unwrap(), OWN());
}

#[test]
fn half_closed_is_still_somebodys_and_closed_is_nobodys() {
    let (listener, client, from, server) = connected();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(find(from, server).unwrap(), OWN());
    drop(client);
    assert_eq!(find(from, server).unwrap(), PeerUser::NotFound);
    drop(listener);
}

#[test]
fn whatever_the_kernel_answers_is_decoded_or_refused() {
    let request = encode("127.0.0.1:4000".parse().unwrap(), "127.0.0.1:7200".parse().unwrap());
    let mut reply = vec![0; REPLY];
    let answer = |reply: &mut Vec<u8>, at: usize, bytes: &[u8]| {
        for (slot, byte) in reply.iter_mut().skip(at).zip(bytes) {
            *slot = *byte;
        }
    };
    answer(&mut reply, 4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    answer(&mut reply, HEADER + 1, &[ESTABLISHED]);
    answer(&mut reply, HEADER + 4, request.get(HEADER + 8..HEADER + 44).unwrap());
    answer(&mut reply, HEADER + 64, &1000_u32.to_ne_bytes());
    answer(&mut reply, HEADER + 68, &7_u32.to_ne_bytes());
    assert_eq!(decode(&reply, &request).unwrap(), PeerUser::Known(1000));
    // In another state, without a process, of another connection.
    for (at, bytes) in [(HEADER + 1, vec![10]), (HEADER + 1, vec![6]), (HEADER + 68, vec![0; 4]), (HEADER + 4, vec![9])]
    {
        let mut other = reply.clone();
        answer(&mut other, at, &bytes);
        assert_eq!(decode(&other, &request).unwrap(), PeerUser::NotFound, "{at} {bytes:?}");
    }
    for length in 0..REPLY {
        assert!(decode(reply.get(..length).unwrap(), &request).is_err(), "{length}");
    }
    let mut refused = vec![0; HEADER + 20];
    answer(&mut refused, 4, &NLMSG_ERROR.to_ne_bytes());
    answer(&mut refused, HEADER, &(-13_i32).to_ne_bytes());
    assert_eq!(decode(&refused, &request).unwrap_err().raw_os_error(), Some(13));
    answer(&mut refused, HEADER, &(-ENOENT).to_ne_bytes());
    assert_eq!(decode(&refused, &request).unwrap(), PeerUser::NotFound);
}
