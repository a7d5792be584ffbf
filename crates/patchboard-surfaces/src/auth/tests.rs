use super::*;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn gate() -> AuthGate {
    AuthGate::new("gateway", Some("right-token".into()), Some("operator-token".into()))
}

fn client() -> Identity {
    Identity { principal: "token".into(), grants: Grants::CLIENT }
}

#[test]
fn tokens_are_compared_whole() {
    for (token, accepted) in
        [("right-token", true), ("right-toke", false), ("right-token ", false), ("", false), ("wrong-token", false)]
    {
        let verdict = gate().check(HERE, token, Duration::ZERO);
        assert_eq!(verdict == Verdict::Accepted(client()), accepted, "{token}");
    }
    let operator = Identity { principal: "operator".into(), grants: Grants::OPERATOR };
    assert_eq!(gate().check(HERE, "operator-token", Duration::ZERO), Verdict::Accepted(operator));
}

#[test]
fn without_a_token_there_is_a_local_user_who_cannot_operate() {
    let gate = AuthGate::new("gateway", None, Some("operator-token".into()));
    assert_eq!(gate.anonymous(), Some(Identity { principal: "local".into(), grants: Grants::CLIENT }));
    assert_eq!(gate.check(HERE, "", Duration::ZERO), Verdict::Refused, "an empty token is not no token");
}

#[test]
fn guessing_gets_slow_and_the_right_token_still_works_from_loopback() {
    let gate = gate();
    for _ in 0..10 {
        assert_eq!(gate.check(HERE, "guess", Duration::ZERO), Verdict::Refused);
    }
    assert_eq!(gate.check(HERE, "guess", Duration::ZERO), Verdict::Held(None));
    assert_eq!(gate.check(HERE, "right-token", Duration::ZERO), Verdict::Held(Some(client())));
    assert_eq!(gate.check(HERE, "right-token", Duration::from_secs(30)), Verdict::Accepted(client()));
}

#[test]
fn elsewhere_too_many_guesses_refuse_everything_from_that_address_in_either_spelling() {
    let gate = gate();
    let mapped: IpAddr = "::ffff:203.0.113.9".parse().unwrap();
    for _ in 0..11 {
        gate.check(mapped, "guess", Duration::ZERO);
    }
    let plain: IpAddr = "203.0.113.9".parse().unwrap();
    assert_eq!(gate.check(plain, "right-token", Duration::ZERO), Verdict::Held(None));
    let other: IpAddr = "203.0.113.10".parse().unwrap();
    assert_eq!(gate.check(other, "right-token", Duration::ZERO), Verdict::Accepted(client()));
}

#[test]
fn many_addresses_share_a_global_budget_and_memory_stays_bounded() {
    let gate = gate();
    for index in 0..10_000u32 {
        gate.check(IpAddr::V4(index.into()), "guess", Duration::ZERO);
    }
    assert!(gate.wrong.lock().unwrap().by_address.len() <= MAX_ADDRESSES);
    let fresh: IpAddr = "198.51.100.1".parse().unwrap();
    assert_eq!(gate.check(fresh, "guess", Duration::ZERO), Verdict::Held(None));
}
