use super::parse_sidecar;

#[track_caller]
fn refused(text: &str, words: &[&str]) {
    let reason = parse_sidecar(text).unwrap_err();
    assert!(words.iter().all(|word| reason.contains(word)), "{text}: {reason}");
}

#[test]
fn grants_and_settings_are_read() {
    let text = "grants = [\"http:API.example.com:8443\", \"store:notes\", \"store:notes\"]\n[settings]\nroot = \"x\"\n";
    let (grants, settings) = parse_sidecar(text).unwrap();
    let grants: Vec<String> = grants.iter().map(ToString::to_string).collect();
    assert_eq!(grants, ["http:api.example.com:8443", "store:notes"]);
    assert_eq!(settings.into_iter().collect::<Vec<_>>(), [("root".to_owned(), "x".to_owned())]);
    assert_eq!(parse_sidecar("").unwrap(), (Vec::new(), Default::default()));
}

#[test]
fn what_does_not_belong_there_is_refused() {
    refused("grants = [\"fs:/\"]", &["`fs:/` is not a grant"]);
    refused("\n\nsecrets = { token = \"env:TOKEN\" }", &["line 3", "secrets"]);
    refused("grants = \"store:x\"", &["line 1"]);
    refused("settings = { a = 5 }", &["line 1"]);
    refused("settings = { \"a b\" = \"x\" }", &["settings.a b", "letters"]);
    refused("grants = [", &["line 1"]);
    refused(&format!("settings = {{ a = \"{}\" }}", "x".repeat(16 * 1024 + 1)), &["settings.a", "16 KiB"]);
    refused(&format!("grants = {:?}", vec!["store:x"; 257]), &["257", "256"]);
    let many: String = (0..257).map(|number| format!("k{number} = \"x\"\n")).collect();
    refused(&format!("[settings]\n{many}"), &["257", "256"]);
}

/// It may be a secret that somebody wrote there by mistake.
#[test]
fn values_are_not_repeated() {
    for text in ["settings = { a = hunter2 }", "token = \"hunter2\"", "settings = [\"hunter2\"]"] {
        let reason = parse_sidecar(text).unwrap_err();
        assert!(!reason.contains("hunter2"), "{reason}");
    }
}
