use serde_json::json;

use super::*;
use crate::id::CallId;

fn call(tool: &str, arguments: Value) -> ToolCall {
    ToolCall { id: CallId("c".into()), name: tool.into(), input: ToolInput::Json(Arc::new(arguments)) }
}

fn shell(command: &str) -> ToolCall {
    call("bash", json!({"command": command}))
}

#[test]
fn a_command_is_known_by_its_first_word_unless_it_could_hold_another() {
    for (command, expected) in [
        ("ls -l", Some("ls")),
        ("  git   status ", Some("git")),
        ("cargo test --all", Some("cargo")),
        ("ls; rm -rf /", None),
        ("ls | sh", None),
        ("ls && rm x", None),
        ("echo $(rm x)", None),
        ("echo `rm x`", None),
        ("ls > file", None),
        ("ls\nrm x", None),
        ("ls \\\n rm", None),
        ("X=1 ls", None),
        ("env ls", None),
        ("sudo ls", None),
        ("sh -c ls", None),
        ("/bin/sh -c ls", None),
        ("/usr/bin/env ls", None),
        ("timeout 5 ls", None),
        ("python3 -c 1", None),
        ("find . -delete", None),
        ("'ls' x", None),
        ("", None),
    ] {
        let scope = expected.map(|word| AllowanceScope::Command(word.into()));
        assert_eq!(scope_of(&shell(command)), scope, "{command:?}");
    }
}

#[test]
fn addresses_are_known_by_their_host() {
    for (url, expected) in [
        ("https://Example.org/a?b", Some("https://example.org")),
        ("http://example.org:8080", Some("http://example.org:8080")),
        ("https://user:key@example.org/", Some("https://example.org")),
        ("https://example.org\\@evil.example/", Some("https://example.org")),
        ("ftp://example.org/", None),
        ("not an address", None),
    ] {
        let scope = expected.map(|host| AllowanceScope::Host(host.into()));
        assert_eq!(scope_of(&call("web_fetch", json!({"url": url}))), scope, "{url:?}");
    }
}

#[test]
fn an_allowance_covers_like_calls_in_the_same_folder_for_its_time() {
    let now = Timestamp::UNIX_EPOCH;
    let folder: Arc<Path> = Arc::from(Path::new("/srv/a"));
    let allowed = SessionAllowance::of(&shell("git status"), Some(folder.clone()), now).unwrap();
    assert!(allowed.covers(&shell("git log"), Some(&folder), now));
    assert!(!allowed.covers(&shell("git log; ls"), Some(&folder), now));
    assert!(!allowed.covers(&shell("ls"), Some(&folder), now));
    assert!(!allowed.covers(&shell("git log"), Some(&Arc::from(Path::new("/srv/b"))), now));
    assert!(!allowed.covers(&shell("git log"), None, now));
    assert!(!allowed.covers(&shell("git log"), Some(&folder), now + SignedDuration::from_hours(12)));
    let write = call("write_file", json!({"path": "a"}));
    let allowed = SessionAllowance::of(&write, Some(folder.clone()), now).unwrap();
    assert!(allowed.covers(&call("write_file", json!({"path": "b"})), Some(&folder), now));
    assert!(!allowed.covers(&call("edit_file", json!({"path": "b"})), Some(&folder), now));
}
