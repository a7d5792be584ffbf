use super::*;

fn now() -> Timestamp {
    "1994-11-06T08:49:00Z".parse().unwrap()
}

fn answered(status: u16, headers: &[(&str, &str)]) -> Result<FetchResponse, FetchError> {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Ok(FetchResponse { status, url: "https://api.example/".to_owned(), headers, body: Vec::new(), is_truncated: false })
}

fn later(why: &str, after: Option<u64>) -> SendOutcome {
    SendOutcome::Retry { why: why.to_owned(), after: after.map(Duration::from_secs) }
}

fn never(why: &str) -> SendOutcome {
    SendOutcome::Failed { why: why.to_owned() }
}

#[test]
fn what_may_work_later_is_told_from_what_never_will() {
    let seconds = [("Retry-After", " 30 ")];
    for (result, expected) in [
        (answered(200, &[]), SendOutcome::Sent),
        (answered(204, &[]), SendOutcome::Sent),
        (answered(302, &[]), never("answered 302")),
        (answered(400, &seconds), never("answered 400")),
        (answered(404, &[]), never("answered 404")),
        (answered(408, &[]), later("answered 408", None)),
        (answered(429, &seconds), later("answered 429", Some(30))),
        (answered(503, &[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")]), later("answered 503", Some(37))),
        (answered(503, &[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")]), later("answered 503", Some(0))),
        (answered(500, &[("retry-after", "soon")]), later("answered 500", None)),
        (answered(500, &[("retry-after", "-1")]), later("answered 500", None)),
        (Err(FetchError::Timeout("too slow".to_owned())), later("too slow", None)),
        (Err(FetchError::Failed("no connection".to_owned())), later("no connection", None)),
        (Err(FetchError::Refused("not granted".to_owned())), never("not granted")),
        (Err(FetchError::BadRequest("no host".to_owned())), never("no host")),
        (Err(FetchError::Cancelled), SendOutcome::Stopped),
    ] {
        let shown = format!("{result:?}");
        assert_eq!(SendOutcome::of(result, now()), expected, "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_are_tried_eight_times_in_ten_minutes() {
    let seconds = |pause: Option<Duration>| pause.map(|pause| pause.as_secs());
    let mut plain = RetrySchedule::for_requests();
    let pauses: Vec<_> = std::iter::from_fn(|| seconds(plain.pause(None))).collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64]);

    let mut patient = RetrySchedule::for_requests();
    assert_eq!(seconds(patient.pause(Some(Duration::from_secs(30)))), Some(30), "as long as it was asked to");
    assert_eq!(seconds(patient.pause(Some(Duration::from_secs(1)))), Some(2), "but no less than usual");
    assert_eq!(seconds(patient.pause(Some(Duration::from_secs(601)))), None, "too long");
    tokio::time::advance(Duration::from_secs(590)).await;
    assert_eq!(seconds(patient.pause(None)), Some(8));
    tokio::time::advance(Duration::from_secs(8)).await;
    assert_eq!(seconds(patient.pause(None)), None, "the time is up");
}

#[tokio::test(start_paused = true)]
async fn adapters_are_waited_for_as_long_as_there_is_time() {
    let mut backoff = RetrySchedule::for_adapters();
    let mut pauses = Vec::new();
    while let Some(pause) = backoff.pause(None) {
        pauses.push(pause.as_secs());
        tokio::time::advance(pause).await;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 64, 64, 64, 64, 64, 64, 64]);
}

#[test]
fn only_the_host_of_an_address_is_told() {
    for (url, expected) in [
        ("https://api.telegram.org/bot{{secret:token}}/sendMessage", "api.telegram.org"),
        ("https://user:pass@api.example:8443?x=1", "api.example:8443"),
        ("https://api.example#a/b", "api.example"),
        ("https:\\\\api.example\\x", "https:"),
        ("", ""),
    ] {
        assert_eq!(host(url), expected);
    }
}
