use super::*;

fn keys(seconds: i64, window: u64) -> DeliveryKeys {
    let now = Timestamp::from_second(seconds).unwrap();
    DeliveryKeys::of_content("d1", Duration::from_secs(window), now, DeliveryId(uuid::Uuid::from_u128(7)))
}

#[test]
fn an_id_is_a_key_for_ever() {
    let own: Arc<str> = "id:42".into();
    assert_eq!(
        DeliveryKeys::of_message("42"),
        DeliveryKeys { shared: own.clone(), own, earlier: None, not_before: None }
    );
}

#[test]
fn content_is_a_key_for_a_while() {
    let expected = DeliveryKeys {
        shared: "body:d1".into(),
        own: "body:d1:3".into(),
        earlier: Some("body:d1:2".into()),
        not_before: Some(Timestamp::from_second(650).unwrap()),
    };
    assert_eq!(keys(950, 300), expected);
    assert_eq!(keys(899, 300).own, keys(600, 300).own, "one slot");
    assert_eq!(keys(900, 300).earlier.unwrap(), keys(899, 300).own, "the slot before is looked at too");
    assert_ne!(keys(1200, 300).own, keys(899, 300).own, "later the key is free again");
}

#[test]
fn without_a_window_every_delivery_is_another_one() {
    let own: Arc<str> = format!("body:d1:{}", uuid::Uuid::from_u128(7)).into();
    assert_eq!(keys(950, 0), DeliveryKeys { shared: "body:d1".into(), own, earlier: None, not_before: None });
}

#[test]
fn the_shared_part_of_a_key_can_be_read_from_it() {
    for keys in [
        keys(950, 300),
        keys(950, 0),
        DeliveryKeys::of_message("42"),
        DeliveryKeys::of_message("a:b"),
        DeliveryKeys::of_message("body:1"),
    ] {
        assert_eq!(shared_part(&keys.own), &*keys.shared);
    }
}
