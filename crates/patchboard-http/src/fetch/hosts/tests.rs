use super::*;

#[test]
fn entries_are_read_as_urls_are() {
    for (entry, told) in [
        ("intranet", "intranet"),
        (" Intranet.Example ", "intranet.example"),
        ("intranet:8080", "intranet:8080"),
        ("intranet:80", "intranet:80"),
        ("intranet:443", "intranet:443"),
        ("10.0.0.1", "10.0.0.1"),
        ("0x7f.1:99", "127.0.0.1:99"),
        ("::1", "[::1]"),
        ("[::1]:9", "[::1]:9"),
        ("bücher.example", "xn--bcher-kva.example"),
    ] {
        assert_eq!(entry.parse::<PrivateHost>().map(|host| host.to_string()).as_deref(), Ok(told), "{entry}");
    }
}

#[test]
fn anything_else_is_refused() {
    for entry in [
        "",
        " ",
        "http://intranet",
        "a/b",
        "a:99999",
        "a:b",
        "user@host",
        "a b",
        "[::1",
        "*.example",
        "a?b",
        "1.2.3.4.5",
    ] {
        let refused = Err(PrivateHostError { entry: entry.to_owned() });
        assert_eq!(entry.parse::<PrivateHost>(), refused, "{entry}");
    }
}

#[test]
fn a_port_narrows() {
    let names = |entry: &str, host, port| entry.parse::<PrivateHost>().unwrap().matches(host, port);
    assert!(names("intranet", "intranet", 80) && names("intranet", "intranet", 9));
    assert!(names("intranet:9", "intranet", 9));
    assert!(!names("intranet:9", "intranet", 80));
    assert!(!names("intranet", "intranet.example", 80));
    assert!(!names("intranet", "not.intranet", 80));
}
