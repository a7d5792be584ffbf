//! Who gets in, and what others are told.

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::*;

const WRONG: (u16, &str) = (401, "signature missing or wrong");

#[tokio::test]
async fn channels_and_methods() {
    let bench = Bench::new();
    for name in ["nobody", "Hook", "hook%20", "adapter", "h%C3%B6k"] {
        for method in ["POST", "GET"] {
            let answer = bench.send(request(method, name, &[("x-token", SECRET)], "hi")).await;
            assert_eq!(answer.status, 404, "{method} {name}");
            assert!(answer.text.starts_with("no channel adapter for '"), "{answer:?}");
        }
    }
    assert_eq!(bench.post("nobody", "hi").await.said(), (404, "no channel adapter for 'nobody'"));
    let long = bench.post(&"x".repeat(5000), "hi").await;
    assert_eq!(long.text.len(), "no channel adapter for ''".len() + 64);
    for method in ["GET", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        let answer = bench.send(request(method, "hook", &[("x-token", SECRET)], "hi")).await;
        assert_eq!((answer.status, answer.header("allow")), (405, "POST"), "{method}");
    }
    assert_eq!(bench.send(request("HEAD", "hook", &[], "")).await.status, 405);
    // The board may know fewer channels than the gateway.
    assert_eq!(bench.post("forgotten", "hi").await.said(), (404, "no channel adapter for 'forgotten'"));
    assert_eq!(bench.adapter.seen(), []);
}

#[tokio::test]
async fn foreign_pages_are_kept_out() {
    let bench = Bench::new();
    for (name, value) in [("origin", "https://evil.example"), ("host", "evil.example"), ("origin", "null")] {
        let answer = bench.send(request("POST", "hook", &[("x-token", SECRET), (name, value)], "hi")).await;
        assert_eq!(answer.status, 403, "{name}: {value}");
    }
    assert_eq!(bench.adapter.seen(), []);
    let answer = bench.post("hook", "hi").await;
    assert_eq!((answer.status, answer.header("x-content-type-options")), (202, "nosniff"));
    assert_eq!(answer.header("connection"), "", "the service may post more on the same connection");
}

#[tokio::test(start_paused = true)]
async fn bodies_are_bounded_in_size_and_time() {
    let bench = Bench::new();
    let too_large = (413, "the body must have 1048576 bytes at most");
    let fits = "x".repeat(MAX_BODY);
    let answer = bench.post("hook", &format!("ignore {}", &fits[7..])).await;
    assert_eq!(answer.said(), (200, r#"{"ignored":true}"#));
    assert_eq!(bench.post("hook", &format!("{fits}x")).await.said(), too_large);

    let pieces = |count: usize| {
        let pieces = (0..count).map(|_| std::io::Result::Ok(Bytes::from_static(&[b'x'; 1024])));
        Body::from_stream(stream::iter(pieces))
    };
    let send = async |body: Body| bench.send(request("POST", "hook", &[("x-token", SECRET)], body)).await;
    assert_ne!(send(pieces(1024)).await.status, 413);
    assert_eq!(send(pieces(1025)).await.said(), too_large);
    // An announced length is enough to tell.
    let announced = [("x-token", SECRET), ("content-length", "1048577")];
    let answer = bench.send(request("POST", "hook", &announced, Body::from_stream(endless()))).await;
    assert_eq!(answer.said(), too_large);

    let broken = stream::iter([Ok(Bytes::from_static(b"id 1 ")), Err(std::io::Error::other("gone"))]);
    assert_eq!(send(Body::from_stream(broken)).await.said(), (400, "the body broke off"));
    let before = Instant::now();
    assert_eq!(send(Body::from_stream(endless())).await.said(), (408, "the body did not arrive in time"));
    assert_eq!(before.elapsed(), BODY_TIMEOUT);
}

/// Never says anything.
fn endless() -> stream::Pending<std::io::Result<Bytes>> {
    stream::pending()
}

#[tokio::test(start_paused = true)]
async fn nobody_s_body_is_read_who_has_nothing_to_show() {
    let bench = Bench::new();
    for headers in [&[][..], &[("x-token", "wrong")], &[("content-length", "99999999")]] {
        let answer = bench.send(request("POST", "hook", headers, Body::from_stream(endless()))).await;
        assert_eq!(answer.said(), WRONG, "{headers:?}");
    }
    assert_eq!(bench.adapter.seen(), []);
}

#[tokio::test(start_paused = true)]
async fn guessing_gets_slow_and_nobody_else_does() {
    let bench = Bench::new();
    let guess = async |headers: &[(&str, &str)]| {
        let before = Instant::now();
        assert_eq!(bench.send(request("POST", "hook", headers, "hi")).await.said(), WRONG);
        before.elapsed()
    };
    assert_eq!(guess(&[]).await, Duration::ZERO);
    assert_eq!(guess(&[("x-token", "wrong")]).await, Duration::from_secs(1));
    assert_eq!(guess(&[]).await, Duration::from_secs(1));
    let before = Instant::now();
    assert_eq!(bench.post("hook", "hi").await.status, 202, "from the very same address");
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn signatures_with_a_time() {
    let bench = Bench::new();
    let now = bench.clock.now().as_second();
    let slack = |time: i64, body: &str| {
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
        mac.update(format!("v0:{time}:{body}").as_bytes());
        let signature: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let (time, signature) = (time.to_string(), format!("v0={signature}"));
        let headers = [("x-slack-request-timestamp", time.as_str()), ("x-slack-signature", signature.as_str())];
        request("POST", "slack", &headers, body.to_owned())
    };
    assert_eq!(bench.send(slack(now, "hello")).await.status, 202);
    // The very same again; then the same words once more.
    assert_eq!(bench.send(slack(now, "hello")).await.said(), (200, r#"{"duplicate":true}"#));
    assert_eq!(bench.send(slack(now + 1, "hello")).await.status, 202);
    let stale = (401, "signature too old or from the future: check the clocks");
    for time in [now - 301, now + 301, 0] {
        assert_eq!(bench.send(slack(time, "hello")).await.said(), stale, "{time}");
    }
    assert_eq!(bench.send(request("POST", "slack", &[("x-token", SECRET)], "hello")).await.said(), WRONG);
    bench.clock.advance_seconds(301);
    assert_eq!(bench.send(slack(now, "hello")).await.said(), stale, "replayed later");
    assert_eq!(bench.adapter.seen().len(), 3);
}

#[tokio::test]
async fn without_a_proof_only_this_machine() {
    let bench = Bench::new();
    assert_eq!(bench.send(request("POST", "open", &[], "ignore")).await.status, 200);
    let mut elsewhere = request("POST", "open", &[], "ignore");
    elsewhere.extensions_mut().insert(Peer::at("192.0.2.1".parse().unwrap()));
    let refused = (401, "signature missing: without one, only programs on this machine may post here");
    assert_eq!(bench.send(elsewhere).await.said(), refused);
    let forwarded = request("POST", "open", &[("x-forwarded-for", "192.0.2.1")], "ignore");
    assert_eq!(bench.send(forwarded).await.said(), refused);
    // Where there is a proof, it does not matter where it comes from.
    let mut elsewhere = request("POST", "hook", &[("x-token", SECRET)], "ignore");
    elsewhere.extensions_mut().insert(Peer::at("192.0.2.1".parse().unwrap()));
    assert_eq!(bench.send(elsewhere).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn each_channel_has_a_rate_of_its_own() {
    let mut setup = Setup::default();
    setup.checks[0].rate = RateLimit { per_second: 0.4, burst: 2.0 };
    let bench = Bench::with(setup);
    // Rejected webhooks do not consume the rate limit.
    for _ in 0..5 {
        assert_eq!(bench.send(request("POST", "hook", &[], "ignore")).await.said(), WRONG);
    }
    for _ in 0..2 {
        assert_eq!(bench.post("hook", "ignore").await.status, 200);
    }
    let refused = bench.post("hook", "ignore").await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, "3"), "{refused:?}");
    assert_eq!(bench.post("wait", "ignore").await.status, 200);
    tokio::time::advance(Duration::from_secs(3)).await;
    assert_eq!(bench.post("hook", "ignore").await.status, 200);
    assert_eq!(bench.adapter.seen().len(), 4);
}

#[tokio::test]
async fn a_server_that_stops_takes_nothing_more() {
    let bench = Bench::new();
    bench.draining.cancel();
    let answer = bench.post("hook", "hi").await;
    assert_eq!((answer.said(), answer.header("retry-after")), ((503, "server is shutting down"), "5"));
    assert_eq!(bench.adapter.seen(), []);
}
