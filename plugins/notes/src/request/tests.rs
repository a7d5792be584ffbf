use super::*;

fn check(name: &str, arguments: &str, expected: Result<Request, &str>) {
    assert_eq!(Request::parse(name, arguments), expected.map_err(str::to_owned), "{name} {arguments}");
}

#[test]
fn requests_are_read() {
    let title = || "shopping list".to_owned();
    check(
        "note_add",
        r#"{"title":" shopping list ","text":"milk\n"}"#,
        Ok(Request::Add { title: title(), text: "milk\n".to_owned() }),
    );
    check("note_get", r#"{"title":"shopping list"}"#, Ok(Request::Get { title: title() }));
    check("note_delete", r#"{"title":"shopping list"}"#, Ok(Request::Delete { title: title() }));
    check("note_list", "{}", Ok(Request::List { prefix: String::new() }));
    check("note_list", r#"{"prefix":"sh"}"#, Ok(Request::List { prefix: "sh".to_owned() }));
}

#[test]
fn mistakes_are_named() {
    check("note_add", r#"{"title":"a","text":" "}"#, Err("a note needs a text"));
    check("note_add", r#"{"title":"  ","text":"b"}"#, Err("a note needs a title"));
    check("note_get", r#"{"title":"two\nlines"}"#, Err("a title is one line without control characters"));
    check("note_burn", "{}", Err("no tool is called `note_burn`"));
    let long = json!({ "title": "ä".repeat(200) }).to_string();
    check("note_get", &long, Err("the title is too long: 400 bytes, 256 are the most"));
}

#[test]
fn pages_are_asked_for_until_one_is_empty() {
    let mut listing = Listing::default();
    assert_eq!(listing.next_page(), Some(None));
    listing.add(vec!["a".to_owned(), "b".to_owned()]);
    assert_eq!(listing.next_page(), Some(Some("b".to_owned())));
    listing.add(Vec::new());
    assert_eq!(listing.next_page(), None);
    assert_eq!(listing.in_json(), r#"{"more":false,"titles":["a","b"]}"#);
}

#[test]
fn a_very_long_list_is_cut_and_says_so() {
    let mut listing = Listing::default();
    let mut asked = 0;
    while listing.next_page().is_some() {
        listing.add((0..1000).map(|at| format!("{asked}-{at}")).collect());
        asked += 1;
    }
    assert_eq!(asked, 2);
    assert!(listing.in_json().starts_with(r#"{"more":true,"titles":["0-0","#));
}

#[test]
fn every_schema_is_json() {
    for (name, _, schema, _) in TOOLS {
        let schema: serde_json::Value = serde_json::from_str(schema).expect(name);
        assert_eq!(schema.get("type"), Some(&json!("object")), "{name}");
    }
}
