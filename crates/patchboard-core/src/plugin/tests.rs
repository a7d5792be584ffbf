use super::*;

#[test]
fn what_is_json_is_told_from_what_is_not() {
    for text in ["{}", "[1,2]", "\"a\"", "1", "null", " {\"a\": 1} "] {
        assert!(is_json(text), "{text}");
    }
    for text in ["", "hello", "{", "1 2", "{} trailing"] {
        assert!(!is_json(text), "{text}");
    }
}

#[test]
fn errors_of_plugins_keep_their_sentence() {
    let refused = BoardError::from(PluginError::Refused("not a component".to_owned()));
    assert_eq!((refused.kind, refused.message.as_str()), (ErrorKind::Invalid, "not a component"));
    let held = BoardError::from(PluginError::AwaitingApproval("waits".to_owned()));
    assert_eq!(held.kind, ErrorKind::Conflict);
}
