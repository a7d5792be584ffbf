use super::*;

fn wish(method: &Method, uri: &str, body: &str) -> ParsedRequest {
    let uri: Uri = uri.parse().unwrap();
    ApiRoute::find(method, uri.path()).and_then(|route| route.parse(&uri, body)).unwrap()
}

#[test]
fn how_long_to_wait() {
    let second = Duration::from_secs(1);
    let id = "msg-550e8400-e29b-41d4-a716-446655440000";
    for (uri, wait) in [
        (format!("/v1/messages/{id}"), ReplyWait::No),
        (format!("/v1/messages/{id}?wait=0"), ReplyWait::No),
        (format!("/v1/messages/{id}?newer_than=3"), ReplyWait::No),
        (format!("/v1/messages/{id}?wait=120"), ReplyWait::Settled(second * 120)),
        (format!("/v1/messages/{id}?wait=0.5"), ReplyWait::Settled(second / 2)),
        (format!("/v1/messages/{id}?wait=1&newer_than=3"), ReplyWait::Newer(Seq(3), second)),
    ] {
        assert_eq!(wish(&Method::GET, &uri, "").wait, wait, "{uri}");
    }
    assert_eq!(wish(&Method::POST, "/v1/messages?wait=1", r#"{"text":"x"}"#).wait, ReplyWait::Settled(second));
}

#[test]
fn what_may_be_taken_later_is_accepted_and_the_rest_is_done() {
    let id = "msg-550e8400-e29b-41d4-a716-446655440000";
    for (method, uri, body, status) in [
        (Method::POST, "/v1/messages".to_owned(), r#"{"text":"x"}"#, 202),
        (Method::POST, format!("/v1/messages/{id}/resend"), "", 202),
        (Method::POST, format!("/v1/messages/{id}/route"), r#"{"client":"a"}"#, 202),
        (Method::POST, format!("/v1/messages/{id}/cancel"), "", 202),
        (Method::GET, "/v1/messages".to_owned(), "", 200),
        (Method::GET, "/v1/clients".to_owned(), "", 200),
        (Method::POST, "/v1/clients/a/forget".to_owned(), "", 200),
        (Method::POST, "/v1/clients/*/forget".to_owned(), "", 200),
        (Method::POST, "/v1/clients/%2A/forget".to_owned(), "", 200),
        (Method::POST, "/v1/route".to_owned(), r#"{"text":"x"}"#, 200),
    ] {
        assert_eq!(wish(&method, &uri, body).status.as_u16(), status, "{uri}");
    }
}

#[test]
fn a_token_is_shown_as_it_is_and_kept_as_its_hash() {
    let ParsedRequest { command, token, .. } = wish(&Method::POST, "/v1/clients/a/pair", "");
    let Command::PairApp { app, token: kept } = command else { panic!("{command:?}") };
    assert_eq!((&*app, kept), ("a", map::hash_token(&token.unwrap())));
}
