use super::*;

#[test]
fn arguments_are_read() {
    let read = |text: &str| read("hostile", text);
    assert_eq!(read(r#"{"what":"spin_host"}"#).map(|one| one.what), Ok(What::SpinHost));
    let call = read(r#"{"what":"host_function","name":"echo","arguments":{"text":"a"}}"#).expect("good arguments");
    assert_eq!((call.name(""), call.arguments()), ("echo".to_owned(), r#"{"text":"a"}"#.to_owned()));
    let text = read(r#"{"what":"host_function","arguments":"not json"}"#).expect("good arguments");
    assert_eq!(text.arguments(), "not json");
    assert!(read(r#"{"what":"be_nice"}"#).is_err());
    assert!(super::read("friendly", "{}").is_err());
}

#[test]
fn the_schema_names_every_argument() {
    let schema: Value = serde_json::from_str(&schema()).expect("a schema is JSON");
    let names: Vec<&String> = schema["properties"].as_object().expect("properties").keys().collect();
    let debugged = format!("{:?}", read("hostile", r#"{"what":"loop"}"#).expect("good arguments"));
    for name in names {
        assert!(debugged.contains(&format!("{name}:")), "{name} is read by nobody: {debugged}");
    }
}
