use std::time::Duration;

use super::{GuestFailure, format_size, panic_message, printable};
use crate::call::format_duration;

#[test]
fn finds_the_last_words() {
    let check = |text: &str, words: Option<&str>| assert_eq!(panic_message(text).as_deref(), words, "{text:?}");
    check("", None);
    check("\n\n", None);
    check("only this", Some("only this"));
    check(
        "\nthread '<unnamed>' panicked at src/lib.rs:5:5:\nboom\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
        Some("boom"),
    );
    check("memory allocation of 8 bytes failed\n", Some("memory allocation of 8 bytes failed"));
    check("Traceback (most recent call last):\n  File \"x\"\nValueError: no\n\n", Some("ValueError: no"));
    check("red \u{1b}[31mtext\u{7}", Some("red  [31mtext "));
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
    assert_eq!(GuestFailure::Exit(3).message("p"), "plugin p ended itself with exit code 3");
    assert_eq!(
        GuestFailure::QueueTimeout(Duration::from_secs(30)).message("p"),
        "a call of plugin p waited 30 s for its turn"
    );
}
