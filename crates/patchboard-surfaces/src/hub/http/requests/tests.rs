use super::*;

#[test]
fn how_long_to_wait() {
    let second = Duration::from_secs(1);
    for (query, wait) in [
        ("", MessageWait::No),
        ("?wait=0", MessageWait::No),
        ("?newer_than=3", MessageWait::No),
        ("?wait=120", MessageWait::Settled(second * 120)),
        ("?wait=0.5", MessageWait::Settled(second / 2)),
        ("?wait=1&newer_than=3", MessageWait::Newer(Seq(3), second)),
    ] {
        let uri = format!("/v1/messages/msg-550e8400-e29b-41d4-a716-446655440000{query}").parse().unwrap();
        assert_eq!(ApiQuery::<ReadQuery>::read(&uri).unwrap().0.0, wait, "{query}");
    }
    let uri = "/v1/messages?wait=1".parse().unwrap();
    assert_eq!(ApiQuery::<SubmitQuery>::read(&uri).unwrap().0.0, MessageWait::Settled(second));
}
