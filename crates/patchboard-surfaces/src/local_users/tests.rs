use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::*;

fn users(own: u32, trusted: &[u32]) -> LocalUsers {
    LocalUsers { own, trusted: trusted.into(), last_logged: Arc::default() }
}

#[test]
fn the_servers_own_user_root_and_those_named_are_let_in() {
    let users = users(1000, &[33, 1001]);
    for (user, is_let_in) in [(1000, true), (0, true), (33, true), (1001, true), (1002, false), (65534, false)] {
        assert_eq!(users.admits(user), is_let_in, "{user}");
    }
}

#[tokio::test]
async fn the_user_of_a_connection_is_found_on_every_address_of_this_machine() {
    assert_eq!(probe_peer_lookup(), PeerLookupSupport::Supported, "servers without a token would let nobody in");
    for address in [Ipv4Addr::LOCALHOST.into(), std::net::IpAddr::from(Ipv6Addr::LOCALHOST)] {
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        assert_eq!(LocalUsers::new([]).check("test", &server), Ok(()), "{address}");
        // Root is let in wherever it comes from.
        let expected = if own_user() == 0 { Ok(()) } else { Err(UserRejection::User(own_user())) };
        assert_eq!(users(own_user() + 1, &[]).check("test", &server), expected, "{address}");
    }
}

#[tokio::test]
async fn a_client_that_has_closed_is_nobodys_and_not_roots() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    drop(client);
    // Until the end has arrived.
    assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(LocalUsers::new([]).check("test", &server), Err(UserRejection::ConnectionClosed));
}

#[test]
fn a_user_namespace_does_not_know_all_users() {
    assert!(maps_all_users("         0          0 4294967295\n"));
    for map in ["", "0 1000 1\n", "0 0 65536\n", "1000 1000 1\n", "0 0 4294967295\n1 1 1\n"] {
        assert!(!maps_all_users(map), "{map}");
    }
}

#[test]
fn a_flood_of_refusals_is_logged_once() {
    let users = users(1000, &[]);
    assert!(users.may_log());
    assert!(!users.may_log());
}
