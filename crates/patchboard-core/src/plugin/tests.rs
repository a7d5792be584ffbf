use super::*;

#[test]
fn errors_of_plugins_keep_their_sentence() {
    let refused = BoardError::from(PluginError::Refused("not a component".to_owned()));
    assert_eq!((refused.kind, refused.message.as_str()), (ErrorKind::Invalid, "not a component"));
    let held = BoardError::from(PluginError::AwaitingApproval("waits".to_owned()));
    assert_eq!(held.kind, ErrorKind::Conflict);
}
