use super::*;

const NOW: &str = "1994-11-06T08:49:00Z";

fn read(headers: &[(&str, &str)], now: Option<&str>) -> Option<Duration> {
    let find = |name: &str| headers.iter().find(|(own, _)| *own == name).map(|(_, value)| *value);
    retry_after(find, now.map(|now| now.parse().unwrap()))
}

#[test]
fn waits() {
    let date = ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT");
    for (headers, milliseconds) in [
        (&[("retry-after", "30")] as &[_], Some(30_000)),
        (&[("retry-after", " 0.5 ")], Some(500)),
        (&[("retry-after-ms", "250"), ("retry-after", "3")], Some(250)),
        (&[("retry-after-ms", "soon"), ("retry-after", "3")], Some(3000)),
        (&[date], Some(37_000)),
        (&[date, ("date", "Sun, 06 Nov 1994 08:49:30 GMT")], Some(7000)),
        (&[date, ("date", "yesterday")], Some(37_000)),
        (&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")], Some(0)),
        (&[("retry-after", "soon")], None),
        (&[("retry-after", "-1")], None),
        (&[("retry-after", "1e300")], None),
        (&[("retry-after", "NaN")], None),
        (&[("retry-after", "inf")], None),
        (&[("retry-after", "")], None),
        (&[], None),
    ] {
        assert_eq!(read(headers, Some(NOW)), milliseconds.map(Duration::from_millis), "{headers:?}");
    }
    assert_eq!(read(&[date], None), None, "against no clock");
    assert_eq!(read(&[("retry-after", "2")], None), Some(Duration::from_secs(2)));
}
