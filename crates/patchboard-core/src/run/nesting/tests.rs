use uuid::Uuid;

use super::*;

fn run(number: u128) -> RunId {
    RunId(Uuid::from_u128(number))
}

fn top(max_tokens: Option<u64>) -> Nesting {
    Nesting::top(SessionKey::conversation("default", "web", "alice", "main"), max_tokens)
}

#[test]
fn those_beneath_know_who_waits_and_who_pays() {
    let outer = top(None);
    let inner = outer.beneath(run(1), None).beneath(run(2), None);
    assert_eq!((outer.depth(), inner.depth()), (0, 2));
    assert_eq!(*inner.above, [run(1), run(2)]);
    assert_eq!(inner.charged, outer.charged);
}

#[test]
fn what_is_spent_beneath_is_spent_above() {
    let outer = top(Some(100));
    let inner = outer.beneath(run(1), Some(60));
    let beside = outer.beneath(run(1), None);
    assert_eq!((outer.purse.left(10), inner.purse.left(10), beside.purse.left(10)), (Ok(90), Ok(50), Ok(90)));
    let held = inner.purse.hold(40);
    assert_eq!((outer.purse.left(10), inner.purse.left(10), beside.purse.left(10)), (Ok(50), Ok(10), Ok(50)));
    drop(held);
    inner.purse.spend(30);
    beside.purse.spend(50);
    assert_eq!((outer.purse.left(0), inner.purse.left(0), beside.purse.left(0)), (Ok(20), Ok(20), Ok(20)));
    assert_eq!(inner.purse.left(20), Err(Empty { used: 80, limit: 100 }));
    assert_eq!(inner.purse.left(30), Err(Empty { used: 30, limit: 60 }));
}

#[test]
fn without_limits_nothing_runs_out() {
    let inner = top(None).beneath(run(1), None);
    inner.purse.spend(u64::MAX / 2);
    assert_eq!(inner.purse.left(u64::MAX), Ok(u64::MAX));
}
