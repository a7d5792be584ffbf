use uuid::Uuid;

use super::*;
use crate::caller::{GrantSet, Surface};

const STARTER: ConnectionId = ConnectionId(1);
const OTHER: ConnectionId = ConnectionId(2);

fn run() -> RunId {
    RunId(Uuid::from_u128(1))
}

fn caller(principal: Principal, connection: ConnectionId) -> Caller {
    Caller { surface: Surface::Gateway, principal, connection, grants: GrantSet::CLIENT }
}

fn answerer(principal: Principal, started_by: Option<ConnectionId>) -> Answerer {
    Answerer { run: run(), principal, started_by, ancestor_runs: Arc::default() }
}

fn named(principal: &str) -> Principal {
    Principal::from(principal)
}

#[test]
fn the_starting_connection_overseers_and_the_same_key_answer() {
    let nobody = RunAudience::default();
    let operator = Caller { grants: GrantSet::OPERATOR, ..caller(Principal::Operator, OTHER) };
    for owner in ["local", "token", "key:ci", "sign-in:1", "channel:telegram", "app:notes", "program:s", "account"] {
        let input = answerer(named(owner), Some(STARTER));
        assert!(may_answer(&caller(named(owner), STARTER), &input, &nobody), "{owner}: its connection");
        assert!(may_answer(&operator, &input, &nobody), "{owner}: the operator");
        assert!(!may_answer(&caller(named("key:other"), OTHER), &input, &nobody), "{owner}: another key");
        let identifies = matches!(owner, "token" | "key:ci" | "sign-in:1");
        assert_eq!(
            may_answer(&caller(named(owner), OTHER), &input, &nobody),
            identifies,
            "{owner}: another connection"
        );
    }
}

#[test]
fn a_local_user_answers_after_joining_by_the_run_s_id_when_the_starter_is_gone() {
    let audience = RunAudience::default();
    let input = answerer(Principal::Local, Some(STARTER));
    let other = caller(Principal::Local, OTHER);
    let starter = audience.follow(run(), STARTER);
    let following = audience.follow(run(), OTHER);
    assert!(!may_answer(&other, &input, &audience), "it only follows");
    audience.note_joined(run(), OTHER);
    assert!(!may_answer(&other, &input, &audience), "the starting connection is still there");
    drop(starter);
    assert!(may_answer(&other, &input, &audience));
    assert!(!may_answer(&caller(named("someone"), OTHER), &input, &audience), "another account");
    drop(following);
    assert!(!may_answer(&other, &input, &audience), "it does not follow any more");
    // After a restart no connection has started it.
    let restarted = answerer(Principal::Local, None);
    audience.note_joined(run(), OTHER);
    let following = audience.follow(run(), OTHER);
    assert!(may_answer(&other, &restarted, &audience));
    drop(following);
    assert!(audience.runs().is_empty(), "nothing is left of connections that are gone");
}

#[test]
fn workers_and_plugins_never_answer() {
    let audience = RunAudience::default();
    for principal in [named("worker:py-1"), named("plugin:echo")] {
        let input = answerer(principal.clone(), Some(STARTER));
        let own = Caller { grants: GrantSet::OPERATOR, ..caller(principal, STARTER) };
        assert!(!may_answer(&own, &input, &audience), "{own:?}");
    }
}
