//! Many clients at once, on one thread and on several, some of them giving up, with a store that sometimes fails:
//! whatever happened, the records add up.

use crate::command::CancelRun;
use std::collections::HashMap;

use super::*;
use crate::event::RunOutcome;
use crate::model::ModelError;
use crate::store::{BudgetScope, UsageGrouping, UsageQuery};

const ACCOUNTS: [&str; 5] = ["a", "b", "c", "d", "e"];
const CLIENTS: u64 = 150;

/// Small and repeatable; good enough to be unfair with.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn scripts(dice: &mut Dice) -> Vec<Script> {
    let text = || ScriptStep::Emit(ModelEvent::Text("partly".into()));
    let mut script = || match dice.roll(6) {
        0 => call(&[("echo", json!({})), ("fails", json!({}))], 9, 4),
        1 => call(&[("nosuch", json!({})), ("panics_later", json!({}))], 9, 4),
        2 => vec![answering(), text(), ScriptStep::Fail(ModelError::Unavailable("gone".into()))],
        3 => vec![answering(), text()],
        _ => say(&["well", ", ", "yes"], 12, 3),
    };
    (0..CLIENTS * 2).map(|_| script()).collect()
}

/// One client: asks, perhaps withdraws, follows, perhaps stops listening, perhaps cancels.
async fn client(board: Board, number: u64) -> Option<RunId> {
    let mut dice = Dice(number);
    let me = caller(number);
    let stop = CancellationToken::new();
    let account = ACCOUNTS[dice.roll(5) as usize];
    let ask = board.ask(&me, start(account, &format!("I live in town {number}.")), stop.clone());
    let patience = dice.roll(40);
    let impatient = dice.roll(4) == 0;
    let give_up = async {
        for _ in 0..patience {
            tokio::task::yield_now().await;
        }
        if impatient {
            stop.cancel();
        }
        std::future::pending::<()>().await;
    };
    let reply = tokio::select! {
        reply = ask => reply,
        () = give_up => unreachable!("it never ends"),
    };
    let Ok(run) = reply else { return None };
    let mut followed = board.follow(&me, Topic::Run(run), Seq::FIRST, FollowerPacing::Paced).await.ok()?;
    let listens = dice.roll(8);
    let mut expected = Seq::FIRST;
    loop {
        let record = tokio::select! {
            biased;
            record = followed.next() => record,
            // Its end could not be recorded: it waits for whoever takes it over.
            () = released(&board, run) => None,
        };
        let Some(Ok(record)) = record else { break };
        assert_eq!(record.seq, expected);
        expected = record.last_seq().next();
        match dice.roll(12) {
            0 => drop(board.ask(&me, CancelRun(run), CancellationToken::new()).await),
            1 if listens == 0 => break,
            _ => {}
        }
    }
    Some(run)
}

async fn released(board: &Board, run: RunId) {
    while board.live_runs().contains_key(&run) {
        tokio::task::yield_now().await;
    }
}

async fn storm(seed: u64, store: Arc<FaultyStore>, faulty: bool) {
    let mut dice = Dice(seed);
    let bench = bench_with(scripts(&mut dice), |setup| {
        setup.store = store.clone();
        setup.limits.session_queue = 60;
        setup.limits.concurrent_runs = 8;
        setup.budgets.session = Some(20_000);
        setup.agent.max_tokens = 50;
    });
    if faulty {
        bench.store.fail(|batch| {
            let unlucky = |write: &crate::store::StoreWrite| matches!(write, crate::store::StoreWrite::Event(record) if record.seq.0 > 3 && record.seq.0 % 3 == 0);
            batch.writes.iter().any(unlucky)
        });
    }
    let clients: Vec<_> =
        (0..CLIENTS).map(|number| bench.board.0.tracker.spawn(client(bench.board.clone(), seed ^ number))).collect();
    let mut runs = Vec::new();
    for client in clients {
        runs.extend(client.await.unwrap());
    }
    bench.board.0.tracker.close();
    bench.board.0.tracker.wait().await;
    bench.store.stop_failing();
    assert!(runs.len() > 20, "the storm was not just refusals: {}", runs.len());
    assert_eq!(bench.live_runs(), 0);
    for account in ACCOUNTS {
        let spent = bench.spent(account).await;
        assert!(spent.iter().all(|(_, reserved)| *reserved == 0), "nothing stays reserved: {spent:?}");
    }

    let restarted = bench_with([], |setup| setup.store = store.clone());
    let interrupted = restarted.board.adopt().await.unwrap();
    assert_eq!(interrupted.closed + interrupted.resumed > 0, faulty, "{interrupted:?}");
    while restarted.live_runs() > 0 {
        tokio::task::yield_now().await;
    }
    let mut completed: HashMap<SessionKey, usize> = HashMap::new();
    for run in runs {
        let row = restarted.store.run(run).await.unwrap().unwrap();
        let records = restarted.store.events(&Topic::Run(run), Seq::FIRST, 1000).await.unwrap();
        let mut expected = Seq::FIRST;
        for record in &records {
            assert_eq!(record.seq, expected);
            expected = record.last_seq().next();
        }
        let ends = records.iter().filter(|record| record.event.ends_topic()).count();
        assert!(ends == 1 && records.last().unwrap().event.ends_topic(), "one end, at the end");
        if row.state == crate::store::RunState::Ended(RunOutcome::Completed) {
            *completed.entry(row.session).or_default() += 1;
        }
    }
    let query = UsageQuery {
        since: None,
        group_by: UsageGrouping::Session,
        then_by: None,
        owners: None,
        limit: 100,
        cursor: None,
    };
    let usage = restarted.store.usage(query).await.unwrap().items;
    for account in ACCOUNTS {
        let turns = restarted.store.session(&session(account)).await.unwrap().map_or(0, |row| row.turns);
        assert_eq!(
            turns as usize,
            completed.get(&session(account)).copied().unwrap_or(0),
            "turns of completed runs only"
        );
        let used: u64 =
            usage.iter().filter(|group| group.key == session(account).as_str()).map(|group| group.tokens.total()).sum();
        let spent = restarted.store.tokens_spent(vec![BudgetScope::Session(session(account))]).await.unwrap();
        assert_eq!(spent, [used], "budgets add up");
        if !faulty {
            assert_eq!(bench.spent(account).await[0], (used, 0), "memory and store agree");
        }
    }
}

#[test]
fn on_one_thread() {
    for seed in 0..8 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(storm(seed, FaultyStore::slow(seed as usize % 3), seed % 2 == 1));
    }
}

#[test]
fn on_several_threads() {
    for seed in 100..108 {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
        runtime.block_on(storm(seed, FaultyStore::slow(seed as usize % 3), seed % 2 == 1));
    }
}
