//! Two boards on one store, as two processes of a cluster: one is fenced at a random moment and does not know it, the other
//! takes its work over. Everything runs on one thread under a seed, so that a failing seed fails again.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use serde_json::Value;

use super::cut_anywhere::Reader;
use super::runs::{on_runs, plan, run_of};
use super::*;
use crate::model::ToolCall;
use crate::port::ToolScope;
use crate::run_spec::reasoning::ReasoningOptions;
use crate::store::RunState;
use crate::tool::{ToolEffect, ToolKind, ToolOutput, ToolSpec, UnknownOutcomePolicy};

const STRATEGIES: [&str; 4] = ["react", "dup", "tot", "got"];

/// What each board did to the outside, call by call, and what was on record at the fence.
#[derive(Debug, Default)]
struct EffectLedger {
    effects: Mutex<Vec<(&'static str, String)>>,
}

/// Tools of one board that note every call in the ledger both boards share.
#[derive(Debug)]
struct LedgerTools {
    board: &'static str,
    ledger: Arc<EffectLedger>,
    pauses: u64,
}

impl ToolHost for LedgerTools {
    fn kind(&self) -> ToolKind {
        ToolKind::BuiltIn
    }

    fn tools(&self, _folder: Option<&std::path::Path>) -> Arc<[ToolSpec]> {
        let spec = |name: &str, effect| ToolSpec {
            name: name.into(),
            description: "notes that it was called".into(),
            input_schema: json!({"type": "object"}).into(),
            effect,
            timeout: None,
            unknown_outcome: UnknownOutcomePolicy::Retry,
            kind: ToolKind::BuiltIn,
            traits: None,
        };
        [spec("echo", ToolEffect::ReadOnly), spec("write", ToolEffect::Writes)].into()
    }

    fn call<'a>(
        &'a self,
        _scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        _stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            self.ledger.effects.lock().unwrap().push((self.board, call.id.to_string()));
            for _ in 0..self.pauses {
                tokio::task::yield_now().await;
            }
            ToolOutput::ok(arguments.to_string())
        })
    }
}

/// Small and repeatable.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn node(name: &'static str, store: Arc<FaultyStore>, ledger: &Arc<EffectLedger>, first_id: u64, pauses: u64) -> Bench {
    let tools = Arc::new(LedgerTools { board: name, ledger: ledger.clone(), pauses });
    bench_with([], |setup| {
        setup.store = store;
        setup.ids = Arc::new(CountingIds::starting_at(first_id));
        setup.agent.provider = Arc::new(Reader::default());
        setup.agent.reasoning = ReasoningOptions::default();
        setup.agent.tools = Some(vec![Glob::new("echo"), Glob::new("write")]);
        setup.tools_first = vec![tools];
    })
}

async fn let_run(turns: u64) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

/// Runs one seed; the error says which promise was broken.
async fn simulate(seed: u64, checks_fences: bool) -> Result<(), String> {
    let mut dice = Dice(seed);
    let ledger = Arc::new(EffectLedger::default());
    let first_store = FaultyStore::slow(dice.roll(4) as usize);
    first_store.inner.check_fences(checks_fences);
    let second_store = FaultyStore::joining(&first_store, dice.roll(4) as usize);
    let first = node("first", first_store.clone(), &ledger, 0, dice.roll(60));
    let second = node("second", second_store.clone(), &ledger, 1_000_000, dice.roll(20));

    let mut runs = Vec::new();
    for number in 0..=dice.roll(3) {
        let strategy = STRATEGIES[dice.roll(4) as usize];
        let start = run_of(Some(&format!("t{number}")), &format!("r{number}"), "go", plan(strategy));
        let run = first.ask(&on_runs(1), start).await.map_err(|error| format!("start: {error}"))?;
        runs.push((run, first.follow(run).await));
        let_run(dice.roll(30)).await;
    }
    let_run(dice.roll(120)).await;

    // The first is fenced while it works; it goes on, for it does not know.
    first_store.inner.fence(crate::store::Store::tenure(&*first_store));
    let committed_before = first_store.journal().len();
    let mut recorded = HashSet::new();
    for (run, _) in &runs {
        for record in second_store.events(&Topic::Run(*run), Seq::FIRST, 10_000).await.map_err(|e| e.to_string())? {
            if let Event::ToolFinished { call, .. } = &record.event {
                recorded.insert(call.to_string());
            }
        }
    }
    let done_before: Vec<_> = ledger.effects.lock().unwrap().clone();
    let_run(dice.roll(20)).await;
    second.board.adopt().await.map_err(|error| format!("adopt: {error}"))?;

    // Followers of the first see their runs to the end, whoever works on them.
    for (run, followed) in runs {
        let mut events = followed;
        let mut expected = Seq::FIRST;
        let mut ends = 0;
        let read = async {
            while let Some(record) = events.next().await {
                let record = record.map_err(|error| format!("run {run}: a follower was cut: {error}"))?;
                if record.seq != expected {
                    return Err(format!("run {run}: {} follows {expected}", record.seq));
                }
                expected = record.last_seq().next();
                ends += usize::from(record.event.ends_topic());
            }
            Ok(())
        };
        let patience = tokio::time::timeout(Duration::from_secs(3600), read);
        patience.await.map_err(|_| format!("run {run} never ended"))??;
        if ends != 1 {
            return Err(format!("run {run} ended {ends} times"));
        }
        let row = second_store.run(run).await.map_err(|error| error.to_string())?.ok_or("the run is gone")?;
        if row.state == RunState::Running {
            return Err(format!("run {run} is still open"));
        }
    }
    let_run(200).await;
    let late = first_store.journal().len() - committed_before;
    if late > 0 {
        return Err(format!("the fenced process committed {late} batches"));
    }
    let effects = ledger.effects.lock().unwrap().clone();
    let repeated = effects.iter().filter(|(board, call)| *board == "second" && recorded.contains(call));
    if let Some((_, call)) = repeated.into_iter().next() {
        return Err(format!("call {call} was on record and was made again"));
    }
    let mut by_second: HashMap<&str, usize> = HashMap::new();
    for (_, call) in effects.iter().filter(|(board, _)| *board == "second") {
        *by_second.entry(call).or_default() += 1;
    }
    if let Some((call, times)) = by_second.into_iter().find(|(_, times)| *times > 1) {
        return Err(format!("the second process made call {call} {times} times"));
    }
    // What the first still did was begun before it could learn of the fence: one call a run at most, and never one whose
    // intent it could not record.
    let begun_after = effects.iter().filter(|(board, _)| *board == "first").count()
        - done_before.iter().filter(|(board, _)| *board == "first").count();
    if begun_after > 8 {
        return Err(format!("the fenced process began {begun_after} calls"));
    }
    Ok(())
}

fn on_paused_time<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(work)
}

fn check_seeds(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        if let Err(broken) = on_paused_time(simulate(seed, true)) {
            panic!("seed {seed}: {broken}");
        }
    }
}

// A thousand seeds, side by side.
#[test]
fn seeds_0_to_250() {
    check_seeds(0..250);
}

#[test]
fn seeds_250_to_500() {
    check_seeds(250..500);
}

#[test]
fn seeds_500_to_750() {
    check_seeds(500..750);
}

#[test]
fn seeds_750_to_1000() {
    check_seeds(750..1000);
}

#[test]
fn without_the_fence_check_seeds_fail() {
    let failed = (0..100).filter(|seed| on_paused_time(simulate(*seed, false)).is_err()).count();
    assert!(failed > 20, "only {failed} of 100 seeds noticed that fenced processes can write");
}
