use patchboard_core::port::FetchRequest;
use reqwest::header::HeaderValue;

use super::*;

fn posted(url: &str) -> OutgoingRequest {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    OutgoingRequest::new(FetchRequest {
        method: "POST".to_owned(),
        url: url.to_owned(),
        headers: vec![
            header("authorization", "Bearer secret"),
            header("cookie", "secret"),
            header("x-api-key", "secret"),
            header("accept", "text/html"),
            header("content-type", "text/plain"),
        ],
        body: Some(b"words".to_vec()),
        timeout: std::time::Duration::from_secs(1),
        max_bytes: 1,
        only_hosts: None,
    })
    .unwrap()
}

/// Method, URL, names of the headers, and whether there is a body.
type Told = (String, String, String, bool);

fn followed(from: &OutgoingRequest, status: u16, location: &str) -> Result<Option<Told>, FetchError> {
    let mut answer = HeaderMap::new();
    answer.insert(LOCATION, HeaderValue::from_bytes(location.as_bytes()).unwrap());
    let next = redirect_request(from, StatusCode::from_u16(status).unwrap(), &answer)?;
    Ok(next.map(|next| {
        let mut names: Vec<_> = next.headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        (next.method.to_string(), next.url.to_string(), names.join(" "), next.body.is_some())
    }))
}

fn told(method: &str, url: &str, headers: &str, has_body: bool) -> Result<Option<Told>, FetchError> {
    Ok(Some((method.to_owned(), url.to_owned(), headers.to_owned(), has_body)))
}

#[test]
fn what_becomes_of_a_post() {
    let from = posted("https://a.example/one/two?q");
    let all = "accept accept-encoding authorization content-type cookie x-api-key";
    let without_body = "accept accept-encoding authorization cookie x-api-key";
    for status in [301, 302, 303] {
        assert_eq!(followed(&from, status, "three"), told("GET", "https://a.example/one/three", without_body, false));
    }
    for status in [307, 308] {
        assert_eq!(followed(&from, status, "/three#f"), told("POST", "https://a.example/three", all, true));
    }
    for status in [200, 204, 300, 304, 305, 400] {
        assert_eq!(followed(&from, status, "/three"), Ok(None));
    }
    let without_location = redirect_request(&from, StatusCode::FOUND, &HeaderMap::new()).unwrap();
    assert!(without_location.is_none());
}

#[test]
fn other_methods_stay() {
    for method in [Method::GET, Method::HEAD] {
        let from = OutgoingRequest { method: method.clone(), ..posted("http://a.example/") };
        for status in [301, 302, 303, 307, 308] {
            let (followed, ..) = followed(&from, status, "/b").unwrap().unwrap();
            assert_eq!(followed, method.as_str());
        }
    }
    let from = OutgoingRequest { method: Method::DELETE, ..posted("http://a.example/") };
    assert_eq!(followed(&from, 302, "/b").unwrap().unwrap().0, "DELETE");
    assert_eq!(followed(&from, 303, "/b").unwrap().unwrap().0, "GET");
}

#[test]
fn secrets_stay_with_their_origin() {
    let from = posted("https://a.example/");
    for url in
        ["https://b.example/", "http://a.example/", "https://a.example:444/", "https://x.a.example/", "//c.example/"]
    {
        let (_, _, headers, has_body) = followed(&from, 307, url).unwrap().unwrap();
        assert_eq!((headers.as_str(), has_body), ("accept accept-encoding content-type", true), "{url}");
        let (_, _, headers, has_body) = followed(&from, 303, url).unwrap().unwrap();
        assert_eq!((headers.as_str(), has_body), ("accept accept-encoding", false), "{url}");
    }
}

#[test]
fn redirects_to_what_is_not_fetched() {
    let from = posted("https://a.example/");
    for location in ["file:///etc/passwd", "https://user:secret@b.example/", "https://", "javascript:alert(1)"] {
        let error = followed(&from, 302, location).unwrap_err();
        assert!(matches!(&error, FetchError::Refused(_)), "{location}: {error}");
        assert!(!error.to_string().contains("secret"));
    }
    let mut answer = HeaderMap::new();
    answer.insert(LOCATION, HeaderValue::from_bytes(b"/\xff").unwrap());
    assert!(matches!(redirect_request(&from, StatusCode::FOUND, &answer), Err(FetchError::Failed(_))));
}
