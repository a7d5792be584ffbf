use jiff::tz::{Offset, TimeZone};

use super::{MINUTE, SECOND, in_zone};

#[test]
fn times_are_shown_in_the_zone_of_the_reader() {
    let zone = TimeZone::fixed(Offset::constant(2));
    assert_eq!(in_zone("2026-11-18T23:30:05.25Z", &zone, MINUTE), "2026-11-19 01:30");
    assert_eq!(in_zone("2026-11-18T23:30:05.25Z", &zone, SECOND), "2026-11-19 01:30:05");
}

#[test]
fn what_is_no_time_is_left_alone() {
    assert_eq!(in_zone("soon", &TimeZone::UTC, MINUTE), "soon");
}
