use std::time::Duration;

use super::*;

fn request(url: &str) -> FetchRequest {
    FetchRequest {
        method: "GET".to_owned(),
        url: url.to_owned(),
        headers: vec![],
        body: None,
        timeout: Duration::from_secs(1),
        max_bytes: 1,
        only_hosts: None,
    }
}

fn target(url: &str) -> Result<(String, u16, Option<IpAddr>), FetchError> {
    let target = OutgoingRequest::new(request(url)).and_then(|outgoing| outgoing.target())?;
    Ok((target.host, target.port, target.literal))
}

#[test]
fn every_spelling_of_an_address_is_one_address() {
    let loopback = Ok(("127.0.0.1".to_owned(), 80, Some("127.0.0.1".parse().unwrap())));
    for url in [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.0.0.1/",
        "http://0177.0.0.1/",
        "http://0177.0.1",
        "http://127.0.0.1./",
        "http://127.0.0.1:80/",
        " http://127.0.0.1/ ",
        "HTTP://127.0.0.1",
        "http:127.0.0.1",
        "http:\\\\127.0.0.1\\",
        "http://%31%32%37.0.0.1/",
        "http://①②⑦.0.0.1/",
        "http://127。0。0。1/",
    ] {
        assert_eq!(target(url), loopback, "{url}");
    }
    let mapped = target("http://[::ffff:127.0.0.1]:9/").unwrap();
    assert_eq!(mapped, ("[::ffff:7f00:1]".to_owned(), 9, Some("::ffff:127.0.0.1".parse().unwrap())));
    assert_eq!(target("https://Example.COM").unwrap(), ("example.com".to_owned(), 443, None));
    // What stands behind the `@` would be the host.
    assert!(target("http://public.example@127.0.0.1/").is_err());
}

#[test]
fn urls_that_are_not_fetched() {
    for (url, part) in [
        ("", "cannot be read"),
        ("/path", "cannot be read"),
        ("http://", "cannot be read"),
        ("http://256.256.256.256/", "cannot be read"),
        ("http://a b/", "cannot be read"),
        ("http://[fe80::1%25eth0]/", "cannot be read"),
        ("file:///etc/passwd", "only `http` and `https`"),
        ("ftp://a.example/", "only `http` and `https`"),
        ("gopher://a.example/", "only `http` and `https`"),
        ("data:text/plain,hello", "only `http` and `https`"),
        ("http://user@a.example/", "credentials"),
        ("http://user:secret@a.example/", "credentials"),
        ("http://:secret@a.example/", "credentials"),
        (&format!("http://a.example/{}", "x".repeat(MAX_URL_BYTES)), "longer than"),
    ] {
        let error = OutgoingRequest::new(request(url)).unwrap_err();
        assert!(matches!(&error, FetchError::BadRequest(why) if why.contains(part)), "{url}: {error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[test]
fn a_fragment_stays_here() {
    let outgoing = OutgoingRequest::new(request("http://a.example/b?c#secret")).unwrap();
    assert_eq!(outgoing.url.as_str(), "http://a.example/b?c");
}

#[test]
fn methods() {
    for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        let method = method.to_owned();
        assert!(OutgoingRequest::new(FetchRequest { method, ..request("http://a.example") }).is_ok());
    }
    for method in ["CONNECT", "TRACE", "get", "", "G\r\nT"] {
        let method = method.to_owned();
        assert!(OutgoingRequest::new(FetchRequest { method, ..request("http://a.example") }).is_err());
    }
}

fn with_headers(headers: &[(&str, &str)]) -> Result<HeaderMap, FetchError> {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Ok(OutgoingRequest::new(FetchRequest { headers, ..request("http://a.example") })?.headers)
}

#[test]
fn headers_of_the_connection_are_refused() {
    for name in RESERVED_HEADERS.into_iter().chain(["Host", "Transfer-Encoding", "Proxy-Authorization", "proxy-x"]) {
        let error = with_headers(&[(name, "1")]).unwrap_err();
        assert_eq!(error, FetchError::BadRequest(format!("header `{name}` is not for callers to set")));
    }
}

#[test]
fn headers_are_bounded_and_cannot_break_out() {
    assert_eq!(with_headers(&[("X-Key", "v"), ("x-key", "w")]).unwrap().get_all("x-key").iter().count(), 2);
    assert_eq!(with_headers(&[]).unwrap()[ACCEPT_ENCODING], "identity");
    for header in [("", "v"), ("a b", "v"), ("a:", "v"), ("a\r\nb", "v"), ("a", "v\r\nb: c"), ("a", "v\0")] {
        assert!(with_headers(&[header]).is_err(), "{header:?}");
    }
    assert!(with_headers(&[("a", "1"); MAX_HEADERS]).is_ok());
    assert!(with_headers(&[("a", "1"); MAX_HEADERS + 1]).is_err());
    assert!(with_headers(&[("a", &"x".repeat(MAX_HEADER_BYTES))]).is_err());
}

#[test]
fn the_body_is_bounded() {
    let body = |size| FetchRequest { body: Some(vec![0; size]), ..request("http://a.example") };
    assert!(OutgoingRequest::new(body(MAX_SENT_BYTES)).is_ok());
    assert!(OutgoingRequest::new(body(MAX_SENT_BYTES + 1)).is_err());
}
