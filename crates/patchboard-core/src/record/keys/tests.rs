use super::*;
use crate::caller::Surface;

#[test]
fn what_was_written_stays_readable() {
    let created = KeySource::Created("2026-11-15T12:00:00Z".parse().unwrap());
    let plain = KeySpec { name: "ci".into(), hash: KeyHash([10; 32]), rights: KeyRights::default(), source: created };
    let rights = KeyRights {
        agents: Some(vec!["planner".into()]),
        surfaces: Some(vec![Surface::Gateway, Surface::Mcp]),
        tools: Some(vec![Glob::new("read"), Glob::new("app.*")]),
        oversee: true,
        budget: KeyBudget { daily: Some(5), monthly: Some(100_000) },
        trust_headers: Vec::new(),
    };
    let full = KeySpec { rights, ..plain.clone() };
    let hash = "0a".repeat(32);
    for (key, written) in [
        (
            plain,
            format!(r#"{{"v1":{{"name":"ci","hash":"{hash}","oversee":false,"created_at":"2026-11-15T12:00:00Z"}}}}"#),
        ),
        (
            full,
            format!(
                r#"{{"v1":{{"name":"ci","hash":"{hash}","agents":["planner"],"surfaces":["gateway","mcp"],"tools":["read","app.*"],"oversee":true,"daily":5,"monthly":100000,"created_at":"2026-11-15T12:00:00Z"}}}}"#
            ),
        ),
    ] {
        assert_eq!(String::from_utf8(encode_key(&key).unwrap()).unwrap(), written);
        assert_eq!(decode_key(written.as_bytes()).unwrap(), key);
    }
    let of_file =
        KeySpec { name: "ci".into(), hash: KeyHash([0; 32]), rights: KeyRights::default(), source: KeySource::File };
    assert_eq!(encode_key(&of_file), None);
    let short_hash = r#"{"v1":{"name":"ci","hash":"0a","created_at":"2026-11-15T12:00:00Z"}}"#;
    for bad in ["", "{}", r#"{"v2":{}}"#, short_hash] {
        assert!(decode_key(bad.as_bytes()).is_err(), "{bad}");
    }
}
