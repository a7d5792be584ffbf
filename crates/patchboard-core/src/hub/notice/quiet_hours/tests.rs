use jiff::civil;
use jiff::tz::{self, TimeZone};
use proptest::prelude::*;

use super::*;

/// A fixed offset of UTC+2.
fn zone() -> TimeZone {
    tz::offset(2).to_time_zone()
}

fn local(time: &str) -> Timestamp {
    let time: civil::Time = time.parse().unwrap();
    civil::date(2026, 3, 10).to_datetime(time).to_zoned(zone()).unwrap().timestamp()
}

#[test]
fn hours_by_the_users_clock() {
    let cases = [
        ("22:00-07:00", "21:59:59", false),
        ("22:00-07:00", "22:00:00", true),
        ("22:00-07:00", "23:59:59", true),
        ("22:00-07:00", "00:00:00", true),
        ("22:00-07:00", "06:59:59", true),
        ("22:00-07:00", "07:00:00", false),
        ("12:30-14:00", "12:29:59", false),
        ("12:30-14:00", "12:30:00", true),
        ("12:30-14:00", "14:00:00", false),
        ("00:00-23:59", "23:59:30", false),
    ];
    for (hours, time, expected) in cases {
        let hours: QuietHours = hours.parse().unwrap();
        assert_eq!(hours.contain(local(time), &zone()), expected, "{hours} at {time}");
    }
}

#[test]
fn the_end_is_waited_for_exactly_but_never_long() {
    let cases = [
        ("22:00-07:00", "06:59:50", 10_000),
        ("22:00-07:00", "06:59:59.5", 500),
        ("22:00-07:00", "03:00:00", 60_000),
        ("22:00-07:00", "22:00:00", 60_000),
        ("22:00-00:00", "23:59:30", 30_000),
        ("12:30-14:00", "13:59:00", 60_000),
    ];
    for (hours, time, millis) in cases {
        let hours: QuietHours = hours.parse().unwrap();
        assert_eq!(hours.wait(local(time), &zone()), Duration::from_millis(millis), "{hours} at {time}");
    }
}

/// In the repeated hour the end may lie in the past: the wait is still never zero.
#[test]
fn clocks_that_are_put_back() {
    let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
    let hours: QuietHours = "22:00-02:30".parse().unwrap();
    let twice: Timestamp = "2026-10-25T01:10:00Z".parse().unwrap();
    assert_eq!(zone.to_datetime(twice).time(), civil::time(2, 10, 0, 0));
    assert!(hours.contain(twice, &zone));
    assert_eq!(hours.wait(twice, &zone), MAX_RECHECK);
}

#[test]
fn hours_as_they_are_written() {
    let cases = [("22:00-07:00", "22:00-07:00"), ("00:00 - 23:59", "00:00-23:59")];
    for (text, shown) in cases {
        assert_eq!(text.parse::<QuietHours>().unwrap().to_string(), shown);
    }
    for text in ["", "22-7", "22:00", "22:00-24:00", "22:60-07:00", "2:00-07:00", "22:00-07:00-08:00", "+1:00-02:00"] {
        assert_eq!(text.parse::<QuietHours>(), Err(format!("`{text}` is not hours such as `22:00-07:00`")));
    }
    assert_eq!("07:00-07:00".parse::<QuietHours>(), Err("`07:00-07:00` ends when it begins".to_owned()));
}

proptest! {
    #[test]
    fn parsing_never_panics(text in "\\PC{0,16}") {
        let _hours = text.parse::<QuietHours>().is_ok();
    }

    #[test]
    fn waiting_is_never_zero_and_never_long(second in 0_i64..4_000_000_000, from in 0_i8..24, to in 0_i8..24) {
        prop_assume!(from != to);
        let hours: QuietHours = format!("{from:02}:15-{to:02}:15").parse().unwrap();
        let zone = TimeZone::posix("EST5EDT,M3.2.0,M11.1.0").unwrap();
        let wait = hours.wait(Timestamp::from_second(second).unwrap(), &zone);
        prop_assert!(wait > Duration::ZERO && wait <= MAX_RECHECK);
    }
}
