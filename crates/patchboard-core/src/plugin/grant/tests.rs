use super::*;

fn read(text: &str) -> Result<PluginGrant, InvalidGrant> {
    text.parse()
}

#[test]
fn grants_are_read_and_written_the_same() {
    for text in [
        "http:api.example.com",
        "http:api.example.com:8443",
        "http:127.0.0.1:9000",
        "http:[::1]:9000",
        "http:[2001:db8::1]",
        "store:notes",
        "store:a.b-c_1",
        "host-function:remember",
        "host-function:app.mail",
    ] {
        assert_eq!(read(text).map(|grant| grant.to_string()).as_deref(), Ok(text));
    }
    assert_eq!(read("http:API.Example.com").map(|grant| grant.to_string()).as_deref(), Ok("http:api.example.com"));
    assert_eq!(read("host_function:x").map(|grant| grant.to_string()).as_deref(), Ok("host-function:x"));
}

#[test]
fn what_is_no_grant_is_refused_with_what_to_write() {
    for text in [
        "",
        "http",
        "http:",
        "http:*",
        "http:*.example.com",
        "http:https://example.com",
        "http:example.com/path",
        "http:example.com:",
        "http:example.com:0",
        "http:example.com:65536",
        "http:example.com:+1",
        "http:a..b",
        "http:.a",
        "http:[::1",
        "http:[example.com]",
        "http:::1",
        "http:user@example.com",
        "store:",
        "store:a b",
        "store:a/b",
        "host-function:",
        "HTTP:example.com",
        "file:/etc/passwd",
        "env:HOME",
    ] {
        let refused = read(text).expect_err(text).to_string();
        assert!(refused.starts_with(&format!("`{text}` is not a grant: write http:HOST")), "{refused}");
    }
}

#[test]
fn a_host_covers_itself_and_nothing_beside_it() {
    let any_port: HostGrant = "example.com".parse().expect("a host");
    assert!(any_port.covers("example.com", 80) && any_port.covers("EXAMPLE.com", 8443));
    for other in ["www.example.com", "example.com.evil.org", "xample.com", "", "example.com."] {
        assert!(!any_port.covers(other, 80), "{other}");
    }
    let one_port: HostGrant = "example.com:8443".parse().expect("a host");
    assert!(one_port.covers("example.com", 8443) && !one_port.covers("example.com", 443));
    let address: HostGrant = "[::1]:80".parse().expect("an address");
    assert!(address.covers("::1", 80) && address.covers("[::1]", 80) && !address.covers("::2", 80));
}
