use super::*;

fn find(settings: &[(&str, &str)], body: &str) -> Result<Heard, String> {
    let get = |key: &str| settings.iter().find(|(name, _)| *name == key).map(|(_, value)| (*value).to_owned());
    Fields::read(get).find(body.as_bytes())
}

fn check(settings: &[(&str, &str)], body: &str, expected: Result<Heard, &str>) {
    assert_eq!(find(settings, body), expected.map_err(str::to_owned), "{body}");
}

fn words(content: &str) -> Heard {
    Heard { id: None, account: None, peer: None, guild: None, team: None, content: content.to_owned(), reply_url: None }
}

#[test]
fn the_usual_names() {
    check(&[], r#"{"content":"a","text":"b"}"#, Ok(words("a")));
    check(&[], r#"{"content":null,"text":"b"}"#, Ok(words("b")));
    check(&[], r#"{"message":"c"}"#, Ok(words("c")));
    // Whether nothing can be asked is for the host to say.
    check(&[], r#"{"content":""}"#, Ok(words("")));
    let all = r#"{"content":"a","id":7,"account":"ada","peer":"desk","guild":"g","team":"t","reply_url":"http://a/b"}"#;
    let some = |text: &str| Some(text.to_owned());
    let expected = Heard {
        id: some("7"),
        account: some("ada"),
        peer: some("desk"),
        guild: some("g"),
        team: some("t"),
        content: "a".to_owned(),
        reply_url: some("http://a/b"),
    };
    check(&[], all, Ok(expected));
}

#[test]
fn other_names_are_paths() {
    let settings = [("content_field", "data.items.1.body"), ("account_field", "data.who"), ("reply_url", "http://a/b")];
    let body = r#"{"content":"not this","data":{"who":5,"items":[{},{"body":"this"}]}}"#;
    let expected = Heard { account: Some("5".to_owned()), reply_url: Some("http://a/b".to_owned()), ..words("this") };
    check(&settings, body, Ok(expected));
    check(&settings, r#"{"data":{"items":{}}}"#, Err("the body has no `data.items.1.body`"));
}

#[test]
fn mistakes_are_named() {
    check(&[], "[]", Err("the body is not a JSON object"));
    check(&[], "{}", Err("the body has no `content`, `text` or `message`"));
    check(&[], r#"{"text":{"a":1}}"#, Err("`text` is not text"));
    check(&[], r#"{"text":"a","peer":[]}"#, Err("`peer` is neither text nor a number"));
    check(&[], r#"{"text":"a","reply_url":"ftp://a"}"#, Err("`reply_url` is not an http or https address"));
    let leak = r#"{"text":"a","reply_url":"https://a.example/?k={{secret:key}}"}"#;
    check(&[], leak, Err("`reply_url` has `{{` in it, which an address may not have"));
    let error = find(&[], "nonsense").expect_err("no JSON");
    assert!(error.starts_with("the body is not JSON: "), "{error}");
}
