use std::time::Duration;

use super::{format_duration, format_size, printable, quote_untrusted};

#[test]
fn what_plugins_write_is_shown_short_and_escaped() {
    assert_eq!(quote_untrusted("notes"), "notes");
    assert_eq!(quote_untrusted("a\n`b"), "a\\n`b");
    assert_eq!(quote_untrusted(&"é".repeat(81)), format!("{}…", "é".repeat(80)));
    assert_eq!(quote_untrusted(&"é".repeat(80)), "é".repeat(80));
}

#[test]
fn quotes_no_more_than_a_line() {
    assert_eq!(printable(&"x".repeat(300)), "x".repeat(300));
    assert_eq!(printable(&"ü".repeat(301)), format!("{}…", "ü".repeat(300)));
    assert_eq!(printable("a\r\nb"), "a  b");
}

#[test]
fn names_amounts() {
    let sizes = [(0, "0 bytes"), (1, "1 bytes"), (1024, "1 KiB"), (1536, "1536 bytes"), (64 << 20, "64 MiB")];
    for (bytes, text) in sizes {
        assert_eq!(format_size(bytes), text);
    }
    assert_eq!(format_duration(Duration::from_secs(30)), "30 s");
    assert_eq!(format_duration(Duration::from_millis(1500)), "1500 ms");
}
