use std::time::Duration;

use super::*;
use crate::webhook;

const OPEN: &str = include_str!("../fixtures/v1.deliveries.jsonl");

fn request(body: Option<&[u8]>, timeout: Option<Duration>) -> ChannelRequest {
    ChannelRequest {
        method: "POST".to_owned(),
        url: "https://api.example/bot{{secret:token}}/send".to_owned(),
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: body.map(<[u8]>::to_vec),
        timeout,
    }
}

/// In the order of the fixture file.
fn every_letter() -> Vec<webhook::DeliveryPayload> {
    let text = |text: &str| Some(text.to_owned());
    let message = ChannelMessage {
        id: None,
        account: text("7"),
        peer: text("-100"),
        guild: text("g"),
        team: text("t"),
        content: "hé\n".to_owned(),
        context: "{\"chat\":-100}".to_owned(),
    };
    let bare = ChannelMessage { content: "hi".to_owned(), ..ChannelMessage::default() };
    vec![
        webhook::DeliveryPayload { message: message.clone(), ..webhook::DeliveryPayload::default() },
        webhook::DeliveryPayload {
            message: bare,
            earlier_runs: 1,
            interrupted_runs: 1,
            ..webhook::DeliveryPayload::default()
        },
        webhook::DeliveryPayload {
            message,
            requests: vec![
                request(Some(b"{\"text\":\"ok\"}"), None),
                request(Some(&[0, 255]), Some(Duration::from_millis(1500))),
                ChannelRequest { headers: Vec::new(), ..request(None, None) },
            ],
            sent_count: 1,
            ..webhook::DeliveryPayload::default()
        },
        webhook::DeliveryPayload { sent_count: 3, ..webhook::DeliveryPayload::default() },
        webhook::DeliveryPayload {
            problem: text("api.example: answered 400"),
            is_failure_reported: true,
            ..webhook::DeliveryPayload::default()
        },
    ]
}

#[test]
fn version_1_payloads_stay_readable_and_are_written_as_they_always_were() {
    let written: Vec<_> =
        every_letter().iter().map(|payload| String::from_utf8(encode_delivery_payload(payload)).unwrap()).collect();
    assert_eq!(OPEN.lines().collect::<Vec<_>>(), written);
    let read: Vec<_> = OPEN.lines().map(|line| decode_delivery_payload(line.as_bytes()).unwrap()).collect();
    assert_eq!(read, every_letter());
}

#[test]
fn malformed_payloads_are_refused() {
    for bad in ["", "{}", "{\"v2\":{}}", "{\"v1\":7}", "{\"v1\":{\"sent\":-1}}"] {
        assert!(decode_delivery_payload(bad.as_bytes()).is_err(), "{bad}");
    }
}
