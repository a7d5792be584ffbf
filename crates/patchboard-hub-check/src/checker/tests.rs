//! Transcripts: `SECONDS > what the client does`, then everything the stand-in says and does about it.

use std::fmt::Write;
use std::time::Duration;

use patchboard_core::id::MessageId;
use serde_json::Value;
use uuid::Uuid;

use super::{CheckOptions, ClientEvent, ConformanceChecker, HubAction};
use crate::frame::FrameEncoding;
use crate::handshake::{EndpointConfig, Handshake};
use crate::script::HubScript;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    Once,
    Whole,
}

fn judge(length: Length) -> ConformanceChecker {
    let place = EndpointConfig { path: "/".to_owned(), allowed_origins: vec!["app://obsidian.md".to_owned()] };
    let plan = CheckOptions { endpoint: place, once: length == Length::Once, timeout: Duration::from_secs(300) };
    let script = HubScript {
        start: "2026-01-02T03:04:05Z".parse().unwrap(),
        client: Uuid::from_u128(9),
        messages: [1, 2, 3, 4].map(|number| MessageId(Uuid::from_u128(number))),
    };
    ConformanceChecker::new(plan, script)
}

fn read(input: &str) -> ClientEvent {
    let id = |number: u128| MessageId(Uuid::from_u128(number)).to_string();
    let answer = |kind: &str, number: &str| {
        let id = id(number.parse().unwrap());
        let inner = if kind == "notification" { r#"{"body":"Saved."}"# } else { "{}" };
        format!(r#"{{"type":"response","payload":{{"messageId":"{id}","type":"{kind}","payload":{inner}}}}}"#)
    };
    let data = |text: String| ClientEvent::Data(FrameEncoding::Text, text.into_bytes());
    match input.split(' ').collect::<Vec<_>>().as_slice() {
        ["connect"] => ClientEvent::Connected(Handshake {
            path: "/".to_owned(),
            host: Some("127.0.0.1:9474".to_owned()),
            ..Handshake::default()
        }),
        ["register"] => {
            data(r#"{"type":"registration","payload":{"name":"notes","description":"I take notes."}}"#.to_owned())
        }
        [kind @ ("ack" | "reject" | "notification"), number] => data(answer(kind, number)),
        ["pong"] => ClientEvent::Pong(super::PING_PAYLOAD.to_vec()),
        ["pong", "other"] => ClientEvent::Pong(b"x".to_vec()),
        ["close", code] => ClientEvent::Closed(Some(code.parse().unwrap())),
        ["gone"] => ClientEvent::Closed(None),
        ["another"] => ClientEvent::SecondConnection,
        ["stranger"] => ClientEvent::HandshakeFailed("no upgrade".to_owned()),
        ["garbled"] => ClientEvent::ProtocolError("message too long".to_owned()),
        ["time"] => ClientEvent::Tick,
        _ => data(input.to_owned()),
    }
}

fn shown(act: &HubAction) -> Option<String> {
    Some(match act {
        HubAction::Report(verdict) => {
            let finding = &verdict.finding;
            assert_eq!(finding.fix.is_none(), finding.level.word() == "ok", "{finding:?}");
            format!("{} {}: {}", finding.level.word(), finding.step.word(), finding.observed)
        }
        HubAction::Note(_) => return None,
        HubAction::Send(text) => {
            let frame: Value = serde_json::from_str(text).unwrap();
            let of = |key: &str| frame["payload"].get(key).map(|value| value.as_str().unwrap_or("true").to_owned());
            let number = of("id").map(|id| id.trim_start_matches("msg-").trim_start_matches(['0', '-']).to_owned());
            let details = [number, of("timestamp"), of("code")].into_iter().flatten().collect::<Vec<_>>().join(" ");
            format!("send {} {details}", frame["type"].as_str().unwrap()).trim_end().to_owned()
        }
        HubAction::Ping(_) => "ping".to_owned(),
        HubAction::Close => "close".to_owned(),
        HubAction::Drop => "drop".to_owned(),
        HubAction::Finish => "finish".to_owned(),
    })
}

/// Plays the client's lines of a transcript and writes the whole of it anew.
#[track_caller]
fn check(length: Length, transcript: &str) {
    let mut judge = judge(length);
    let lines: Vec<&str> = transcript.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut played = String::new();
    for line in &lines {
        let Some((at, input)) = line.split_once(" > ") else { continue };
        writeln!(played, "{line}").unwrap();
        let at = Duration::from_secs_f64(at.parse().unwrap());
        for act in judge.handle_event(at, read(input)) {
            shown(&act).into_iter().for_each(|line| writeln!(played, "{line}").unwrap());
        }
    }
    assert_eq!(played, format!("{}\n", lines.join("\n")));
}

/// What every good client begins with.
const BEGIN: &str = "
    0 > connect
    ok handshake: the path `/`
    ok handshake: the host `127.0.0.1:9474`
    ok handshake: no Origin
    ok handshake: no subprotocol
    0.1 > register
    ok registration: the name `notes`
    ok registration: a description of 3 words
    ok registration: registered after 0.1 s
    send registration_response
    send message 1 2026-01-02T03:04:05.100Z
";

/// From there to the end of the first connection.
const MIDDLE: &str = "
    0.2 > ack 1
    ok response: an ack
    ok response: message 1 answered after 0.1 s
    send message 2 2026-01-02T03:04:05.200Z
    send message 3 2026-01-02T03:04:05.200Z
    0.3 > ack 3
    ok response: an ack
    ok response: message 3 answered after 0.1 s
    0.4 > notification 1
    ok response: a notification: `Saved.`
    0.5 > ack 2
    ok response: an ack
    ok response: message 2 answered after 0.3 s
    send message 1 2026-01-02T03:04:05.500Z
    0.6 > ack 1
    ok response: an ack
    ok response: message 1 answered after 0.1 s
    send hub_check_unknown NONE
    send message 4 2026-01-02T03:04:05.600Z
    0.7 > ack 4
    ok response: an ack
    ok response: message 4 answered after 0.1 s
    ok frame: an unknown frame and unknown fields did no harm
    ping
    0.8 > pong
    ok heartbeat: pong after 0.1 s
    close
";

#[test]
fn a_good_client_from_end_to_end() {
    let end = "
        0.9 > close 1001
        2.0 > connect
        ok handshake: the path `/`
        ok handshake: the host `127.0.0.1:9474`
        ok handshake: no Origin
        ok handshake: no subprotocol
        ok reconnect: back after 1.1 s
        2.1 > register
        ok registration: the name `notes`
        ok registration: a description of 3 words
        send registration_response DUPLICATE_NAME
        2.1 > close 4000
        4.1 > connect
        ok handshake: the path `/`
        ok handshake: the host `127.0.0.1:9474`
        ok handshake: no Origin
        ok handshake: no subprotocol
        ok reconnect: tried again after 2.0 s
        4.2 > register
        ok registration: the name `notes`
        ok registration: a description of 3 words
        send registration_response
        ok reconnect: registered again after the refusal
        close
        finish
    ";
    check(Length::Whole, &format!("{BEGIN}{MIDDLE}{end}"));
}

#[test]
fn one_connection_is_enough_when_asked() {
    check(Length::Once, &format!("{BEGIN}{MIDDLE}finish"));
}

#[test]
fn a_client_that_hammers() {
    let end = "
        0.9 > gone
        1.0 > connect
        ok handshake: the path `/`
        ok handshake: the host `127.0.0.1:9474`
        ok handshake: no Origin
        ok handshake: no subprotocol
        wrong reconnect: back after 0.1 s
        1.1 > register
        ok registration: the name `notes`
        ok registration: a description of 3 words
        send registration_response DUPLICATE_NAME
        1.2 > register
        ok registration: the name `notes`
        ok registration: a description of 3 words
        wrong reconnect: tried again after 0.1 s
        send registration_response
        ok reconnect: registered again after the refusal
        close
        finish
    ";
    check(Length::Whole, &format!("{BEGIN}{MIDDLE}{end}"));
}

#[test]
fn pauses_that_are_short_or_do_not_grow() {
    let end = "
        0.9 > close 1001
        1.7 > connect
        ok handshake: the path `/`
        ok handshake: the host `127.0.0.1:9474`
        ok handshake: no Origin
        ok handshake: no subprotocol
        warn reconnect: back after 0.8 s
        1.7 > register
        ok registration: the name `notes`
        ok registration: a description of 3 words
        send registration_response DUPLICATE_NAME
        2.5 > register
        ok registration: the name `notes`
        ok registration: a description of 3 words
        warn reconnect: tried again after 0.8 s, no longer than before
        send registration_response
        ok reconnect: registered again after the refusal
        close
        finish
    ";
    check(Length::Whole, &format!("{BEGIN}{MIDDLE}{end}"));
}

#[test]
fn a_client_that_does_not_come_back() {
    check(
        Length::Whole,
        &format!(
            "{BEGIN}{MIDDLE}
        0.9 > close 1001
        40.8 > time
        40.9 > time
        wrong reconnect: not back after 40.0 s
        finish
    "
        ),
    );
}

#[test]
fn a_client_that_keeps_a_closed_connection_and_gives_up_after_a_refusal() {
    check(
        Length::Whole,
        &format!(
            "{BEGIN}{MIDDLE}
        5.8 > time
        warn reconnect: the connection stays open after the hub closed it
        drop
        7.8 > connect
        ok handshake: the path `/`
        ok handshake: the host `127.0.0.1:9474`
        ok handshake: no Origin
        ok handshake: no subprotocol
        ok reconnect: back after 2.0 s
        7.9 > register
        ok registration: the name `notes`
        ok registration: a description of 3 words
        send registration_response DUPLICATE_NAME
        77.9 > time
        warn reconnect: no further registration after the refusal after 70.0 s
        drop
        finish
    "
        ),
    );
}

#[test]
fn registrations_that_are_refused_can_be_mended_on_the_spot() {
    check(
        Length::Whole,
        r#"
        0 > connect
        ok handshake: the path `/`
        ok handshake: the host `127.0.0.1:9474`
        ok handshake: no Origin
        ok handshake: no subprotocol
        0.1 > ack 1
        ok response: an ack
        wrong response: an answer before the registration
        send registration_response VALIDATION_ERROR
        0.2 > nonsense
        wrong frame: a frame that is not JSON: expected ident at line 1 column 2
        send registration_response VALIDATION_ERROR
        0.3 > {"type":"registration","payload":{"name":"my notes"}}
        wrong registration: the name `my notes` does not fit (INVALID_NAME)
        send registration_response INVALID_NAME
        0.4 > {"type":"registration","payload":{"name":"notes"}}
        wrong registration: the description is missing (INVALID_DESCRIPTION)
        send registration_response INVALID_DESCRIPTION
        0.5 > register
        ok registration: the name `notes`
        ok registration: a description of 3 words
        ok registration: registered after 0.5 s
        send registration_response
        send message 1 2026-01-02T03:04:05.500Z
        0.6 > register
        wrong registration: a second registration on one connection (ALREADY_REGISTERED)
        send registration_response ALREADY_REGISTERED
        0.7 > {"type":"message","payload":{}}
        wrong frame: `type` `message`, which only the hub sends
        send error VALIDATION_ERROR
    "#,
    );
}

#[test]
fn a_client_that_leaves_after_its_registration_was_refused() {
    check(
        Length::Whole,
        r#"
        0 > connect
        ok handshake: the path `/`
        ok handshake: the host `127.0.0.1:9474`
        ok handshake: no Origin
        ok handshake: no subprotocol
        0.1 > {"type":"registration","payload":null}
        wrong registration: the payload of the registration is null instead of an object (VALIDATION_ERROR)
        send registration_response VALIDATION_ERROR
        0.2 > close 4000
        wrong scenario: the connection ended with code 4000 after the registration was refused
        finish
    "#,
    );
}

#[test]
fn a_client_that_does_not_register() {
    check(
        Length::Whole,
        "
        10 > connect
        ok handshake: the path `/`
        ok handshake: the host `127.0.0.1:9474`
        ok handshake: no Origin
        ok handshake: no subprotocol
        14.9 > time
        15 > time
        warn registration: not registered after 5.0 s
        40 > time
        wrong registration: no registration within 30 s; the hub drops such connections
        drop
        finish
    ",
    );
}

#[test]
fn messages_without_an_answer() {
    check(
        Length::Whole,
        &format!(
            "{BEGIN}
        30.0 > time
        30.1 > time
        wrong response: no answer to message 1 within 30 s
        send message 2 2026-01-02T03:04:35.100Z
        send message 3 2026-01-02T03:04:35.100Z
        31 > ack 1
        ok response: an ack
        warn response: a late answer to message 1, which another app has by now
        32 > notification 2
        ok response: a notification: `Saved.`
        50.1 > ack 3
        ok response: an ack
        warn response: message 3 answered after 20.0 s
        60.1 > time
        warn response: message 2 got a notification and no ack; the hub takes it as accepted
        send message 1 2026-01-02T03:05:05.100Z
        90.1 > time
        wrong response: no answer to message 1 within 30 s
        send hub_check_unknown NONE
        send message 4 2026-01-02T03:05:35.100Z
        91 > reject 4
        warn response: a reject without a reason
        ok response: message 4 answered after 0.9 s
        ok frame: an unknown frame and unknown fields did no harm
        ping
        92 > pong other
        101 > time
        wrong heartbeat: no pong within 10 s
        close
    "
        ),
    );
}

#[test]
fn answers_too_many() {
    check(Length::Whole, &format!("{BEGIN}
        0.2 > ack 1
        ok response: an ack
        ok response: message 1 answered after 0.1 s
        send message 2 2026-01-02T03:04:05.200Z
        send message 3 2026-01-02T03:04:05.200Z
        0.3 > ack 1
        ok response: an ack
        warn response: a further ack of message 1
        0.4 > reject 1
        warn response: a reject without a reason
        warn response: a reject of message 1, which was answered before
        0.5 > ack 4
        ok response: an ack
        wrong response: an answer to `msg-00000000-0000-0000-0000-000000000004`, which was never sent
        0.6 > another
        warn handshake: a second connection while the first is open
        0.7 > garbled
        wrong frame: message too long
        0.8 > gone
        wrong scenario: the client ended the connection without a close frame while waiting for the answers to messages 2 and 3
        finish
    "));
}

#[test]
fn nobody_comes() {
    check(
        Length::Whole,
        "
        1 > stranger
        wrong handshake: a connection that is no WebSocket: no upgrade
        299 > time
        300 > time
        wrong scenario: the time is up while waiting for a client
        drop
        finish
    ",
    );
}

#[test]
fn a_flood_is_stopped() {
    let mut judge = judge(Length::Whole);
    judge.handle_event(Duration::ZERO, read("connect"));
    let finished = (0..2000).position(|_| judge.handle_event(Duration::ZERO, read("x")).contains(&HubAction::Finish));
    assert_eq!(finished, Some(super::MAX_FINDINGS - 4 - 1));
    assert_eq!(judge.handle_event(Duration::ZERO, read("x")), []);
}

#[test]
fn the_judge_wakes_up_in_time() {
    let mut judge = judge(Length::Whole);
    let seconds = Duration::from_secs;
    assert_eq!(judge.deadline(), seconds(300));
    judge.handle_event(seconds(1), read("connect"));
    assert_eq!(judge.deadline(), seconds(6));
    judge.handle_event(seconds(2), read("register"));
    assert_eq!(judge.deadline(), seconds(32));
    judge.handle_event(seconds(290), read("ack 1"));
    assert_eq!(judge.deadline(), seconds(300));
}
