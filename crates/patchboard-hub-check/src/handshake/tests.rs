use super::{EndpointConfig, Handshake, check_handshake};
use crate::finding::FindingLevel;

/// Path, host, origin, subprotocol.
fn levels(change: impl FnOnce(&mut Handshake)) -> String {
    let mut handshake =
        Handshake { path: "/".to_owned(), host: Some("127.0.0.1:9474".to_owned()), ..Handshake::default() };
    change(&mut handshake);
    let place = EndpointConfig { path: "/".to_owned(), allowed_origins: vec!["app://obsidian.md".to_owned()] };
    let findings = check_handshake(&handshake, &place);
    findings.iter().map(|finding| finding.level.word()).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_plain_handshake_is_fine() {
    assert_eq!(levels(|_| ()), "ok ok ok ok");
}

#[test]
fn origins() {
    let cases = [
        ("http://127.0.0.1:3000", FindingLevel::Ok),
        ("https://localhost", FindingLevel::Ok),
        ("http://[::1]:3000", FindingLevel::Ok),
        ("app://obsidian.md", FindingLevel::Ok),
        ("APP://obsidian.md", FindingLevel::Ok),
        ("https://example.com", FindingLevel::Wrong),
        ("http://127.0.0.1.example.com", FindingLevel::Wrong),
        ("app://other", FindingLevel::Wrong),
        ("ftp://localhost", FindingLevel::Wrong),
        ("null", FindingLevel::Wrong),
        ("", FindingLevel::Wrong),
    ];
    for (origin, level) in cases {
        let found = levels(|handshake| handshake.origin = Some(origin.to_owned()));
        assert_eq!(found, format!("ok ok {} ok", level.word()), "{origin}");
    }
}

#[test]
fn hosts_paths_and_subprotocols() {
    for host in ["localhost:9474", "[::1]:9474", "127.0.0.1"] {
        assert_eq!(levels(|handshake| handshake.host = Some(host.to_owned())), "ok ok ok ok", "{host}");
    }
    for host in [Some("example.com"), Some("a b"), Some(""), None] {
        let found = levels(|handshake| handshake.host = host.map(str::to_owned));
        assert_eq!(found, "ok wrong ok ok", "{host:?}");
    }
    assert_eq!(levels(|handshake| handshake.path = "/socket".to_owned()), "warn ok ok ok");
    assert_eq!(levels(|handshake| handshake.protocols = vec!["smarthole".to_owned()]), "ok ok ok warn");
    assert_eq!(levels(|handshake| handshake.protocols = vec!["x".to_owned(), "bearer.t".to_owned()]), "ok ok ok ok");
}
