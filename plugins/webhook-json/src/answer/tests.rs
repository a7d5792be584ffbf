use super::*;

#[test]
fn answers_are_json() {
    assert_eq!(for_caller("a \"b\"", false), r#"{"error":false,"reply":"a \"b\""}"#);
    assert_eq!(for_address(Some("7"), "no", true), r#"{"error":true,"id":"7","reply":"no"}"#);
    assert_eq!(for_address(None, "yes", false), r#"{"error":false,"id":null,"reply":"yes"}"#);
}

#[test]
fn a_context_survives_the_way_through_the_host() {
    for (id, reply_url) in [(None, None), (Some("1"), Some("https://a.example/x"))] {
        let context = Context { id: id.map(str::to_owned), reply_url: reply_url.map(str::to_owned) };
        assert_eq!(Context::read(&context.write()), Ok(context));
    }
    assert!(Context::read("nonsense").is_err());
}
