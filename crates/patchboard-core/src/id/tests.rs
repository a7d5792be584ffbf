use proptest::prelude::*;

use super::*;

#[test]
fn a_colon_in_a_part_cannot_collide_with_another_session() {
    let left = SessionKey::conversation("default", "web", "a:b", "main");
    let right = SessionKey::conversation("default", "web:a", "b", "main");
    assert_ne!(left, right);
    assert_eq!(left.as_str(), "default:web:a%3Ab:main");
}

#[test]
fn keys_written_by_clients_are_checked() {
    assert!(SessionKey::parse("default:web:alice:main").is_some());
    assert!(SessionKey::parse("bridge:session-1").is_some());
    for bad in ["", "nocolon", "a:%zz:b:c", "a:b%2:c:d", "a:%"] {
        assert_eq!(SessionKey::parse(bad), None, "{bad}");
    }
    assert_eq!(SessionKey::parse(&format!("a:{}", "x".repeat(SessionKey::MAX_BYTES))), None);
}

proptest! {
    #[test]
    fn parts_survive_the_key(agent in ".{0,12}", channel in ".{0,12}", account in ".{0,12}", peer in ".{0,12}") {
        let key = SessionKey::conversation(&agent, &channel, &account, &peer);
        prop_assert_eq!(key.conversation_parts(), Some(ConversationParts { agent, channel, account, peer }));
        prop_assert_eq!(SessionKey::parse(key.as_str()), Some(key));
    }
}

#[test]
fn an_owner_is_read_back() {
    for (channel, account) in [("web", "alice"), ("a:b%", "%:c"), ("", "")] {
        let owner = MemoryOwner::account(channel, account);
        assert_eq!(owner.parts(), Some((channel.to_owned(), account.to_owned())));
    }
}

#[test]
fn control_characters_do_not_get_into_keys() {
    let key = SessionKey::conversation("default", "hook", "eve\n2026 ERROR \u{1b}[31m\u{85}", "main");
    assert_eq!(key.as_str(), "default:hook:eve%0A2026 ERROR %1B[31m%85:main");
    let parts = key.conversation_parts().expect("its parts");
    assert_eq!(parts.account, "eve\n2026 ERROR \u{1b}[31m\u{85}");
    for foreign in ["a:b:%41:d", "a:b:%0a:d", "a:b:%+1:d", "a:b:%:d"] {
        assert!(SessionKey::parse(foreign).is_none_or(|key| key.conversation_parts().is_none()), "{foreign}");
    }
}
