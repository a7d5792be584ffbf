use super::*;

fn from(account: Option<&str>, peer: Option<&str>) -> (String, Option<String>) {
    let text = |text: Option<&str>| text.map(str::to_owned);
    let message = ChannelMessage { account: text(account), peer: text(peer), ..ChannelMessage::default() };
    let ConversationOrigin { channel, account, peer, guild, team } = origin("tg", &message);
    assert_eq!((channel.as_str(), guild, team), ("tg", None, None));
    (account, peer)
}

#[test]
fn facts_belong_to_the_account_or_else_to_the_conversation() {
    let peer = Some("room".to_owned());
    assert_eq!(from(Some("ann"), Some("room")), ("ann".to_owned(), peer.clone()));
    assert_eq!(from(None, Some("room")), ("room".to_owned(), peer.clone()));
    assert_eq!(from(Some(""), Some("room")), ("room".to_owned(), peer));
    assert_eq!(from(Some("ann"), None), ("ann".to_owned(), None));
    assert_eq!(from(None, Some("")), ("webhook".to_owned(), None));
}

#[test]
fn finished_deliveries_hold_no_message() {
    let channel = ChannelOptions {
        name: "tg".into(),
        plugin: "tg".into(),
        wait: None,
        max_open_deliveries: 1,
        replay_window: std::time::Duration::ZERO,
    };
    let mut delivery = OpenDelivery {
        id: DeliveryId(uuid::Uuid::from_u128(1)),
        channel: Arc::new(channel),
        key: "id:1".into(),
        state: DeliveryState::Answered,
        received_at: Timestamp::UNIX_EPOCH,
        payload: DeliveryPayload {
            message: ChannelMessage { content: "secret".to_owned(), ..ChannelMessage::default() },
            sent_count: 1,
            ..DeliveryPayload::default()
        },
    };
    delivery.finish(DeliveryState::Sent, None);
    let row = delivery.row(Timestamp::UNIX_EPOCH);
    assert_eq!(
        (row.state, String::from_utf8(row.body).unwrap().as_str()),
        (DeliveryState::Sent, r#"{"v1":{"sent":1}}"#)
    );
}
