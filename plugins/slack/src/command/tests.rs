use super::*;

const WHO: &str = "channel_id=C1&user_id=U1&team_id=T1&trigger_id=13.7.abc";

fn check(form: &str, expected: Result<Meaning, &str>) {
    assert_eq!(read(form.as_bytes()), expected.map_err(str::to_owned), "{form}");
}

#[test]
fn a_command_is_a_message() {
    check(
        &format!(
            "token=x&{WHO}&command=%2Fask&text=how+much+is+1%2B1%3F+%C3%A4+%26amp%3B&response_url=https%3A%2F%2Fx"
        ),
        Ok(Meaning::Message(Heard {
            id: "13.7.abc".to_owned(),
            account: "U1".to_owned(),
            peer: "C1".to_owned(),
            team: Some("T1".to_owned()),
            content: "how much is 1+1? ä &".to_owned(),
            context: Context { channel: "C1".to_owned(), thread: None },
        })),
    );
}

#[test]
fn a_command_without_words_is_answered_with_a_hint() {
    let hint = r#"{"response_type":"ephemeral","text":"Write what you want to say after `/ask`."}"#;
    check(&format!("{WHO}&command=%2Fask&text="), Ok(Meaning::Answered("application/json", hint.to_owned())));
}

#[test]
fn other_forms() {
    check("ssl_check=1&token=x", Ok(Meaning::Ignored("a check of the connection".to_owned())));
    check("payload=%7B%7D", Ok(Meaning::Ignored("a press of a button or another interaction".to_owned())));
    check("a=b", Err("a form that is no slash command"));
    check("command=%2Fask&text=x", Err("a slash command without `channel_id` or `user_id`"));
    check("command=%2Fask&text=x&channel_id=C&user_id=U", Err("a slash command without `trigger_id`"));
}

#[test]
fn values_are_decoded() {
    for (value, expected) in [("a+b%20c", "a b c"), ("100%", "100%"), ("%zz%4", "%zz%4"), ("%ff", "\u{fffd}")] {
        assert_eq!(decoded(value), expected, "{value}");
    }
}
