//! Sessions with their history: listed by last use, hidden or deleted on request.

use std::sync::Arc;

use patchboard_core::id::{Seq, SessionKey};
use patchboard_core::model::TokenCount;
use patchboard_core::store::{
    AuditRow, BudgetScope, RunRow, SessionFilter, SessionRow, Store, StoreWrite, TurnQuery, TurnRow, UsageGrouping,
    UsageQuery,
};

use super::fixtures::{
    all_pages, at, close_run, commit, event, expect_ok, model_call, run, run_id, session, settlement, text, title,
    topic, turn,
};

pub async fn sessions_are_listed(store: Arc<dyn Store>) {
    let keys = [
        SessionKey::conversation("main", "web", "alice", "1"),
        SessionKey::conversation("main", "web", "bob", "1"),
        SessionKey::conversation("main", "chat:x", "alice", "100%"),
        SessionKey::conversation("main", "web", "alice", "2"),
    ];
    for (index, key) in keys.iter().enumerate() {
        commit(&*store, vec![StoreWrite::OpenRun(run(index as u64 + 1, key))]).await;
    }
    // Using a session again moves it to the front and keeps `created_at`.
    commit(&*store, vec![StoreWrite::OpenRun(run(9, &keys[0]))]).await;

    let list = async |channel: Option<&str>, account: Option<&str>| {
        let (channel, account) = (channel.map(str::to_owned), account.map(str::to_owned));
        let filter = SessionFilter { channel, account, ..SessionFilter::default() };
        let whole = expect_ok(store.sessions(filter.clone(), 100, None).await);
        assert_eq!(whole.next, None);
        let paged = all_pages(async |cursor| store.sessions(filter.clone(), 1, cursor).await, async || {}).await;
        assert_eq!(paged.concat(), whole.items, "pages are the list");
        whole.items.into_iter().map(|session| session.key).collect::<Vec<_>>()
    };
    let expect = |indexes: &[usize]| indexes.iter().map(|&index| keys[index].clone()).collect::<Vec<_>>();
    assert_eq!(list(None, None).await, expect(&[0, 3, 2, 1]));
    assert_eq!(list(Some("web"), None).await, expect(&[0, 3, 1]));
    assert_eq!(list(None, Some("alice")).await, expect(&[0, 3, 2]));
    assert_eq!(list(Some("web"), Some("alice")).await, expect(&[0, 3]));
    assert_eq!(list(Some("web"), Some("carol")).await, []);
    for (excluded_channels, count) in [(&[][..], 4), (&["web"], 1), (&["chat:x", "none"], 3), (&["web", "chat:x"], 0)] {
        assert_eq!(expect_ok(store.count_sessions(excluded_channels).await), count, "{excluded_channels:?}");
    }
    let expected = SessionRow {
        key: keys[0].clone(),
        owner: owner(),
        created_at: at(1),
        used_at: at(9),
        turns: 0,
        title: title(),
        is_hidden: false,
    };
    assert_eq!(expect_ok(store.session(&keys[0]).await), Some(expected));
    assert_eq!(expect_ok(store.session(&session("unknown")).await), None);

    // Sessions that are added or used during paging neither repeat nor displace others.
    let mut next = 10;
    let pages = all_pages(
        async |cursor| store.sessions(SessionFilter::default(), 2, cursor).await,
        async || {
            next += 1;
            let used = [run(next, &session(&format!("new {next}"))), run(next + 100, &keys[3])];
            commit(&*store, used.into_iter().map(StoreWrite::OpenRun).collect()).await;
        },
    );
    let listed: Vec<_> = pages.await.concat().into_iter().map(|session| session.key).collect();
    assert_eq!(listed, expect(&[0, 3, 2, 1]));
}

pub async fn turns_are_paged(store: Arc<dyn Store>) {
    let (talk, other) = (session("talk"), session("other"));
    let row = |number: u64, position: u64| {
        let turn = turn(number, &talk);
        TurnRow { number: position, run: turn.run, at: turn.at, messages: turn.messages }
    };
    commit(&*store, vec![StoreWrite::OpenRun(run(1, &talk)), StoreWrite::OpenRun(run(50, &other))]).await;
    for number in 1..=5 {
        commit(&*store, vec![StoreWrite::AddTurn(turn(number, &talk)), StoreWrite::AddTurn(turn(number + 50, &other))])
            .await;
    }
    let query = |limit, before| TurnQuery { session: talk.clone(), limit, before };
    let newest = expect_ok(store.turns(query(2, None)).await);
    let numbers: Vec<_> = newest.items.iter().map(|turn| turn.number).collect();
    assert!(numbers.is_sorted() && numbers.len() == 2, "oldest first: {numbers:?}");
    assert_eq!(newest.items, [row(4, numbers[0]), row(5, numbers[1])], "the newest two");
    let mut next = 5;
    let pages = all_pages(
        async |cursor| store.turns(query(2, cursor)).await,
        async || {
            next += 1;
            commit(&*store, vec![StoreWrite::AddTurn(turn(next, &talk))]).await;
        },
    );
    let runs: Vec<Vec<_>> =
        pages.await.into_iter().map(|page| page.into_iter().map(|turn| turn.run).collect()).collect();
    assert_eq!(runs, [vec![run_id(4), run_id(5)], vec![run_id(2), run_id(3)], vec![run_id(1)]]);
    let nobody = TurnQuery { session: session("nobody"), limit: 5, before: None };
    assert_eq!(expect_ok(store.turns(nobody).await).items, []);
}

pub async fn cleared_sessions_hide(store: Arc<dyn Store>) {
    let key = session("clear");
    let clear = || StoreWrite::ClearSession { session: key.clone(), at: at(50), purge: false };
    commit(&*store, vec![clear()]).await;
    assert_eq!(expect_ok(store.session(&key).await), None, "clearing what is not there does not create it");
    for number in 1..=3 {
        commit(&*store, vec![StoreWrite::OpenRun(run(number, &key)), StoreWrite::AddTurn(turn(number, &key))]).await;
    }
    commit(&*store, vec![clear()]).await;
    assert_eq!(expect_ok(store.count_sessions(&[]).await), 0);
    assert_eq!(expect_ok(store.sessions(SessionFilter::default(), 10, None).await).items, []);
    assert_eq!(visible_runs(&*store, &key).await, []);
    assert_eq!(expect_ok(store.session(&key).await).map(|session| session.turns), Some(0));
    assert!(expect_ok(store.run(run_id(1)).await).is_some(), "a marker deletes nothing");

    commit(&*store, vec![StoreWrite::OpenRun(run(4, &key)), StoreWrite::AddTurn(turn(4, &key))]).await;
    let back = SessionRow {
        key: key.clone(),
        owner: owner(),
        created_at: at(1),
        used_at: at(4),
        turns: 1,
        title: title(),
        is_hidden: false,
    };
    assert_eq!(
        expect_ok(store.sessions(SessionFilter::default(), 10, None).await).items,
        [back],
        "used again, counts again"
    );
    assert_eq!(expect_ok(store.count_sessions(&[]).await), 1);
    assert_eq!(visible_runs(&*store, &key).await, [run_id(4)]);

    // Cleared between a run's start and its turn.
    commit(&*store, vec![StoreWrite::OpenRun(run(5, &key))]).await;
    commit(&*store, vec![clear()]).await;
    commit(&*store, vec![StoreWrite::AddTurn(turn(5, &key))]).await;
    assert_eq!(visible_runs(&*store, &key).await, [run_id(5)]);
    assert_eq!(expect_ok(store.count_sessions(&[]).await), 1, "what has a visible turn is listed");
}

pub async fn purged_sessions_are_gone(store: Arc<dyn Store>) {
    let (key, neighbour) = (session("purge"), session("neighbour"));
    let purge = || StoreWrite::ClearSession { session: key.clone(), at: at(50), purge: true };
    let scope = BudgetScope::Session(key.clone());
    let event_write = |number| StoreWrite::Event(event(number, 1, text(&["secret"])));
    commit(
        &*store,
        vec![StoreWrite::OpenRun(run(1, &key)), event_write(1), StoreWrite::AddTurn(turn(1, &key)), close_run(1, 2)],
    )
    .await;
    commit(
        &*store,
        vec![StoreWrite::OpenRun(run(2, &neighbour)), event_write(2), StoreWrite::AddTurn(turn(2, &neighbour))],
    )
    .await;
    let call = model_call(3, 1, &key);
    commit(&*store, vec![StoreWrite::OpenRun(run(3, &key)), event_write(3), StoreWrite::OpenModelCall(call.clone())])
        .await;
    let audit = AuditRow {
        at: at(50),
        principal: "token:main".into(),
        surface: "gateway".into(),
        action: "session.clear".into(),
        subject: key.as_str().into(),
        run: None,
        detail: "purged".into(),
    };
    commit(&*store, vec![purge(), StoreWrite::Audit(audit.clone())]).await;

    assert_eq!(expect_ok(store.session(&key).await), None);
    assert_eq!(visible_runs(&*store, &key).await, []);
    assert_eq!(expect_ok(store.run(run_id(1)).await), None);
    assert_eq!(expect_ok(store.events(&topic(1), Seq::FIRST, 10).await), []);

    // A new run may start before the old one has ended; the old one can still be settled and is then deleted.
    commit(&*store, vec![StoreWrite::OpenRun(run(4, &key))]).await;
    let tokens = TokenCount { input: 5, output: 6 };
    let end = vec![
        StoreWrite::Event(event(3, 2, text(&["more of the secret"]))),
        StoreWrite::SettleModelCall(settlement(&call, tokens, vec![scope.clone()])),
        StoreWrite::AddTurn(turn(3, &key)),
        close_run(3, 60),
        StoreWrite::Event(event(3, 3, text(&["the end"]))),
    ];
    commit(&*store, end).await;
    assert_eq!(expect_ok(store.run(run_id(3)).await), None);
    assert_eq!(expect_ok(store.events(&topic(3), Seq::FIRST, 10).await), []);
    assert_eq!(visible_runs(&*store, &key).await, [], "its turn went with it");
    assert_eq!(expect_ok(store.tokens_spent(vec![scope]).await), [11], "what it cost is counted");
    assert_eq!(expect_ok(store.unfinished_runs().await).len(), 2);

    assert_eq!(visible_runs(&*store, &neighbour).await, [run_id(2)]);
    assert_eq!(expect_ok(store.last_seq(&topic(2)).await), Seq(1));
    assert_eq!(expect_ok(store.audit(10, None).await).items, [audit], "the audit trail keeps everything");
    commit(
        &*store,
        vec![StoreWrite::OpenRun(RunRow { started_at: at(70), ..run(5, &key) }), StoreWrite::AddTurn(turn(5, &key))],
    )
    .await;
    let reborn = SessionRow {
        key: key.clone(),
        owner: owner(),
        created_at: at(4),
        used_at: at(70),
        turns: 1,
        title: title(),
        is_hidden: false,
    };
    assert_eq!(expect_ok(store.session(&key).await), Some(reborn));
}

pub async fn sessions_belong_to_their_creator(store: Arc<dyn Store>) {
    let (hers, his, unknown) = (session("hers"), session("his"), session("unknown"));
    let of = |number, key: &SessionKey, principal: &str| {
        StoreWrite::OpenRun(RunRow { principal: principal.into(), ..run(number, key) })
    };
    commit(&*store, vec![of(1, &hers, "alice"), of(2, &his, "bob"), of(3, &hers, "bob")]).await;
    // A turn of an unknown run creates a session without an owner.
    commit(&*store, vec![StoreWrite::AddTurn(turn(50, &unknown))]).await;
    let owner = async |key: &SessionKey| expect_ok(store.session(key).await).and_then(|session| session.owner);
    assert_eq!(owner(&hers).await.as_deref(), Some("alice"), "whoever uses it later does not take it over");
    assert_eq!(owner(&his).await.as_deref(), Some("bob"));
    assert_eq!(owner(&unknown).await, None);
    let list = async |owners: &[&str]| {
        let owners = owners.iter().map(|owner| Arc::from(*owner)).collect();
        let filter = SessionFilter { owners: Some(owners), ..SessionFilter::default() };
        let pages = all_pages(async |cursor| store.sessions(filter.clone(), 1, cursor).await, async || {}).await;
        pages.concat().into_iter().map(|session| session.key).collect::<Vec<_>>()
    };
    assert_eq!(list(&["alice"]).await, std::slice::from_ref(&hers));
    assert_eq!(list(&["bob", "carol"]).await, std::slice::from_ref(&his));
    assert_eq!(list(&["alice", "bob"]).await, [hers.clone(), his.clone()]);
    assert_eq!(list(&["carol"]).await, []);
    assert_eq!(list(&[]).await, []);
    // The usage of sessions is filtered by the same owners.
    for (number, key) in [(1, &hers), (2, &his)] {
        let call = model_call(number, 1, key);
        let tokens = TokenCount { input: 5, output: 6 };
        let settled = settlement(&call, tokens, Vec::new());
        commit(&*store, vec![StoreWrite::OpenModelCall(call), StoreWrite::SettleModelCall(settled)]).await;
    }
    let used = async |owners: Option<Vec<Arc<str>>>| {
        let query = UsageQuery {
            since: None,
            group_by: UsageGrouping::Session,
            then_by: None,
            owners,
            limit: 10,
            cursor: None,
        };
        let mut keys: Vec<_> = expect_ok(store.usage(query).await).items.into_iter().map(|group| group.key).collect();
        keys.sort_unstable();
        keys
    };
    assert_eq!(used(Some(vec!["alice".into()])).await, [hers.as_str()]);
    assert_eq!(used(Some(vec!["bob".into()])).await, [his.as_str()]);
    assert_eq!(used(None).await.len(), 2);
    // Clearing keeps the owner; after a purge the session is new.
    let clear = |purge| StoreWrite::ClearSession { session: hers.clone(), at: at(60), purge };
    commit(&*store, vec![clear(false), of(4, &hers, "bob")]).await;
    assert_eq!(owner(&hers).await.as_deref(), Some("alice"));
    commit(&*store, vec![clear(true)]).await;
    commit(&*store, vec![of(5, &hers, "bob")]).await;
    assert_eq!(owner(&hers).await.as_deref(), Some("bob"));
}

/// The principal of sample runs.
fn owner() -> Option<Arc<str>> {
    Some(run(1, &session("any")).principal)
}

async fn visible_runs(store: &dyn Store, key: &SessionKey) -> Vec<patchboard_core::id::RunId> {
    let query = TurnQuery { session: key.clone(), limit: 100, before: None };
    expect_ok(store.turns(query).await).items.into_iter().map(|turn| turn.run).collect()
}
