use super::*;

#[test]
fn what_was_written_stays_readable() {
    let at = || "2026-11-15T12:00:00Z".parse().unwrap();
    let workspaces = [conversation::Workspace { id: "w1".into(), name: "Häuser".into(), created_at: at() }];
    let written = r#"{"v1":[{"id":"w1","name":"Häuser","created_at":"2026-11-15T12:00:00Z"}]}"#;
    assert_eq!(String::from_utf8(encode_workspaces(&workspaces)).unwrap(), written);
    assert_eq!(decode_workspaces(written.as_bytes()).unwrap(), workspaces);
    let threads = [conversation::WorkspaceThread { thread: "t:1".into(), created_at: at() }];
    let written = r#"{"v1":[{"thread":"t:1","created_at":"2026-11-15T12:00:00Z"}]}"#;
    assert_eq!(String::from_utf8(encode_workspace_threads(&threads)).unwrap(), written);
    assert_eq!(decode_workspace_threads(written.as_bytes()).unwrap(), threads);
    for bad in ["", "{}", r#"{"v2":[]}"#, r#"{"v1":[{"thread":"t","created_at":"noon"}]}"#] {
        assert!(decode_workspace_threads(bad.as_bytes()).is_err(), "{bad}");
    }
}
