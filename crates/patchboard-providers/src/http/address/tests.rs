use super::*;

#[test]
fn endpoints() {
    for (base, expected) in [
        ("http://127.0.0.1:11434/v1", "http://127.0.0.1:11434/v1/chat/completions"),
        ("http://127.0.0.1:11434", "http://127.0.0.1:11434/v1/chat/completions"),
        ("http://127.0.0.1:11434/", "http://127.0.0.1:11434/v1/chat/completions"),
        (" http://127.0.0.1:11434/v1/ ", "http://127.0.0.1:11434/v1/chat/completions"),
        ("https://example.com/openai", "https://example.com/openai/v1/chat/completions"),
        ("https://example.com/api/v1", "https://example.com/api/v1/chat/completions"),
        ("https://example.com/v1beta/openai/", "https://example.com/v1beta/openai/chat/completions"),
        ("https://example.com/v1/chat/completions", "https://example.com/v1/chat/completions"),
        ("https://example.com/v1?key=1#x", "https://example.com/v1/chat/completions"),
        ("https://example.com/vendor", "https://example.com/vendor/v1/chat/completions"),
    ] {
        let root = ApiRoot::parse("main", base).unwrap();
        assert_eq!(root.endpoint("chat/completions").as_str(), expected, "{base}");
    }
}

#[test]
fn labels_hold_no_credentials() {
    for (base, expected) in [
        ("http://user:password@127.0.0.1:9/v1?token=x", "127.0.0.1:9"),
        ("https://api.example.com", "api.example.com"),
        ("http://[::1]:8080", "[::1]:8080"),
    ] {
        assert_eq!(ApiRoot::parse("main", base).unwrap().label(), expected);
    }
}

#[test]
fn routes() {
    for (base, expected) in [
        ("http://127.0.0.1:1", ClientKind::Loopback),
        ("http://127.8.0.1:1", ClientKind::Loopback),
        ("http://localhost", ClientKind::Loopback),
        ("http://[::1]:1", ClientKind::Loopback),
        ("http://[::ffff:127.0.0.1]:1", ClientKind::Loopback),
        ("http://LOCALHOST.:1", ClientKind::Loopback),
        ("http://models.localhost", ClientKind::Loopback),
        ("https://localhost", ClientKind::LoopbackTls),
        ("http://10.0.0.1", ClientKind::Plain),
        ("http://127.0.0.1.example.com", ClientKind::Plain),
        ("https://api.example.com", ClientKind::Tls),
    ] {
        assert_eq!(ApiRoot::parse("main", base).unwrap().client_kind(), expected, "{base}");
    }
}

#[test]
fn refusals() {
    for (base, reason) in [
        ("", "it is not a URL"),
        ("127.0.0.1:80", "it is not a URL"),
        ("ftp://example.com", "it must start with `http://` or `https://`"),
    ] {
        let expected = Error::BaseUrl { provider: "main".to_owned(), reason };
        assert_eq!(ApiRoot::parse("main", base).unwrap_err(), expected, "{base}");
    }
}
