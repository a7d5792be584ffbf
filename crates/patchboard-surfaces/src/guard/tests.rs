use super::*;

fn guard() -> OriginGuard {
    OriginGuard {
        surface: "gateway",
        allowed_hosts: vec!["board.example.com".into()],
        allowed_origins: vec!["https://chat.example.com".into(), "app://obsidian.md".into()],
    }
}

fn check(headers: &[(&'static str, &str)]) -> Result<(), GuardRejection> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, value.parse().unwrap());
    }
    guard().check(None, &map)
}

#[test]
fn hosts() {
    for (host, allowed) in [
        ("127.0.0.1:7200", true),
        ("localhost", true),
        ("LOCALHOST:80", true),
        ("[::1]:7200", true),
        ("127.8.8.8", true),
        ("[::ffff:127.0.0.1]", true),
        ("patchboard.localhost:7200", true),
        ("localhost.:7200", true),
        ("board.example.com", true),
        ("board.example.com:443", true),
        ("evil.example.com", false),
        ("127.0.0.1.evil.com", false),
        ("localhost.evil.com", false),
        ("localhost:80:80", false),
        ("127.0.0.1@evil.com", false),
        ("evil.com@app.localhost", false),
        (".localhost", false),
        ("[::1", false),
        ("[::1]x", false),
        ("", false),
        (":80", false),
        ("0.0.0.0", false),
        ("192.168.1.2", false),
    ] {
        assert_eq!(check(&[("host", host)]).is_ok(), allowed, "{host}");
    }
    assert_eq!(check(&[]), Err(GuardRejection::Host), "no Host at all");
    assert_eq!(check(&[("host", "localhost"), ("host", "evil.com")]), Err(GuardRejection::Host), "two of them");
    assert!(guard().check(Some("localhost:7200"), &HeaderMap::new()).is_ok(), "HTTP/2 names its authority");
    let mut headers = HeaderMap::new();
    headers.append("host", "localhost:7200".parse().unwrap());
    assert_eq!(guard().check(Some("LOCALHOST:7200"), &headers), Ok(()), "an absolute request target");
    for other in ["evil.com", "localhost:7201", "localhost", "board.example.com", "me@localhost:7200"] {
        assert_eq!(guard().check(Some(other), &headers), Err(GuardRejection::Host), "{other}");
    }
}

#[test]
fn origins() {
    for (origin, allowed) in [
        ("http://localhost:3000", true),
        ("https://127.0.0.1", true),
        ("http://[::1]:5173", true),
        ("http://app.localhost:5173", true),
        ("https://chat.example.com", true),
        ("app://obsidian.md", true),
        ("https://chat.example.com.evil.com", false),
        ("https://chat.example.com:8443", false),
        ("https://evil.com", false),
        ("http://localhost.evil.com", false),
        ("http://localhost@evil.com", false),
        ("null", false),
        ("file://", false),
        ("app://other", false),
        ("", false),
    ] {
        assert_eq!(check(&[("host", "localhost"), ("origin", origin)]).is_ok(), allowed, "{origin}");
    }
    assert_eq!(
        check(&[("host", "localhost"), ("origin", "http://localhost"), ("origin", "https://evil.com")]),
        Err(GuardRejection::Origin),
    );
}
