use uuid::Uuid;

use super::*;

fn run(number: u128) -> RunId {
    RunId(Uuid::from_u128(number))
}

fn top(max_tokens: Option<u64>) -> CallChain {
    CallChain::root(
        SessionKey::conversation("default", "web", "alice", "main"),
        &Principal::Key("ci".into()),
        max_tokens,
    )
}

#[test]
fn nested_runs_know_their_ancestors_and_the_charged_session() {
    let outer = top(None);
    let inner = outer.child(run(1), None, None).child(run(2), None, None);
    assert_eq!((outer.depth(), inner.depth()), (0, 2));
    assert_eq!(*inner.ancestors, [run(1), run(2)]);
    assert_eq!(inner.root_session, outer.root_session);
}

#[test]
fn nested_runs_spend_the_budgets_of_their_ancestors() {
    let outer = top(Some(100));
    let inner = outer.child(run(1), Some(60), None);
    let beside = outer.child(run(1), None, None);
    assert_eq!(
        (outer.token_budget.remaining(10), inner.token_budget.remaining(10), beside.token_budget.remaining(10)),
        (Ok(90), Ok(50), Ok(90))
    );
    let token_hold = inner.token_budget.hold(40);
    assert_eq!(
        (outer.token_budget.remaining(10), inner.token_budget.remaining(10), beside.token_budget.remaining(10)),
        (Ok(50), Ok(10), Ok(50))
    );
    drop(token_hold);
    inner.token_budget.spend(30);
    beside.token_budget.spend(50);
    assert_eq!(
        (outer.token_budget.remaining(0), inner.token_budget.remaining(0), beside.token_budget.remaining(0)),
        (Ok(20), Ok(20), Ok(20))
    );
    assert_eq!(inner.token_budget.remaining(20), Err(BudgetExhausted { used: 80, limit: 100 }));
    assert_eq!(inner.token_budget.remaining(30), Err(BudgetExhausted { used: 30, limit: 60 }));
}

#[test]
fn without_limits_nothing_runs_out() {
    let inner = top(None).child(run(1), None, None);
    inner.token_budget.spend(u64::MAX / 2);
    assert_eq!(inner.token_budget.remaining(u64::MAX), Ok(u64::MAX));
}
