use std::time::Duration;

use super::{GuestFailure, panic_message};

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
fn says_what_ended_a_call() {
    assert_eq!(GuestFailure::Exit(3).message("p"), "plugin p ended itself with exit code 3");
    assert_eq!(
        GuestFailure::QueueTimeout(Duration::from_secs(30)).message("p"),
        "a call of plugin p waited 30 s for its turn"
    );
}
