use std::net::{Ipv4Addr, TcpListener, TcpStream};

use super::*;

const HEAD: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";

fn at(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)
}

fn row(from: &str, to: &str, user: u32) -> String {
    format!(
        "   1: {from} {to} 01 00000000:00000000 02:00000010 00000000  {user}        0 4711 2 0000000000000000 20 4 30 10 -1"
    )
}

#[test]
fn the_row_of_the_other_end_says_whose_it_is() {
    let (client, server) = (written(at(50_000)), written(at(40_000)));
    let both = format!("{HEAD}\n{}\n{}\n", row(&server, &client, 1), row(&client, &server, 1000));
    assert_eq!(find(&both, at(50_000), at(40_000)), Some(1000));
    assert_eq!(find(&both, at(40_000), at(50_000)), Some(1));
    assert_eq!(find(&both, at(50_001), at(40_000)), None);
    let mapped = mapped();
    let six = format!("{HEAD}\n{}\n", row(&format!("{mapped}{client}"), &format!("{mapped}{server}"), 7));
    assert_eq!(find(&six, at(50_000), at(40_000)), Some(7));
    // Another address of version 6 that happens to end the same.
    let other = format!("{HEAD}\n{}\n", row(&format!("{}{client}", "20010DB8".repeat(3)), &server, 7));
    assert_eq!(find(&other, at(50_000), at(40_000)), None);
    for odd in ["", HEAD, "\n\n", &format!("{HEAD}\n 1: {client}"), &format!("{HEAD}\n 1: {client} {server} 01")] {
        assert_eq!(find(odd, at(50_000), at(40_000)), None);
    }
}

#[test]
fn a_real_connection_is_one_s_own() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (Ok(std::net::SocketAddr::V4(client)), Ok(std::net::SocketAddr::V4(server))) =
        (stream.local_addr(), stream.peer_addr())
    else {
        panic!("not of version 4");
    };
    assert_eq!(user(client, server), Some(crate::bridge::unix::own_user()));
}
