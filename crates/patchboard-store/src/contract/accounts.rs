//! Accounts: lists, exports, and what is left after one was forgotten.

use std::sync::Arc;

use patchboard_core::event::Topic;
use patchboard_core::id::{MemoryOwner, Seq, SessionKey};
use patchboard_core::model::TokenCount;
use patchboard_core::store::{
    AccountContents, AuditRow, AuditSubject, BudgetScope, DeliveryRow, EraseExtent, FORGOTTEN, FactListQuery,
    FactQuery, FactRecord, KvNamespace, NewFact, Store, StoreWrite, Superseded, UsageGrouping, UsageQuery,
};
use patchboard_core::webhook::{DeliveryId, DeliveryState};
use uuid::Uuid;

use super::fixtures::{
    all_pages, at, close_run, commit, event, expect_ok, fact, model_call, owner, run, run_id, session, settlement,
    text, topic, turn,
};

/// A finished run with its turn, cost, audit row and value, in a session.
async fn converse(store: &dyn Store, number: u64, session: &SessionKey) {
    let call = model_call(number, 1, session);
    let tokens = TokenCount { input: 10, output: 5 };
    let audit = AuditRow {
        at: at(3),
        principal: "token:main".into(),
        surface: "gateway".into(),
        action: "session.clear".into(),
        subject: AuditSubject::Session(session.clone()),
        run: Some(run_id(number)),
        detail: Arc::from(""),
    };
    let namespace = KvNamespace::Session(session.clone());
    let writes = vec![
        StoreWrite::OpenRun(run(number, session)),
        StoreWrite::OpenModelCall(call.clone()),
        StoreWrite::Event(event(number, 1, text(&["sunny"]))),
        StoreWrite::SettleModelCall(settlement(&call, tokens, vec![BudgetScope::Session(session.clone())])),
        StoreWrite::AddTurn(turn(number, session)),
        StoreWrite::put(namespace, "todos".into(), Some(b"water the plants".to_vec()), at(3)),
        StoreWrite::Audit(audit),
        close_run(number, 5),
    ];
    commit(store, writes).await;
}

async fn learn(store: &dyn Store, facts: Vec<NewFact>) {
    commit(store, facts.into_iter().map(StoreWrite::LearnFact).collect()).await;
}

fn of_account(account: &str, peer: &str) -> SessionKey {
    SessionKey::conversation("main", "web", account, peer)
}

async fn contents(store: &dyn Store, account: &MemoryOwner) -> AccountContents {
    // How names are stored is the store's business.
    AccountContents { names: 0, ..expect_ok(store.account_contents(account).await) }
}

async fn list(store: &dyn Store, owner: &MemoryOwner, with_superseded: bool) -> Vec<FactRecord> {
    let query = |cursor| FactListQuery { owner: owner.clone(), with_superseded, limit: 1, cursor };
    all_pages(async |cursor| store.account_facts(query(cursor)).await, async || {}).await.concat()
}

pub async fn accounts_are_listed(store: Arc<dyn Store>) {
    for (number, account) in [(1, "alice"), (2, "alice"), (3, "bob")] {
        converse(&*store, number, &of_account(account, &number.to_string())).await;
    }
    let mut other = run(4, &of_account("bob", "4"));
    other.principal = "local".into();
    commit(&*store, vec![StoreWrite::OpenRun(other)]).await;
    learn(&*store, vec![fact(&owner("alice"), "lives in", "Lyon"), fact(&owner("carol"), "likes", "tea")]).await;

    let main: Vec<Arc<str>> = vec!["token:main".into()];
    let everything = vec![("web:alice", 2, 2, 1), ("web:bob", 2, 1, 0), ("web:carol", 0, 0, 1)];
    // Another principal created one of bob's sessions, and nobody knows whose carol's facts are.
    let of_main = vec![("web:alice", 2, 2, 1)];
    for (owners, expected) in [(None, everything), (Some(main), of_main), (Some(vec!["nobody".into()]), Vec::new())] {
        let page = async |cursor| store.accounts(owners.clone(), 1, cursor).await;
        let rows = all_pages(page, async || {}).await.concat();
        let rows: Vec<_> = rows.iter().map(|row| (row.account.as_str(), row.sessions, row.turns, row.facts)).collect();
        assert_eq!(rows, expected, "{owners:?}");
    }
}

pub async fn facts_are_listed_with_their_past(store: Arc<dyn Store>) {
    let alice = owner("alice");
    learn(&*store, vec![NewFact { run: Some(run_id(1)), ..fact(&alice, "lives in", "Lyon") }]).await;
    learn(&*store, vec![fact(&owner("bob"), "lives in", "Oslo")]).await;
    learn(&*store, vec![NewFact { learned_at: at(9), ..fact(&alice, "lives in", "Metz") }]).await;
    learn(&*store, vec![fact(&alice, "likes", "tea")]).await;

    let shown = |facts: Vec<FactRecord>| {
        let shown = facts.into_iter().map(|record| (record.fact.object, record.run, record.superseded.is_some()));
        shown.collect::<Vec<_>>()
    };
    let (tea, metz) = (("tea".to_owned(), None, false), ("Metz".to_owned(), None, false));
    assert_eq!(shown(list(&*store, &alice, false).await), [tea.clone(), metz.clone()]);
    let everything = list(&*store, &alice, true).await;
    assert_eq!(shown(everything.clone()), [tea, metz, ("Lyon".to_owned(), Some(run_id(1)), true)]);

    let (newer, older) = (&everything[1], &everything[2]);
    assert_eq!((newer.supersedes, newer.superseded), (Some(older.fact.number), None));
    let superseded = Superseded { at: at(9), by: Some(newer.fact.number) };
    assert_eq!((older.supersedes, older.superseded), (None, Some(superseded)));
    let found = expect_ok(store.account_fact(&alice, older.fact.number).await);
    assert_eq!(found.as_ref(), Some(older));
    assert_eq!(expect_ok(store.account_fact(&owner("bob"), older.fact.number).await), None);
}

pub async fn facts_are_forgotten_with_their_past(store: Arc<dyn Store>) {
    let (alice, bob) = (owner("alice"), owner("bob"));
    for place in ["Lyon", "Metz", "Nice"] {
        learn(&*store, vec![fact(&alice, "lives in", place), fact(&bob, "lives in", place)]).await;
    }
    learn(&*store, vec![fact(&alice, "likes", "tea")]).await;
    let nice = list(&*store, &alice, false).await[1].fact.number;
    let forget = |owner: &MemoryOwner| StoreWrite::ForgetFact { owner: owner.clone(), fact: nice };
    commit(&*store, vec![forget(&bob)]).await;
    assert_eq!(list(&*store, &alice, true).await.len(), 4, "another owner's number is not deleted");
    commit(&*store, vec![forget(&alice)]).await;
    commit(&*store, vec![forget(&alice)]).await;
    expect_ok(store.erase_remains(EraseExtent::Log).await);

    let left: Vec<_> = list(&*store, &alice, true).await.into_iter().map(|record| record.fact.object).collect();
    assert_eq!((left, list(&*store, &bob, true).await.len()), (vec!["tea".to_owned()], 3));
    for (who, expected) in [(&alice, 0), (&bob, 1)] {
        let query = FactQuery {
            owner: who.clone(),
            text: "Nice".to_owned(),
            embedding: None,
            limit: 9,
            fill_with_recent: false,
            cursor: None,
        };
        assert_eq!(expect_ok(store.facts(query).await).items.len(), expected, "{who}");
    }
}

pub async fn accounts_are_exported_whole(store: Arc<dyn Store>) {
    let (first, second) = (of_account("alice", "1"), of_account("alice", "2"));
    for (number, session) in [(1, &first), (2, &second), (3, &first), (4, &of_account("bob", "1"))] {
        converse(&*store, number, session).await;
    }
    // Hidden from the agent and from lists, but still stored.
    let clear = StoreWrite::ClearSession { session: first.clone(), at: at(9), purge: false };
    let hide = StoreWrite::HideSession { session: second.clone(), hidden: true };
    commit(&*store, vec![clear, hide]).await;

    let alice = owner("alice");
    let sessions = async |cursor| store.account_sessions(&alice, 1, cursor).await;
    let sessions = all_pages(sessions, async || {}).await.concat();
    assert_eq!(sessions.iter().map(|row| row.key.clone()).collect::<Vec<_>>(), [first.clone(), second.clone()]);
    let turns = async |cursor| store.account_turns(&alice, 1, cursor).await;
    let turns = all_pages(turns, async || {}).await.concat();
    let turns: Vec<_> = turns.into_iter().map(|turn| (turn.session, turn.turn.number, turn.turn.run)).collect();
    assert_eq!(turns, [(first.clone(), 1, run_id(1)), (first, 2, run_id(3)), (second, 1, run_id(2))]);
    let runs = async |cursor| store.account_runs(&alice, 1, cursor).await;
    let runs = all_pages(runs, async || {}).await.concat();
    assert_eq!(runs.iter().map(|run| run.run).collect::<Vec<_>>(), [run_id(1), run_id(2), run_id(3)]);
}

pub async fn accounts_are_forgotten(store: Arc<dyn Store>) {
    let (alice, bob) = (owner("alice"), owner("bob"));
    let (hers, his) = (of_account("alice", "1"), of_account("bob", "1"));
    for (number, session) in [(1, &hers), (2, &his), (3, &of_account("alice", "2"))] {
        converse(&*store, number, session).await;
    }
    // A purged session is found by its name alone.
    commit(&*store, vec![StoreWrite::ClearSession { session: of_account("alice", "2"), at: at(9), purge: true }]).await;
    while expect_ok(store.index_turns().await) {}
    learn(&*store, vec![fact(&alice, "lives in", "Lyon"), fact(&bob, "lives in", "Oslo")]).await;
    learn(&*store, vec![fact(&alice, "lives in", "Metz")]).await;
    let delivery = |number: u128, key: &str| DeliveryRow {
        id: DeliveryId(Uuid::from_u128(number)),
        channel: "web".into(),
        key: key.into(),
        state: DeliveryState::Received,
        received_at: at(1),
        changed_at: at(1),
        body: b"a message".to_vec(),
    };
    commit(&*store, vec![StoreWrite::Delivery(delivery(1, "hers")), StoreWrite::Delivery(delivery(2, "his"))]).await;
    let expected = AccountContents {
        sessions: 1,
        turns: 1,
        runs: 1,
        facts: 1,
        superseded_facts: 1,
        session_owners: vec![Some("token:main".into())],
        ..AccountContents::default()
    };
    assert_eq!(contents(&*store, &alice).await, expected);
    let of_bob = contents(&*store, &bob).await;

    // Repeated, as after a crash.
    for _ in 0..2 {
        while expect_ok(store.forget_account(&alice, vec![DeliveryId(Uuid::from_u128(1))]).await) {}
        expect_ok(store.erase_remains(EraseExtent::WholeStore).await);
    }
    let emptied = expect_ok(store.account_contents(&alice).await);
    assert!(emptied.is_empty() && !emptied.has_remains, "{emptied:?}");
    assert_eq!(contents(&*store, &bob).await, of_bob);

    assert_eq!(expect_ok(store.run(run_id(1)).await), None);
    assert_eq!(expect_ok(store.last_seq(&topic(1)).await), Seq(0));
    assert_eq!(expect_ok(store.events(&Topic::Run(run_id(2)), Seq::FIRST, 9).await).len(), 1);
    assert_eq!(expect_ok(store.session(&hers).await), None);
    for (session, values) in [(&hers, 0), (&his, 1)] {
        let usage = expect_ok(store.kv_usage(&KvNamespace::Session(session.clone())).await);
        let spent = expect_ok(store.tokens_spent(vec![BudgetScope::Session(session.clone())]).await);
        assert_eq!((usage.keys, spent), (values, vec![values * 15]), "{session}");
    }
    let open: Vec<_> = expect_ok(store.open_deliveries().await).into_iter().map(|row| row.id).collect();
    assert_eq!(open, [DeliveryId(Uuid::from_u128(2))]);

    // What it cost and that something was done stay, without a name.
    let query = UsageQuery {
        since: None,
        group_by: UsageGrouping::Session,
        then_by: None,
        owners: None,
        limit: 9,
        cursor: None,
    };
    let usage = expect_ok(store.usage(query).await).items;
    let total: u64 = usage.iter().filter(|group| group.key == FORGOTTEN).map(|group| group.calls).sum();
    assert_eq!((total, usage.iter().filter(|group| group.key == his.as_str()).count()), (2, 1), "{usage:?}");
    let audit = expect_ok(store.audit(9, None).await).items;
    let subjects: Vec<_> = audit.into_iter().rev().map(|row| row.subject).collect();
    let his_row = AuditSubject::Session(his);
    assert_eq!(subjects, [AuditSubject::Forgotten, his_row, AuditSubject::Forgotten]);

    // The same account begins again.
    converse(&*store, 7, &hers).await;
    let audit = expect_ok(store.audit(9, None).await).items;
    let subjects: Vec<_> = audit.into_iter().map(|row| row.subject).collect();
    assert_eq!(subjects[0], AuditSubject::Session(hers.clone()));
    assert_eq!(subjects[1], AuditSubject::Forgotten);
    assert_eq!(contents(&*store, &alice).await.turns, 1);
}

pub async fn forgetting_waits_for_running_runs(store: Arc<dyn Store>) {
    let hers = of_account("alice", "1");
    commit(&*store, vec![StoreWrite::OpenRun(run(1, &hers))]).await;
    while expect_ok(store.forget_account(&owner("alice"), Vec::new()).await) {}
    assert!(expect_ok(store.run(run_id(1)).await).is_some(), "its cost must still be counted");
    commit(&*store, vec![StoreWrite::AddTurn(turn(1, &hers)), close_run(1, 5)]).await;
    assert_eq!(expect_ok(store.run(run_id(1)).await), None);
    assert_eq!(expect_ok(store.session(&session("1")).await), None);
    while expect_ok(store.forget_account(&owner("alice"), Vec::new()).await) {}
    assert!(expect_ok(store.account_contents(&owner("alice")).await).is_empty());
}
