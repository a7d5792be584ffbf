//! Log, settings, clock, random, and what all functions have in common.

use super::*;
use crate::world::patchboard::plugin::{clock, host_functions, http, log, random, settings, store};
use log::Level;

#[tokio::test]
async fn settings_are_shown_and_secrets_only_named() {
    let mut state = Setting::new(&[]).call().await;
    assert_eq!(settings::Host::get(&mut state, "city".to_owned()).await.unwrap().as_deref(), Some("Ulm"));
    for key in ["token", "City", ""] {
        assert_eq!(settings::Host::get(&mut state, key.to_owned()).await.unwrap(), None);
    }
    assert_eq!(settings::Host::secrets(&mut state).await.unwrap(), ["key", "token"]);
}

#[tokio::test]
async fn the_clock_is_the_hosts() {
    let mut state = Setting::new(&[]).call().await;
    assert_eq!(clock::Host::now(&mut state).await.unwrap(), 1_767_268_800_250);
    let first = clock::Host::monotonic(&mut state).await.unwrap();
    let second = clock::Host::monotonic(&mut state).await.unwrap();
    assert!(first <= second && second < 60_000_000_000, "{first} {second}");
}

#[tokio::test]
async fn random_bytes_are_bounded_and_differ() {
    let mut state = Setting::new(&[]).call().await;
    for (requests, given) in [(0, 0), (1, 1), (65_536, 65_536), (65_537, 65_536), (u32::MAX, 65_536)] {
        assert_eq!(random::Host::bytes(&mut state, requests).await.unwrap().len(), given);
    }
    let first = random::Host::bytes(&mut state, 32).await.unwrap();
    assert_ne!(first, random::Host::bytes(&mut state, 32).await.unwrap());
}

#[tokio::test]
async fn lines_of_the_log_are_one_line_each_and_of_bounded_length() {
    let logged = Logged::start();
    let mut state = Setting::new(&[]).call().await;
    for (level, message) in [
        (Level::Trace, "a\nERROR forged"),
        (Level::Debug, "\u{1b}[2J\r\0"),
        (Level::Info, "grüße \u{202e}\u{2028}"),
        (Level::Warn, &"x".repeat(5000)),
        (Level::Error, &"é".repeat(5000)),
    ] {
        log::Host::write(&mut state, level, message.to_owned()).await.unwrap();
    }
    let cut = |letter: &str, count| format!("{}…", letter.repeat(count));
    let expected = [
        "TRACE plugin: a\\nERROR forged plugin=\"probe\"".to_owned(),
        "DEBUG plugin: \\u{1b}[2J\\r\\u{0} plugin=\"probe\"".to_owned(),
        "INFO plugin: grüße \\u{202e}\\u{2028} plugin=\"probe\"".to_owned(),
        format!("WARN plugin: {} plugin=\"probe\"", cut("x", 4096)),
        format!("ERROR plugin: {} plugin=\"probe\"", cut("é", 2048)),
    ];
    assert_eq!(logged.lines(), expected);
}

#[tokio::test]
async fn lines_beyond_the_hundredth_are_only_counted() {
    let logged = Logged::start();
    let mut state = Setting::new(&[]).call().await;
    for number in 0..107 {
        log::Host::write(&mut state, Level::Info, format!("line {number}")).await.unwrap();
    }
    assert_eq!((logged.lines().len(), state.log_lines_dropped), (100, 7));
    log_dropped_lines(&state);
    let lines = logged.lines();
    assert_eq!(lines.len(), 101);
    assert!(lines[100].starts_with("WARN plugin: ") && lines[100].contains("dropped=7"), "{}", lines[100]);
}

/// Each function, asked with what it would otherwise do.
async fn all(state: &mut CallState) -> Vec<CallAborted> {
    let text = || "granted".to_owned();
    let request = http::Request {
        method: "GET".to_owned(),
        url: "https://granted/".to_owned(),
        headers: vec![],
        body: None,
        timeout_ms: None,
    };
    vec![
        ended(log::Host::write(state, Level::Info, text()).await),
        ended(settings::Host::get(state, text()).await),
        ended(settings::Host::secrets(state).await),
        ended(clock::Host::now(state).await),
        ended(clock::Host::monotonic(state).await),
        ended(random::Host::bytes(state, 1).await),
        ended(store::Host::get(state, text(), text()).await),
        ended(store::Host::set(state, text(), text(), vec![]).await),
        ended(store::Host::delete(state, text(), text()).await),
        ended(store::Host::keys(state, text(), String::new(), None).await),
        ended(http::Host::send(state, request).await),
        ended(host_functions::Host::call(state, text(), "{}".to_owned()).await),
    ]
}

#[tokio::test]
async fn nothing_is_done_for_a_call_that_is_over() {
    let mut setting = Setting::new(&["http:granted", "store:granted", "host-function:granted"]);
    setting.limits.time = Duration::ZERO;
    assert_eq!(all(&mut setting.call().await).await, [CallAborted::OutOfTime; 12]);
    setting.stop.cancel();
    setting.limits.time = Duration::from_secs(30);
    assert_eq!(all(&mut setting.call().await).await, [CallAborted::Cancelled; 12]);
    assert_eq!(setting.fetch.requests(), []);
}

#[tokio::test]
async fn a_call_that_only_asks_the_host_lets_others_run() {
    let mut state = Setting::new(&[]).call().await;
    let mut turns_of_others = 0;
    let asking = async {
        for _ in 0..640 {
            clock::Host::now(&mut state).await.unwrap();
        }
    };
    let others = async {
        loop {
            turns_of_others += 1;
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = asking => {}
        () = others => {}
    }
    assert_eq!(turns_of_others, 10);
}
