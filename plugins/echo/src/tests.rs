use super::*;

fn check(name: &str, arguments: &str, expected: Result<&str, &str>) {
    let found = answer(name, arguments);
    assert_eq!(found.as_deref().map_err(String::as_str), expected, "{name} {arguments}");
}

#[test]
fn the_tools_answer() {
    check("echo", r#"{"text":"héllo\n"}"#, Ok("héllo\n"));
    check("shout", r#"{"text":"hé"}"#, Ok("HÉ!"));
    check("shout", r#"{"text":"hey","times":3}"#, Ok("HEY! HEY! HEY!"));
    check("whisper", "{}", Err("no tool is called `whisper`"));
    check("echo", "{}", Err("the arguments cannot be read: missing field `text` at line 1 column 2"));
}

#[test]
fn the_counter_counts_where_memory_is_kept() {
    let first = count();
    assert_eq!(count(), first + 1);
}

#[test]
fn every_description_is_whole() {
    for tool in Echo::describe() {
        let schema: serde_json::Value = serde_json::from_str(&tool.input_schema).expect("a schema is JSON");
        assert_eq!(schema.get("type"), Some(&serde_json::json!("object")), "{}", tool.name);
        assert!(tool.read_only && !tool.description.is_empty());
    }
}
