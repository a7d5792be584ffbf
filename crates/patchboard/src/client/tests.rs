use super::{ServerAddress, refusal_text};

#[test]
fn addresses_may_be_short() {
    let url =
        |named: &str| ServerAddress::of_url(named, None).map(|address| address.url).map_err(|error| error.to_string());
    for named in ["127.0.0.1:7200", "http://127.0.0.1:7200/", "ws://127.0.0.1:7200", "ws://127.0.0.1:7200/ws"] {
        assert_eq!(url(named).as_deref(), Ok("ws://127.0.0.1:7200/ws"), "{named}");
    }
    let encrypted = "encrypted connections such as `https://a.example` are not supported here";
    assert_eq!(url("https://a.example").unwrap_err(), encrypted);
    for named in ["ftp://a.example", "a b", "", "ws://"] {
        assert_eq!(url(named).unwrap_err(), format!("`{named}` is not the address of a server"));
    }
    let runs = ServerAddress::of_runs_url("localhost:8080", None).unwrap();
    assert_eq!((runs.url.as_str(), runs.surface), ("ws://localhost:8080/", "runs surface"));
}

#[test]
fn names_of_the_protocol_are_left_out() {
    let refusal = "invalid usage.report params: `since` is not an RFC 3339 time: soon";
    assert_eq!(refusal_text("usage.report", refusal), "`since` is not an RFC 3339 time: soon");
    assert_eq!(refusal_text("tool.call", "tool not found: reed"), "tool not found: reed");
    assert!(refusal_text("models.list", "unknown method: models.list").contains("another version"));
}
