//! Titles, hidden sessions, forks, and the search over turns.

use std::sync::Arc;

use patchboard_core::id::SessionKey;
use patchboard_core::model::ModelMessage;
use patchboard_core::store::{
    HiddenSessions, NewFork, NewTurn, SessionFilter, Store, StoreWrite, TurnQuery, TurnSearchQuery,
};

use super::fixtures::{all_pages, at, close_run, commit, expect_ok, run, run_id, session, turn};

async fn say(store: &dyn Store, number: u64, session: &SessionKey, principal: &str, said: &str) {
    let mut opened = run(number, session);
    (opened.principal, opened.input) = (principal.into(), said.into());
    let messages = vec![ModelMessage::user(said), ModelMessage::assistant("I see.")];
    let turn = NewTurn { messages, ..turn(number, session) };
    let second = number.cast_signed();
    commit(store, vec![StoreWrite::OpenRun(opened), StoreWrite::AddTurn(turn), close_run(number, second)]).await;
}

pub async fn sessions_are_named_and_hidden(store: Arc<dyn Store>) {
    let (plan, other) = (session("plan"), session("other"));
    say(&*store, 1, &plan, "local", "plan\n  the garden").await;
    say(&*store, 2, &other, "local", "something else").await;
    let title = async || expect_ok(store.session(&plan).await).and_then(|row| row.title);
    assert_eq!(title().await.as_deref(), Some("plan the garden"));
    say(&*store, 3, &plan, "local", "and then?").await;
    assert_eq!(title().await.as_deref(), Some("plan the garden"), "the first message names it");
    commit(&*store, vec![StoreWrite::RenameSession { session: plan.clone(), title: "roses".into() }]).await;
    assert_eq!(title().await.as_deref(), Some("roses"));

    let unknown = StoreWrite::RenameSession { session: session("unknown"), title: "x".into() };
    commit(&*store, vec![unknown, StoreWrite::HideSession { session: session("unknown"), hidden: true }]).await;
    assert_eq!(expect_ok(store.session(&session("unknown")).await), None);

    commit(&*store, vec![StoreWrite::HideSession { session: plan.clone(), hidden: true }]).await;
    for (hidden, expected) in [
        (HiddenSessions::LeftOut, vec![&other]),
        (HiddenSessions::Only, vec![&plan]),
        (HiddenSessions::Included, vec![&plan, &other]),
    ] {
        let filter = SessionFilter { hidden, ..SessionFilter::default() };
        let rows = expect_ok(store.sessions(filter, 9, None).await).items;
        assert_eq!(rows.iter().map(|row| &row.key).collect::<Vec<_>>(), expected, "{hidden:?}");
    }
    commit(&*store, vec![StoreWrite::HideSession { session: plan.clone(), hidden: false }]).await;
    assert_eq!(expect_ok(store.session(&plan).await).map(|row| row.is_hidden), Some(false));

    // A cleared conversation begins anew.
    commit(&*store, vec![StoreWrite::ClearSession { session: plan.clone(), at: at(9), purge: false }]).await;
    say(&*store, 10, &plan, "local", "now the kitchen").await;
    assert_eq!(title().await.as_deref(), Some("now the kitchen"));
}

pub async fn sessions_are_forked(store: Arc<dyn Store>) {
    let (from, into) = (session("first"), session("second"));
    for number in 1..=2 {
        say(&*store, number, &from, "local", &format!("message {number}")).await;
    }
    commit(&*store, vec![StoreWrite::ClearSession { session: from.clone(), at: at(9), purge: false }]).await;
    for number in 3..=6 {
        say(&*store, number, &from, "local", &format!("message {number}")).await;
    }
    let fork = NewFork {
        from: from.clone(),
        through: 5,
        into: into.clone(),
        owner: "token:main".into(),
        title: Some("a branch".into()),
        at: at(20),
    };
    commit(&*store, vec![StoreWrite::ForkSession(fork)]).await;
    let row = expect_ok(store.session(&into).await);
    let row = row.map(|row| (row.owner, row.created_at, row.turns, row.title));
    assert_eq!(row, Some((Some("token:main".into()), at(20), 3, Some("a branch".into()))));
    let query = |session: &SessionKey| TurnQuery { session: session.clone(), limit: 9, before: None };
    let copied = expect_ok(store.turns(query(&into)).await).items;
    let copied: Vec<_> = copied.iter().map(|turn| (turn.number, turn.run)).collect();
    assert_eq!(copied, [(1, run_id(3)), (2, run_id(4)), (3, run_id(5))], "cleared turns are not copied");
    say(&*store, 7, &into, "token:main", "go on").await;
    assert_eq!(expect_ok(store.turns(query(&into)).await).items.len(), 4);
    assert_eq!(expect_ok(store.turns(query(&from)).await).items.len(), 4, "the original stays as it was");
}

pub async fn turns_are_found_by_words(store: Arc<dyn Store>) {
    let (garden, kitchen, theirs) = (session("garden"), session("kitchen"), session("theirs"));
    say(&*store, 1, &garden, "local", "When do I prune the red roses?").await;
    say(&*store, 2, &garden, "local", "And the white ones?").await;
    say(&*store, 3, &kitchen, "local", "A red wall, or roses on it").await;
    say(&*store, 4, &theirs, "token:main", "red roses for her").await;
    while expect_ok(store.index_turns().await) {}
    say(&*store, 5, &garden, "local", "red roses again").await;
    while expect_ok(store.index_turns().await) {}

    let local: Vec<Arc<str>> = vec!["local".into()];
    let search = async |text: &str, owners: Option<&Vec<Arc<str>>>| {
        let query = |cursor| TurnSearchQuery { text: text.to_owned(), owners: owners.cloned(), limit: 1, cursor };
        let found = all_pages(async |cursor| store.search_turns(query(cursor)).await, async || {}).await.concat();
        let mut found: Vec<_> = found.into_iter().map(|turn| (turn.session, turn.turn, turn.run)).collect();
        found.sort();
        found
    };
    let (first, last) = ((garden.clone(), 1, run_id(1)), (garden.clone(), 3, run_id(5)));
    let (wall, hers) = ((kitchen, 1, run_id(3)), (theirs, 1, run_id(4)));
    let mine = vec![first.clone(), last.clone(), wall.clone()];
    for (text, owners, expected) in [
        ("roses RED", Some(&local), mine),
        ("red roses", None, vec![first.clone(), last.clone(), wall, hers]),
        ("prune", Some(&local), vec![first]),
        ("red AND her\" OR *", Some(&local), Vec::new()),
        ("\"*:(", Some(&local), Vec::new()),
        ("", None, Vec::new()),
        ("roses", Some(&vec!["nobody".into()]), Vec::new()),
    ] {
        assert_eq!(search(text, owners).await, expected, "{text:?} {owners:?}");
    }
    let found = expect_ok(
        store.search_turns(TurnSearchQuery { text: "prune".to_owned(), owners: None, limit: 9, cursor: None }).await,
    );
    let shown = found.items.first().map(|turn| (turn.title.as_deref(), turn.excerpt.contains("prune the red roses")));
    assert_eq!(shown, Some((Some("When do I prune the red roses?"), true)));

    // Cleared turns are not found, purged ones are gone from the index.
    commit(&*store, vec![StoreWrite::ClearSession { session: garden.clone(), at: at(9), purge: false }]).await;
    assert_eq!(search("prune", None).await, []);
    commit(&*store, vec![StoreWrite::ClearSession { session: garden.clone(), at: at(9), purge: true }]).await;
    say(&*store, 6, &garden, "local", "hello again").await;
    while expect_ok(store.index_turns().await) {}
    assert_eq!(search("prune", None).await, []);
    assert_eq!(search("hello", None).await, [(garden, 1, run_id(6))]);
}
