use std::time::Duration;

use proptest::prelude::*;

use super::{ByteSize, DayHours, ListenAddress, SecretRef, TimeSpan};
use crate::Environment;

#[test]
fn durations() {
    let cases = [
        ("500ms", 500),
        ("30s", 30_000),
        ("0s", 0),
        ("90m", 5_400_000),
        ("1h30m", 5_400_000),
        ("1d2h3m4s5ms", 93_784_005),
        ("30d", 2_592_000_000),
        ("007s", 7_000),
        ("3650d", 315_360_000_000),
    ];
    for (text, millis) in cases {
        let span: TimeSpan = text.parse().unwrap();
        assert_eq!(Duration::from(span), Duration::from_millis(millis), "{text}");
    }
}

#[test]
fn not_durations() {
    let bad = [
        "",
        "s",
        "10",
        "10 s",
        "10sec",
        "-1s",
        "1.5s",
        "30m1h",
        "1s1s",
        "1ms1s",
        "١s",
        "1s ",
        " 1s",
        "1w",
        "99999999999999999999s",
    ];
    for text in bad {
        let error = text.parse::<TimeSpan>().unwrap_err();
        assert_eq!(error, format!("`{text}` is not a duration such as `30s`, `500ms` or `1h30m`"));
    }
    for text in ["3651d", "99999999999999d", "3650d1ms"] {
        assert_eq!(text.parse::<TimeSpan>().unwrap_err(), format!("`{text}` is longer than ten years"));
    }
}

#[test]
fn durations_read_as_people_write_them() {
    for text in ["0s", "10s", "60s", "1m30s", "2m", "1h", "1h30m", "24h", "36h", "2d", "30d", "500ms", "1s1ms"] {
        assert_eq!(text.parse::<TimeSpan>().unwrap().to_string(), text);
    }
    assert_eq!("1d".parse::<TimeSpan>().unwrap().to_string(), "24h");
    assert_eq!("1m".parse::<TimeSpan>().unwrap().to_string(), "60s");
}

#[test]
fn sizes() {
    let cases = [
        ("1B", 1, "1B"),
        ("1000B", 1000, "1KB"),
        ("64KiB", 65_536, "64KiB"),
        ("16 MiB", 16_777_216, "16MiB"),
        ("1GB", 1_000_000_000, "1GB"),
        ("1024GiB", 1 << 40, "1024GiB"),
        ("0B", 0, "0B"),
    ];
    for (text, bytes, shown) in cases {
        let size: ByteSize = text.parse().unwrap();
        assert_eq!((size.get(), size.to_string().as_str()), (bytes, shown), "{text}");
        assert_eq!(size.as_usize() as u64, bytes);
    }
    for text in ["", "1", "1M", "1mib", "MiB", "-1B", "1.5MiB", "1025GiB", "99999999999999999999B", "9999999999GiB"] {
        assert!(text.parse::<ByteSize>().is_err(), "{text}");
    }
}

#[test]
fn addresses() {
    let cases = [
        ("127.0.0.1:7200", "127.0.0.1:7200", false),
        ("[::1]:7200", "[::1]:7200", false),
        (":0", "127.0.0.1:0", false),
        ("localhost:80", "127.0.0.1:80", false),
        ("127.8.9.1:1", "127.8.9.1:1", false),
        ("[::ffff:127.0.0.1]:1", "[::ffff:127.0.0.1]:1", false),
        ("off", "off", false),
        ("OFF", "off", false),
        ("0.0.0.0:7200", "0.0.0.0:7200", true),
        ("[::]:7200", "[::]:7200", true),
        ("10.0.0.7:1", "10.0.0.7:1", true),
        ("[::ffff:10.0.0.7]:1", "[::ffff:10.0.0.7]:1", true),
    ];
    for (text, shown, off_loopback) in cases {
        let listen: ListenAddress = text.parse().unwrap();
        assert_eq!((listen.to_string().as_str(), listen.is_off_loopback()), (shown, off_loopback));
    }
    for text in ["", "7200", "127.0.0.1", "example.com:80", ":", ":70000", "127.0.0.1:", "http://127.0.0.1:1", "on"] {
        assert!(text.parse::<ListenAddress>().is_err(), "{text}");
    }
    assert_eq!("off".parse::<ListenAddress>().unwrap().address(), None);
}

#[test]
fn secret_references() {
    assert_eq!("env:TOKEN".parse(), Ok(SecretRef::Env("TOKEN".to_owned())));
    assert_eq!("file:a b/c".parse(), Ok(SecretRef::File("a b/c".into())));
    assert_eq!(SecretRef::Env("A".to_owned()).to_string(), "env:A");
    assert_eq!(SecretRef::File("/x".into()).to_string(), "file:/x");
}

#[test]
fn complaints_about_secrets_do_not_repeat_them() {
    let secret = "hunter2";
    for text in
        ["hunter2", "env:hunter2!", "sk-hunter2", "ENV:hunter2", "env:", "file:", "env: hunter2", "env:2hunter2"]
    {
        let error = text.parse::<SecretRef>().unwrap_err();
        assert!(!error.contains(secret), "{error}");
        let deserialized = toml::Value::String(text.to_owned()).try_into::<SecretRef>().unwrap_err();
        assert!(!deserialized.to_string().contains(secret), "{deserialized}");
    }
}

#[test]
fn debug_of_the_environment_shows_no_values() {
    let environment: Environment = [("TOKEN", "hunter2")].into_iter().collect();
    assert_eq!(format!("{environment:?}"), "Environment(1 variables)");
}

proptest! {
    #[test]
    fn parsing_never_panics(text in "\\PC{0,24}") {
        let _span = text.parse::<TimeSpan>().is_ok();
        let _size = text.parse::<ByteSize>().is_ok();
        let _listen = text.parse::<ListenAddress>().is_ok();
        let _secret = text.parse::<SecretRef>().is_ok();
        let _hours = text.parse::<DayHours>().is_ok();
    }

    #[test]
    fn durations_survive_being_shown(millis in 0u64..315_360_000_000) {
        let span = TimeSpan::from_millis(millis);
        prop_assert_eq!(span.to_string().parse::<TimeSpan>(), Ok(span));
    }

    #[test]
    fn sizes_survive_being_shown(bytes in 0u64..=(1 << 40)) {
        let size: ByteSize = format!("{bytes}B").parse().unwrap();
        prop_assert_eq!(size.to_string().parse::<ByteSize>(), Ok(size));
    }
}
