use patchboard_core::plugin::HostGrant;
use patchboard_core::webhook::ChannelRequest;

use super::*;
use crate::world::patchboard::plugin::http::{Host, HttpError, Request, Response};

fn request(url: &str) -> Request {
    Request { method: "GET".to_owned(), url: url.to_owned(), headers: vec![], body: None, timeout_ms: Some(5000) }
}

fn header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn fetched(body: &str) -> FetchResponse {
    let headers = vec![header("content-type", "text/plain")];
    let url = "https://api.example/asked".to_owned();
    FetchResponse { status: 200, url, headers, body: body.into(), is_truncated: false }
}

fn hosts(grants: &[&str]) -> Option<Arc<[HostGrant]>> {
    Some(grants.iter().map(|grant| grant.parse().unwrap()).collect())
}

async fn send(state: &mut CallState, request: Request) -> Result<Response, String> {
    let sent = Host::send(state, request).await.unwrap();
    sent.map_err(|error| match error {
        HttpError::Denied(reason) => format!("denied: {reason}"),
        HttpError::Invalid(reason) => format!("invalid: {reason}"),
        HttpError::Timeout(reason) => format!("timeout: {reason}"),
        HttpError::Failed(reason) => format!("failed: {reason}"),
    })
}

#[tokio::test]
async fn a_request_goes_out_under_the_plugins_grants() {
    let setting = Setting::new(&["http:api.example", "store:x", "http:[::1]:8080"]);
    let mut state = setting.call().await;
    setting.fetch.answer(Ok(FetchResponse { is_truncated: true, ..fetched("hello") }));
    let sent = Request {
        method: "POST".to_owned(),
        headers: vec![header("X-Key", "v")],
        body: Some(b"words".to_vec()),
        ..request("https://api.example/asked")
    };
    let response = send(&mut state, sent).await.unwrap();
    assert_eq!((response.status, &*response.body, response.is_cut), (200, &b"hello"[..], true));
    assert_eq!(response.headers, [header("content-type", "text/plain")]);
    let expected = FetchRequest {
        method: "POST".to_owned(),
        url: "https://api.example/asked".to_owned(),
        // A request that writes can be recognised when it is sent again.
        headers: vec![header("X-Key", "v"), header("idempotency-key", "call-1-1")],
        body: Some(b"words".to_vec()),
        timeout: Duration::from_secs(5),
        max_bytes: 4 * 1024 * 1024,
        only_hosts: hosts(&["api.example", "[::1]:8080"]),
    };
    assert_eq!(setting.fetch.requests(), [expected]);
}

#[tokio::test]
async fn without_grants_no_host_may_be_asked() {
    let setting = Setting::new(&["store:x"]);
    setting.fetch.answer(Err(FetchError::Refused("no".to_owned())));
    assert!(send(&mut setting.call().await, request("https://api.example/")).await.is_err());
    // `Some` of nothing, never `None`, which would be everything.
    assert_eq!(setting.fetch.requests()[0].only_hosts, hosts(&[]));
}

#[tokio::test]
async fn errors_are_told_as_what_they_are() {
    let logged = Logged::start();
    let setting = Setting::new(&["http:api.example"]);
    let mut state = setting.call().await;
    for (error, told) in [
        (FetchError::BadRequest("bad".to_owned()), "invalid: bad"),
        (FetchError::Timeout("late".to_owned()), "timeout: late"),
        (FetchError::Failed("broken".to_owned()), "failed: broken"),
        (
            FetchError::Refused("`b.example` is not granted".to_owned()),
            "denied: plugin `probe`: `b.example` is not granted",
        ),
        (
            FetchError::Refused("`b.example` is not granted".to_owned()),
            "denied: plugin `probe`: `b.example` is not granted",
        ),
    ] {
        setting.fetch.answer(Err(error));
        assert_eq!(send(&mut state, request("https://api.example/")).await.unwrap_err(), told);
    }
    assert_eq!(logged.lines(), ["WARN plugin: refused: plugin `probe`: `b.example` is not granted plugin=probe"]);
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_said_before_it_is_sent() {
    let setting = Setting::new(&["http:api.example"]);
    let mut state = setting.call().await;
    let url = "https://api.example/";
    let with_headers = |headers| Request { headers, ..request(url) };
    for (wrong, reason) in [
        (
            Request { method: "TRACE".to_owned(), ..request(url) },
            "method `TRACE` is none of GET, POST, PUT, PATCH, DELETE, HEAD",
        ),
        (
            Request { method: "get\r\n".to_owned(), ..request(url) },
            "method `get\\r\\n` is none of GET, POST, PUT, PATCH, DELETE, HEAD",
        ),
        (request(&format!("{url}{}", "x".repeat(8192))), "the URL is longer than 8192 bytes"),
        (with_headers(vec![header("a", "b"); 65]), "there are more than 64 headers or 16384 bytes of them"),
        (with_headers(vec![header("a", &"b".repeat(16384))]), "there are more than 64 headers or 16384 bytes of them"),
        (with_headers(vec![header("x-{{secret:key}}", "")]), "a secret stands in the name of a header"),
        (Request { body: Some(vec![0; 4 * 1024 * 1024 + 1]), ..request(url) }, "the body is larger than 4194304 bytes"),
        (request("https://api.example/{{secret:other}}"), "there is no secret `other`"),
        (with_headers(vec![header("a", "{{secret:other}}")]), "there is no secret `other`"),
        (with_headers(vec![header("a", "{{secret:key")]), "`{{secret:` has no `}}`"),
    ] {
        assert_eq!(send(&mut state, wrong).await.unwrap_err(), format!("invalid: {reason}"));
    }
    assert_eq!(setting.fetch.requests(), []);
}

#[tokio::test]
async fn secrets_are_put_in_on_the_way_out() {
    let setting = Setting::new(&["http:api.example"]);
    let mut state = setting.call().await;
    setting.fetch.answer(Ok(fetched("")));
    let sent = Request {
        headers: vec![header("Authorization", "Bearer {{secret:key}}"), header("X-Plain", "{{key}}")],
        body: Some(b"{{secret:key}}".to_vec()),
        ..request("https://API.example/bot{{secret:token}}/send?key={{secret:token}}#part")
    };
    send(&mut state, sent).await.unwrap();
    let requests = &setting.fetch.requests()[0];
    assert_eq!(requests.url, "https://API.example/bot123:abc%2FDEF/send?key=123:abc%2FDEF");
    assert_eq!(requests.headers, [header("Authorization", "Bearer opensesame"), header("X-Plain", "{{key}}")]);
    // Bodies are sent as they are.
    assert_eq!(requests.body.as_deref(), Some(&b"{{secret:key}}"[..]));
    // No redirect leads it to another host, not even to one that is granted.
    assert_eq!(requests.only_hosts, hosts(&["api.example:443"]));
}

#[tokio::test]
async fn what_would_hide_an_echo_is_not_asked_for_beside_a_secret() {
    let setting = Setting::new(&["http:api.example"]);
    let mut state = setting.call().await;
    let hindering = || vec![header("Accept-Encoding", "gzip"), header("RANGE", "bytes=3-"), header("Accept", "text/*")];
    for (url, sent) in [
        ("https://api.example/{{secret:key}}", vec![header("Accept", "text/*")]),
        ("https://api.example/", hindering()),
    ] {
        setting.fetch.answer(Ok(fetched("")));
        send(&mut state, Request { headers: hindering(), ..request(url) }).await.unwrap();
        assert_eq!(setting.fetch.requests()[0].headers, sent, "{url}");
    }
}

#[tokio::test]
async fn secrets_go_to_granted_hosts_only() {
    let logged = Logged::start();
    let setting = Setting::new(&["http:api.example:8443", "http:[::1]"]);
    let mut state = setting.call().await;
    for (url, host) in [
        ("https://other.example/{{secret:key}}", "other.example:443"),
        ("https://api.example/{{secret:key}}", "api.example:443"),
        ("http://api.example.:80/{{secret:key}}", "api.example:80"),
        ("https://api.example.evil.example:8443/{{secret:key}}", "api.example.evil.example:8443"),
        ("http://[::2]/?{{secret:key}}", "[::2]:80"),
    ] {
        let denied = format!("denied: plugin `probe`: `{host}` is not granted: it needs the grant `http:{host}`");
        assert_eq!(send(&mut state, request(url)).await.unwrap_err(), denied);
    }
    assert_eq!((setting.fetch.requests(), logged.lines().len()), (vec![], 5));
    for (url, host) in
        [("https://api.example:8443/{{secret:key}}", "api.example:8443"), ("http://[::1]/{{secret:key}}", "[::1]:80")]
    {
        setting.fetch.answer(Ok(fetched("")));
        send(&mut state, request(url)).await.unwrap();
        assert_eq!(setting.fetch.requests()[0].only_hosts, hosts(&[host]));
    }
    let in_header =
        Request { headers: vec![header("a", "{{secret:key}}")], ..request("https://api.example@evil.example/") };
    assert!(send(&mut state, in_header).await.unwrap_err().starts_with("invalid: the host of a URL with a secret"));
    assert_eq!(setting.fetch.requests(), []);
}

#[tokio::test]
async fn secrets_that_are_echoed_are_taken_out() {
    let setting = Setting::new(&["http:api.example"]);
    let rights = setting.rights();
    let requests = ChannelRequest {
        method: "GET".to_owned(),
        url: "https://api.example/{{secret:token}}".to_owned(),
        headers: vec![],
        body: None,
        timeout: None,
    };
    let send = async |answer: Result<FetchResponse, FetchError>| {
        setting.fetch.answer(answer);
        let deadline = Instant::now() + Duration::from_secs(60);
        super::super::http::send(&rights, requests.clone(), deadline, CancellationToken::new()).await
    };
    let echo = FetchResponse {
        url: "https://api.example/123:abc%2FDEF".to_owned(),
        headers: vec![header("location", "/123:abc%2FDEF"), header("x", "opensesame!")],
        ..fetched("no 123:abc/DEF, nor 123:abc%2FDEF, and opensesameopensesame; 123:abc stays")
    };
    let shown = FetchResponse {
        url: "https://api.example/{{secret:token}}".to_owned(),
        headers: vec![header("location", "/[secret]"), header("x", "[secret]!")],
        ..fetched("no [secret], nor [secret], and [secret][secret]; 123:abc stays")
    };
    assert_eq!(send(Ok(echo)).await, Ok(shown));
    for (error, shown) in [
        (FetchError::BadRequest("opensesame".to_owned()), FetchError::BadRequest("[secret]".to_owned())),
        (FetchError::Refused("opensesame".to_owned()), FetchError::Refused("[secret]".to_owned())),
        (
            FetchError::Refused("the redirect to `opensesame.example` is not followed".to_owned()),
            FetchError::Refused(
                "the redirect to `[secret].example` is not followed (a request with a secret stays with the host it \
                 is for)"
                    .to_owned(),
            ),
        ),
        (FetchError::Failed("opensesame".to_owned()), FetchError::Failed("[secret]".to_owned())),
        (FetchError::Timeout("opensesame".to_owned()), FetchError::Timeout("[secret]".to_owned())),
        (FetchError::Cancelled, FetchError::Cancelled),
    ] {
        assert_eq!(send(Err(error)).await, Err(shown));
    }
}

#[tokio::test]
async fn a_request_has_no_more_time_than_its_call() {
    let mut setting = Setting::new(&["http:api.example"]);
    for (requests, limit, at_most) in [(Some(1), 30_000, 1), (None, 20_000, 20_000), (Some(60_000), 20_000, 20_000)] {
        setting.limits.time = Duration::from_millis(limit);
        setting.fetch.answer(Ok(fetched("")));
        let sent = Request { timeout_ms: requests, ..request("https://api.example/") };
        send(&mut setting.call().await, sent).await.unwrap();
        let timeout = setting.fetch.requests()[0].timeout;
        assert!(timeout <= Duration::from_millis(at_most), "{requests:?} {limit}: {timeout:?}");
    }
    let sent = Request { timeout_ms: Some(0), ..request("https://api.example/") };
    let late = "timeout: there is no time left for the request";
    setting.limits.time = Duration::from_secs(30);
    assert_eq!(send(&mut setting.call().await, sent).await.unwrap_err(), late);
    assert_eq!(setting.fetch.requests(), []);
}

#[tokio::test]
async fn a_call_that_is_cancelled_ends_its_request() {
    let setting = Setting::new(&["http:api.example"]);
    let mut state = setting.call().await;
    let (sent, ()) = tokio::join!(Host::send(&mut state, request("https://api.example/")), async {
        setting.stop.cancel();
    });
    assert_eq!((ended(sent), setting.fetch.requests().len()), (CallAborted::Cancelled, 1));
}

#[tokio::test]
async fn a_call_sends_so_many_requests() {
    let setting = Setting::new(&["http:api.example"]);
    let mut state = setting.call().await;
    for _ in 0..100 {
        setting.fetch.answer(Ok(fetched("")));
        send(&mut state, request("https://api.example/")).await.unwrap();
    }
    let last = send(&mut state, request("https://api.example/")).await;
    assert_eq!(last.unwrap_err(), "failed: a call sends at most 100 requests");
    assert_eq!(setting.fetch.requests().len(), 100);
}
