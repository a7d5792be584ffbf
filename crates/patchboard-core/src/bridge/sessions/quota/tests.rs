use super::*;

fn opener(principal: &str, connection: u64) -> SessionOpener {
    SessionOpener {
        principal: principal.into(),
        connection: ConnectionId(connection),
        is_operator: principal == "operator",
    }
}

/// Opens sessions until one is refused.
fn fill(shares: &mut SessionQuota, opener: &SessionOpener, max: usize) -> usize {
    let mut opened = 0;
    while opened < 2 * max && shares.check(opener, max).is_ok() {
        shares.add(opener);
        opened += 1;
    }
    opened
}

#[test]
fn one_connection_and_one_principal_leave_room_for_others() {
    let mut shares = SessionQuota::default();
    assert_eq!(fill(&mut shares, &opener("local", 1), 100), 75);
    assert_eq!(fill(&mut shares, &opener("local", 2), 100), 15);
    assert_eq!(fill(&mut shares, &opener("local", 3), 100), 0);
    assert!(shares.check(&opener("token", 4), 100).is_ok());
    assert!(shares.check(&opener("operator", 1), 100).is_ok());
    shares.release(&opener("local", 1));
    assert_eq!(fill(&mut shares, &opener("local", 3), 100), 1);
}

#[test]
fn a_small_table_reserves_nothing_for_others() {
    for max in 1..4 {
        assert_eq!(fill(&mut SessionQuota::default(), &opener("local", 1), max), max);
    }
}

#[test]
fn closed_sessions_are_not_counted() {
    let mut shares = SessionQuota::default();
    let opener = opener("local", 1);
    fill(&mut shares, &opener, 10);
    for _ in 0..8 {
        shares.release(&opener);
    }
    assert!(shares.connections.is_empty() && shares.principals.is_empty());
}
