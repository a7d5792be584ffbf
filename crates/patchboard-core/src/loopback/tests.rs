use super::*;

#[test]
fn hosts() {
    for (host, expected) in [
        ("localhost", true),
        ("LocalHost", true),
        ("localhost.", true),
        ("patchboard.localhost", true),
        ("A.b-1.LOCALHOST.", true),
        ("127.0.0.1", true),
        ("127.255.8.1", true),
        ("::1", true),
        ("[::1]", true),
        ("[0:0:0:0:0:0:0:1]", true),
        ("::ffff:127.0.0.1", true),
        ("[::ffff:127.0.0.2]", true),
        ("[::FFFF:7F00:1]", true),
        ("", false),
        (".", false),
        (".localhost", false),
        ("localhost..", false),
        ("a..localhost", false),
        ("local host", false),
        ("notlocalhost", false),
        ("localhost.evil.com", false),
        ("localhost:80", false),
        ("user@app.localhost", false),
        ("app/x.localhost", false),
        ("evil.com", false),
        ("127.0.0.1.", false),
        ("127.0.0.1.evil.com", false),
        ("127.1", false),
        ("2130706433", false),
        ("[127.0.0.1]", false),
        ("[localhost]", false),
        ("[::1", false),
        ("::1]", false),
        ("[[::1]]", false),
        ("::1%lo", false),
        ("::", false),
        ("::2", false),
        ("::127.0.0.1", false),
        ("::ffff:10.0.0.1", false),
        ("0.0.0.0", false),
        ("10.0.0.1", false),
        ("126.255.255.255", false),
        ("128.0.0.1", false),
    ] {
        assert_eq!(is_loopback_host(host), expected, "{host}");
        assert_eq!(!addresses(host).is_empty(), expected, "{host}");
        assert!(addresses(host).into_iter().all(is_loopback_address), "{host}");
    }
}

#[test]
fn an_address_is_reached_at_itself_and_a_name_at_both() {
    let text = |host: &str| addresses(host).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    assert_eq!(text("127.8.0.1"), "127.8.0.1");
    assert_eq!(text("[::1]"), "::1");
    assert_eq!(text("app.localhost"), "::1 127.0.0.1");
}
