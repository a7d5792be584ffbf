use super::*;

fn key(name: &str, secret: u8, source: KeySource) -> KeySpec {
    KeySpec { name: name.into(), hash: KeyHash([secret; 32]), rights: KeyRights::default(), source }
}

fn file(name: &str, secret: u8) -> KeySpec {
    key(name, secret, KeySource::File)
}

fn created(name: &str, secret: u8) -> KeySpec {
    key(name, secret, KeySource::Created(Timestamp::UNIX_EPOCH))
}

fn named(ring: &KeyRing, secret: u8) -> Option<Arc<str>> {
    ring.authenticate(&KeyHash([secret; 32])).map(|key| key.spec.name.clone())
}

#[test]
fn a_key_is_found_by_its_whole_hash() {
    let ring = KeyRing::default();
    assert_eq!(named(&ring, 1), None);
    ring.add(created("a", 1));
    ring.add(created("b", 2));
    assert_eq!((named(&ring, 1), named(&ring, 2), named(&ring, 3)), (Some("a".into()), Some("b".into()), None));
    for index in 0..32 {
        let mut near = [1; 32];
        near[index] = 0;
        assert_eq!(ring.authenticate(&KeyHash(near)), None, "byte {index}");
    }
}

#[test]
fn what_a_new_file_means_for_those_who_are_signed_in() {
    let overseer = KeySpec { rights: KeyRights { oversee: true, ..KeyRights::default() }, ..file("a", 1) };
    let only_runs = KeyRights { surfaces: Some(vec![Surface::Runs]), ..KeyRights::default() };
    let limited = KeyRights {
        agents: Some(vec!["planner".into()]),
        tools: Some(vec![]),
        budget: KeyBudget { daily: Some(1), monthly: None },
        ..KeyRights::default()
    };
    for (new, disconnects, gone) in [
        (vec![file("a", 1)], false, vec![]),
        (vec![KeySpec { rights: limited, ..file("a", 1) }], false, vec![]),
        (vec![file("a", 2)], true, vec![]),
        (vec![overseer], true, vec![]),
        (vec![KeySpec { rights: only_runs, ..file("a", 1) }], true, vec![]),
        (vec![file("b", 1)], true, vec!["a".into()]),
        (vec![], true, vec![Arc::from("a")]),
    ] {
        let ring = KeyRing::default();
        ring.add(created("made", 9));
        ring.replace_file_keys(vec![file("a", 1)]);
        let signed_in = ring.authenticate(&KeyHash([1; 32])).unwrap();
        assert_eq!(ring.replace_file_keys(new.clone()), gone, "{new:?}");
        assert_eq!(signed_in.revoked.is_cancelled(), disconnects, "{new:?}");
        assert_eq!(ring.get("a").map(|key| key.spec.as_ref().clone()), new.into_iter().find(|key| &*key.name == "a"));
        assert_eq!(named(&ring, 9), Some("made".into()), "created keys stay");
    }
}

#[test]
fn names_are_one_space() {
    let ring = KeyRing::default();
    ring.add(created("made", 1));
    ring.replace_file_keys(vec![file("written", 2)]);
    let clash = KeyNameClash { name: "made".into() };
    assert_eq!(ring.check_file_keys(&[file("x", 3), file("made", 4)]), Err(clash));
    assert_eq!(ring.check_file_keys(&[file("written", 4)]), Ok(()));
    for (name, expected) in [
        ("made", "there is a key named `made`: take another name, or revoke it with `patchboard keys revoke`"),
        ("written", "the configuration has a key named `written`: take another name"),
    ] {
        let refused = ring.check_name(name).unwrap_err();
        assert_eq!((refused.kind, &*refused.message), (ErrorKind::Conflict, expected));
    }
    for number in 2..MAX_KEYS {
        ring.check_name("free").unwrap();
        ring.add(created(&format!("key-{number}"), 0));
    }
    assert_eq!(ring.check_name("free").unwrap_err().kind, ErrorKind::Exhausted);
}

#[test]
fn names_and_rights_are_bounded() {
    let rights = |change: fn(&mut KeyRights)| {
        let mut key = created("ci", 1);
        change(&mut key.rights);
        key
    };
    for (key, is_refused) in [
        (created("ci", 1), false),
        (created("CI_2-b", 1), false),
        (created(&"a".repeat(64), 1), false),
        (created(&"a".repeat(65), 1), true),
        (created("", 1), true),
        (created("-ci", 1), true),
        (created("a b", 1), true),
        (created("ü", 1), true),
        (rights(|rights| rights.surfaces = Some(KEY_SURFACES.to_vec())), false),
        (rights(|rights| rights.surfaces = Some(vec![Surface::Cli])), true),
        (rights(|rights| rights.agents = Some(vec!["a".into(); MAX_ENTRIES])), false),
        (rights(|rights| rights.agents = Some(vec!["a".into(); MAX_ENTRIES + 1])), true),
        (rights(|rights| rights.agents = Some(vec!["".into()])), true),
        (rights(|rights| rights.tools = Some(vec![Glob::new("x".repeat(MAX_ENTRY_BYTES + 1))])), true),
    ] {
        assert_eq!(key.problem().is_some(), is_refused, "{key:?}");
    }
}
