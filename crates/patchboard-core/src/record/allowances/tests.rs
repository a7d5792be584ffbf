use super::*;

#[test]
fn allowances_are_written_as_the_fixture_shows() {
    let until = "2026-11-19T12:00:00Z".parse().unwrap();
    let allowance = |tool: &str, scope, folder: Option<&str>| SessionAllowance {
        tool: tool.into(),
        scope,
        folder: folder.map(|folder| Arc::from(Path::new(folder))),
        until,
    };
    let allowances = vec![
        allowance("write_file", AllowanceScope::Folder, Some("/srv/a")),
        allowance("web_fetch", AllowanceScope::Host("https://example.org".into()), None),
        allowance("bash", AllowanceScope::Command("git".into()), Some("/srv/a")),
    ];
    let fixture = include_str!("../fixtures/v1.allowances.json").trim_end();
    assert_eq!(String::from_utf8(encode_allowances(&allowances)).unwrap(), fixture);
    assert_eq!(decode_allowances(fixture.as_bytes()).unwrap(), allowances);
    for bad in ["", "{}", r#"{"v2":[]}"#, r#"{"v1":[{"tool":"a","scope":"all","until":"never"}]}"#] {
        assert!(decode_allowances(bad.as_bytes()).is_err(), "{bad}");
    }
}
