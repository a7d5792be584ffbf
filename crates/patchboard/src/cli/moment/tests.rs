use super::*;

#[test]
fn moments_are_days_times_or_ages() {
    let now: Timestamp = "2026-11-20T12:00:00Z".parse().unwrap();
    let zone = TimeZone::fixed(jiff::tz::offset(1));
    let cases = [
        ("2026-11-01T08:00:00Z", Some("2026-11-01T08:00:00Z")),
        ("2026-11-01", Some("2026-10-31T23:00:00Z")),
        ("2h", Some("2026-11-20T10:00:00Z")),
        ("1d 30m", Some("2026-11-19T11:30:00Z")),
        ("-2h", None),
        ("99999999999d", None),
        ("yesterday", None),
        ("", None),
    ];
    for (text, expected) in cases {
        let parsed = parse_at(text, now, &zone).ok().map(|moment| moment.to_string());
        assert_eq!(parsed.as_deref(), expected, "{text:?}");
    }
}
