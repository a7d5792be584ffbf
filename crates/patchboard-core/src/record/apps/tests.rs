use super::*;

#[test]
fn what_is_known_of_apps_reads_back() {
    let stored = r#"{"v1":[{"name":"notebook","description":"takes notes","seen_at":1700000000000000}]}"#;
    let known = decode_known_apps(stored.as_bytes()).unwrap();
    assert_eq!(
        encode_known_apps(&known),
        br#"{"v1":[{"name":"notebook","description":"takes notes","seen_at":1700000000000000,"approved":false}]}"#
    );
    assert!(decode_known_apps(b"{}").is_err());
}
