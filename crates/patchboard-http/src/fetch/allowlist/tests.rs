use std::time::Duration;

use patchboard_core::port::FetchRequest;

use super::super::outgoing::OutgoingRequest;
use super::*;

fn grants(texts: &[&str]) -> Vec<HostGrant> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn target(url: &str) -> Result<RequestTarget, FetchError> {
    let request = FetchRequest {
        method: "GET".to_owned(),
        url: url.to_owned(),
        headers: vec![],
        body: None,
        timeout: Duration::from_secs(1),
        max_bytes: 1,
        only_hosts: None,
    };
    OutgoingRequest::new(request)?.target()
}

fn admits(grant: &str, url: &str) -> bool {
    let target = target(url).unwrap();
    let admitted = HostAllowlist::new(Some(&grants(&[grant]))).admit(&target, RequestHop::First);
    assert!(matches!(&admitted, Ok(()) | Err(FetchError::Refused(_))), "{admitted:?}");
    admitted.is_ok()
}

#[test]
fn every_spelling_of_a_granted_host() {
    for (grant, url) in [
        ("api.example", "https://api.example/"),
        ("api.example", "http://api.example:8080/"),
        ("API.Example", "https://api.EXAMPLE"),
        ("api.example", "https://api.example./"),
        ("api.example.", "https://api.example/"),
        ("api.example", " HTTPS:\\\\API.EXAMPLE\\@other.example/"),
        ("api.example", "https://api.example/@other.example"),
        ("api.example", "https://%61pi.example/"),
        ("api.example", "https://ａｐｉ.example/"),
        ("api.example", "https://api。example/"),
        ("xn--bcher-kva.example", "https://bücher.example/"),
        ("xn--bcher-kva.example", "https://BÜCHER.example/"),
        ("api.example:443", "https://api.example/"),
        ("api.example:443", "https://api.example:443/"),
        ("api.example:80", "http://api.example/"),
        ("api.example:8080", "http://api.example:8080/"),
        ("127.0.0.1", "http://127.1:9/"),
        ("127.0.0.1:9", "http://0x7f000001:9/"),
        ("[::1]", "http://[::1]/"),
        ("[::1]:80", "http://[0:0:0:0:0:0:0:1]/"),
        ("[0:0:0:0:0:0:0:1]", "http://[::1]:81/"),
        ("[2001:DB8::A]:443", "https://[2001:db8::a]/"),
    ] {
        assert!(admits(grant, url), "{grant} {url}");
    }
}

#[test]
fn what_only_looks_like_a_granted_host() {
    for (grant, url) in [
        ("api.example", "https://api.example.other/"),
        ("api.example", "https://xapi.example/"),
        ("api.example", "https://x.api.example/"),
        ("api.example", "https://example/"),
        ("api.example", "https://api.example../"),
        ("api.example", "https://api%2Eexample.other/"),
        ("api.example", "https://other.example/https://api.example/"),
        ("api.example", "https://other.example?api.example"),
        ("api.example", "https://other.example#api.example"),
        ("api.example", "https://other.example\\@api.example/"),
        ("api.example", "https://аpi.example/"),
        ("api.example:443", "http://api.example/"),
        ("api.example:443", "https://api.example:8443/"),
        ("api.example:80", "https://api.example/"),
        ("127.0.0.1", "http://[::ffff:127.0.0.1]/"),
        ("127.0.0.1", "http://127.0.0.2/"),
        ("[::1]", "http://127.0.0.1/"),
        ("[::1]", "http://[::2]/"),
        ("[::1]:80", "http://[::1]:81/"),
    ] {
        assert!(!admits(grant, url), "{grant} {url}");
    }
    // A user that looks like a host never gets as far as a comparison.
    assert!(target("https://api.example@other.example/").is_err());
    assert!(target("https://api.example:443@other.example/").is_err());
}

#[test]
fn one_of_several_none_and_all() {
    let target = target("http://b.example:81/").unwrap();
    let admit = |only: Option<&[HostGrant]>| HostAllowlist::new(only).admit(&target, RequestHop::First).is_ok();
    assert!(admit(None));
    assert!(!admit(Some(&[])));
    assert!(admit(Some(&grants(&["a.example", "b.example:80", "b.example:81"]))));
    assert!(!admit(Some(&grants(&["a.example", "b.example:80"]))));
    // No grant of an operator looks like these; they grant nothing.
    for host in ["", "b.example/", "b.example:81", "@b.example", "b.example#"] {
        assert!(!admit(Some(&[HostGrant { host: host.into(), port: None }])), "{host}");
    }
}

#[test]
fn the_reason_names_the_host_and_the_way_out() {
    let target = target("https://user.example:8443/path?key=secret").unwrap();
    let refused = |hop| HostAllowlist::new(Some(&[])).admit(&target, hop);
    let expected = "`user.example:8443` is not granted: it needs the grant `http:user.example:8443`";
    assert_eq!(refused(RequestHop::First), Err(FetchError::Refused(expected.to_owned())));
    let expected = "the redirect to `user.example:8443` is not followed: that host is not granted";
    assert_eq!(refused(RequestHop::Redirect), Err(FetchError::Refused(expected.to_owned())));
}
