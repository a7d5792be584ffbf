//! What is stored of accounts: whose it is, how it is corrected, and that nothing is left after it was forgotten.

use super::*;
use crate::command::ListSessions;
use crate::command::{
    AccountRef, CorrectFact, DescribeAccount, ExportAccount, ExportSection, ForgetAccount, ForgetFact, ForkPoint,
    ForkSession, HideSession, ListAccounts, ListFacts, RenameSession, SearchTurns,
};
use crate::store::{AuditSubject, FactRecord, SessionFilter, StoreWrite, WriteBatch};

fn account(name: &str) -> AccountRef {
    let origin = origin(name);
    AccountRef { channel: origin.channel, account: origin.account }
}

fn page() -> PageRequest {
    PageRequest::new(None, None)
}

fn commands_about(named: &AccountRef) -> Vec<AnyCommand> {
    let account = || named.clone();
    vec![
        AnyCommand::new(DescribeAccount { account: account() }),
        AnyCommand::new(ListFacts { account: account(), with_superseded: true, page: page() }),
        AnyCommand::new(CorrectFact { account: account(), fact: 1, object: "x".into() }),
        AnyCommand::new(ForgetFact { account: account(), fact: 1 }),
        AnyCommand::new(ExportAccount { account: account(), section: ExportSection::Turns, page: page() }),
        AnyCommand::new(ForgetAccount { account: account() }),
    ]
}

async fn facts(bench: &Bench, named: &str) -> Vec<FactRecord> {
    let command = ListFacts { account: account(named), with_superseded: true, page: page() };
    bench.ask(&caller(1), command).await.unwrap().items
}

#[tokio::test(start_paused = true)]
async fn an_account_of_others_is_like_none_at_all() {
    let bench = bench([]);
    bench.chat("alice", "I live in Oslo").await;
    let message = |named: &str| {
        let AccountRef { channel, account } = account(named);
        let hint = "`patchboard memory accounts` lists what is";
        format!("nothing of yours is stored under `{channel}/{account}`; {hint}")
    };
    for named in ["alice", "nobody"] {
        for command in commands_about(&account(named)) {
            let refused = command.ask(&bench, &stranger()).await.unwrap_err();
            assert_eq!((refused.kind, refused.message), (ErrorKind::NotFound, message(named)), "{command:?}");
        }
    }
    assert_eq!(bench.ask(&stranger(), ListAccounts(page())).await.unwrap().items, []);
    for command in commands_about(&AccountRef { channel: "cli".into(), account: "alice".into() }) {
        let refused = command.ask(&bench, &caller(1)).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden, "{command:?}");
    }
    for (who, count) in [(caller(1), 1), (operator(), 1)] {
        let listed = bench.ask(&who, ListAccounts(page())).await.unwrap().items;
        let counted: Vec<_> = listed.iter().map(|row| (row.sessions, row.turns, row.facts)).collect();
        assert_eq!(counted, vec![(1, 1, 1); count]);
    }
    // Another caller shares the account: now it belongs to neither alone.
    let shared = ConversationOrigin { peer: Some("other".into()), ..origin("alice") };
    let talk = StartRun { origin: shared, ..start("alice", "me too") };
    bench.ask(&stranger(), talk).await.unwrap();
    until_released(&bench).await;
    for command in commands_about(&account("alice")) {
        let refused = command.ask(&bench, &caller(1)).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::NotFound, "{command:?}");
    }
    assert_eq!(bench.said("alice").await.len(), 2, "nothing was deleted");
}

#[tokio::test(start_paused = true)]
async fn facts_are_corrected_and_forgotten() {
    let bench = bench([]);
    let (run, followed) = bench.begin("alice", "I live in Oslo").await;
    rest(followed).await;
    let stated = facts(&bench, "alice").await.remove(0);
    assert_eq!((stated.fact.object.as_str(), stated.run), ("Oslo", Some(run)));

    let correct = |fact, object: &str| CorrectFact { account: account("alice"), fact, object: object.to_owned() };
    let corrected = bench.ask(&caller(1), correct(stated.fact.number, " Bergen ")).await.unwrap();
    assert_eq!((corrected.fact.object.as_str(), corrected.run), ("Bergen", None));
    assert_eq!(corrected.supersedes, Some(stated.fact.number));
    let same = bench.ask(&caller(1), correct(corrected.fact.number, "Bergen")).await.unwrap();
    assert_eq!(same, corrected, "the same text changes nothing");
    for (fact, object, kind) in [
        (stated.fact.number, "Rome", ErrorKind::Conflict),
        (999, "Rome", ErrorKind::NotFound),
        (corrected.fact.number, " ", ErrorKind::Invalid),
        (corrected.fact.number, &"x".repeat(2001), ErrorKind::Invalid),
    ] {
        let refused = bench.ask(&caller(1), correct(fact, object)).await.unwrap_err();
        assert_eq!(refused.kind, kind, "{fact} {}", object.len());
    }
    let forget = ForgetFact { account: account("alice"), fact: corrected.fact.number };
    bench.ask(&caller(1), forget.clone()).await.unwrap();
    assert_eq!(facts(&bench, "alice").await, [], "with what it replaced");
    assert_eq!(bench.ask(&caller(1), forget).await.unwrap_err().kind, ErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_account_leaves_only_figures() {
    let (gate, wait) = closed_gate();
    let bench = bench([say(&["ok"], 10, 5), say(&["ok"], 10, 5), say_and_wait(&["well"], wait)]);
    bench.chat("alice", "I live in Oslo").await;
    bench.chat("bob", "I live in Rome").await;
    let (run, followed) = bench.begin("alice", "and now?").await;
    let_others_run().await;
    let report = bench.ask(&caller(1), DescribeAccount { account: account("alice") }).await.unwrap();
    assert_eq!((report.live_runs, report.contents.turns, report.contents.facts), (1, 1, 1));

    let forgotten = bench.ask(&caller(1), ForgetAccount { account: account("alice") }).await.unwrap();
    assert_eq!((forgotten.cancelled_runs, forgotten.contents.turns), (1, 1));
    drop(gate);
    drop(followed);
    assert_eq!(bench.store.run(run).await.unwrap(), None);
    assert_eq!(bench.store.session(&session("alice")).await.unwrap(), None);
    let listed = bench.ask(&operator(), ListAccounts(page())).await.unwrap().items;
    assert_eq!(listed.iter().map(|row| row.account.as_str()).collect::<Vec<_>>(), ["web:bob"]);
    assert_eq!(bench.said("bob").await, ["I live in Rome", "ok"]);
    let audit = bench.audit().await;
    let row = audit.iter().find(|row| &*row.action == "account.forget").unwrap();
    assert_eq!(row.subject, AuditSubject::Forgotten);

    let again = bench.ask(&operator(), ForgetAccount { account: account("alice") }).await.unwrap_err();
    assert_eq!(again.kind, ErrorKind::NotFound);
    bench.chat("alice", "hello again").await;
    assert_eq!(bench.said("alice").await.first().map(String::as_str), Some("hello again"));
}

#[tokio::test(start_paused = true)]
async fn an_account_whose_runs_do_not_end_is_kept_whole() {
    let bench = bench([]);
    bench.chat("alice", "I live in Oslo").await;
    // A run that no process works on.
    let stuck = RunId(uuid::Uuid::from_u128(77));
    let row = crate::store::RunRow {
        agent: "default".into(),
        strategy: crate::run_spec::StrategyKind::React,
        requests: crate::store::RunRequests::default(),
        run: stuck,
        session: session("alice"),
        principal: caller(1).principal.text(),
        client_id: "stuck".into(),
        surface: "gateway".into(),
        started_at: jiff::Timestamp::UNIX_EPOCH,
        input: "?".into(),
        state: crate::store::RunState::Running,
    };
    bench.store.commit(WriteBatch::boundary(vec![StoreWrite::OpenRun(row)])).await.unwrap();
    let refused = bench.ask(&caller(1), ForgetAccount { account: account("alice") }).await.unwrap_err();
    let expected = "nothing was deleted: 1 runs of the account have not ended yet";
    assert_eq!((refused.kind, refused.message.as_str()), (ErrorKind::Unavailable, expected));
    assert_eq!(bench.said("alice").await, ["I live in Oslo", "ok"]);
}

#[tokio::test(start_paused = true)]
async fn conversations_are_named_hidden_searched_and_forked() {
    let bench = bench([]);
    let named = || SessionRef::Origin(origin("alice"));
    bench.chat("alice", "plan the garden").await;
    bench.chat("alice", "and the roses").await;
    let listed = async || {
        let list = ListSessions { filter: SessionFilter::default(), page: page() };
        let rows = bench.ask(&caller(1), list).await.unwrap().items;
        rows.into_iter().map(|row| row.title.unwrap_or_default().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(listed().await, ["plan the garden"]);
    let rename = |title: &str| RenameSession { session: named(), title: title.to_owned() };
    assert_eq!(bench.ask(&caller(1), rename(" my\ngarden")).await.unwrap(), "my garden");
    assert_eq!(bench.ask(&caller(1), rename(" \n")).await.unwrap_err().kind, ErrorKind::Invalid);
    bench.ask(&caller(1), HideSession { session: named(), hidden: true }).await.unwrap();
    assert_eq!(listed().await, Vec::<String>::new());
    bench.ask(&caller(1), HideSession { session: named(), hidden: false }).await.unwrap();
    assert_eq!(listed().await, ["my garden"]);

    let search = |text: &str| SearchTurns { text: text.to_owned(), page: page() };
    let found = bench.ask(&caller(1), search("ROSES")).await.unwrap().items;
    let found: Vec<_> = found.into_iter().map(|turn| (turn.session, turn.turn)).collect();
    assert_eq!(found, [(session("alice"), 2)]);
    assert_eq!(bench.ask(&stranger(), search("roses")).await.unwrap().items, []);
    assert_eq!(bench.ask(&caller(1), search(&"x".repeat(9000))).await.unwrap_err().kind, ErrorKind::Invalid);

    let fork = |after| ForkSession { session: named(), after };
    let forked = bench.ask(&caller(1), fork(ForkPoint::Turn(1))).await.unwrap();
    let parts = forked.conversation_parts().unwrap();
    assert_eq!((parts.account.as_str(), parts.peer.starts_with("fork-")), ("alice", true));
    let read = ReadHistory { session: SessionRef::Key(forked.clone()), page: page() };
    assert_eq!(bench.ask(&caller(1), read).await.unwrap().turns.items.len(), 1);
    let run = bench.history("alice").await[1].run;
    for (after, turns) in [(ForkPoint::Run(run), 2), (ForkPoint::LastTurn, 2)] {
        let key = bench.ask(&caller(1), fork(after)).await.unwrap();
        let row = bench.store.session(&key).await.unwrap().unwrap();
        assert_eq!((row.turns, row.owner), (turns, Some(caller(1).principal.text())), "{after:?}");
    }
    for after in [ForkPoint::Turn(3), ForkPoint::Turn(0), ForkPoint::Run(RunId(uuid::Uuid::nil()))] {
        assert_eq!(bench.ask(&caller(1), fork(after)).await.unwrap_err().kind, ErrorKind::NotFound, "{after:?}");
    }
    let others = [
        AnyCommand::new(rename("x")),
        AnyCommand::new(HideSession { session: named(), hidden: true }),
        AnyCommand::new(fork(ForkPoint::LastTurn)),
    ];
    for command in others {
        assert_eq!(command.ask(&bench, &stranger()).await.unwrap_err().kind, ErrorKind::Forbidden, "{command:?}");
    }
    let unknown = HideSession { session: SessionRef::Origin(origin("nobody")), hidden: true };
    assert_eq!(bench.ask(&caller(1), unknown).await.unwrap_err().kind, ErrorKind::NotFound);
}
