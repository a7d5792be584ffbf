//! Complete chat turns through the store, as the board writes them: two boundary commits each.
//!
//! `store_bench [windows] [turns per window] [callers] [sessions per caller]` prints turns per second and processor
//! time per turn for each window, so that growth can be seen.

use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use jiff::Timestamp;
use patchboard_core::event::{Envelope, Event, ModelCallUsage, RunOutcome, TextChunks, Topic};
use patchboard_core::id::{RunId, Seq, SessionKey};
use patchboard_core::model::{ModelMessage, TokenCount};
use patchboard_core::run_spec::StrategyKind;
use patchboard_core::store::{
    BudgetScope, ModelCallRow, NewTurn, RunRequests, RunRow, RunState, Store, StoreError, StoreWrite, UsageRow,
    WriteBatch,
};
use patchboard_store::{SqliteOptions, SqliteStore};
use uuid::Uuid;

const PROMPT: &str = "How do I keep tomatoes from splitting after rain?";
const PIECE: &str = " water them evenly,";
const PIECES: usize = 24;
const DELTA_PIECES: u64 = 8;

struct Turns {
    clock: AtomicU64,
    left: AtomicU64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<u64> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let argument = |index: usize, otherwise| arguments.get(index).copied().unwrap_or(otherwise);
    let (windows, turns) = (argument(0, 3), argument(1, 10_000));
    let (callers, sessions) = (argument(2, 32), argument(3, 1));
    let folder = tempfile::tempdir_in(".")?;
    let path = folder.path().join("bench.db");
    let mut out = std::io::stdout().lock();

    let opening = Instant::now();
    let store = Arc::new(SqliteStore::open(SqliteOptions::new(&path))?);
    let took = opening.elapsed().as_secs_f64() * 1e3;
    writeln!(out, "opened a fresh database in {took:.1} ms, {} KiB resident", resident()? >> 10)?;

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let state = Arc::new(Turns { clock: AtomicU64::new(1_700_000_000_000_000), left: AtomicU64::new(0) });
    for window in 1..=windows {
        state.left.store(turns, Ordering::Relaxed);
        let (started, before) = (Instant::now(), processor_time()?);
        runtime.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            for caller in 0..callers {
                tasks.spawn(talk(store.clone(), state.clone(), caller, sessions));
            }
            tasks.join_all().await.into_iter().collect::<Result<Vec<()>, StoreError>>()
        })?;
        let (elapsed, after) = (started.elapsed().as_secs_f64(), processor_time()?);
        let per_turn = |nanoseconds: u64| nanoseconds as f64 / 1e3 / turns as f64;
        writeln!(
            out,
            "window {window}: {:.0} turns/s, {:.0} µs processor per turn ({:.0} µs writer thread), {} MiB on disk, {} MiB resident",
            turns as f64 / elapsed,
            per_turn(after.process - before.process),
            per_turn(after.writer - before.writer),
            std::fs::metadata(&path)?.len() >> 20,
            resident()? >> 20,
        )?;
    }
    let deltas = turns * 4;
    let started = Instant::now();
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..callers {
            tasks.spawn(stream(store.clone(), deltas / callers));
        }
        tasks.join_all().await.into_iter().collect::<Result<Vec<()>, StoreError>>()
    })?;
    let rate = (deltas / callers * callers) as f64 / started.elapsed().as_secs_f64();
    writeln!(out, "deltas: {rate:.0} commits/s of {DELTA_PIECES} pieces each")?;

    let closing = Instant::now();
    runtime.block_on(store.close())?;
    writeln!(out, "closed in {:.1} ms", closing.elapsed().as_secs_f64() * 1e3)?;
    let opening = Instant::now();
    let store = SqliteStore::open(SqliteOptions::new(&path))?;
    writeln!(out, "opened it again in {:.1} ms", opening.elapsed().as_secs_f64() * 1e3)?;
    runtime.block_on(store.close())?;
    Ok(())
}

async fn talk(store: Arc<SqliteStore>, state: Arc<Turns>, caller: u64, sessions: u64) -> Result<(), StoreError> {
    let mut request_count = 0;
    while state.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        let session = SessionKey::conversation(
            "main",
            "web",
            &format!("account-{caller}"),
            &(request_count % sessions).to_string(),
        );
        turn(&*store, &state, session).await?;
        request_count += 1;
    }
    Ok(())
}

/// Pieces of an answer, committed as they come.
async fn stream(store: Arc<SqliteStore>, commits: u64) -> Result<(), StoreError> {
    let topic = Topic::Run(RunId(Uuid::now_v7()));
    let pieces: TextChunks = std::iter::repeat_n(PIECE, DELTA_PIECES as usize).collect();
    for commit in 0..commits {
        let seq = Seq(commit * DELTA_PIECES + 1);
        let event = Event::AnswerText(pieces.clone());
        let record = Envelope { topic: topic.clone(), seq, at: Timestamp::UNIX_EPOCH, node: None, event };
        store.commit(WriteBatch::delta(vec![StoreWrite::Event(Arc::new(record))])).await?;
    }
    Ok(())
}

async fn turn(store: &dyn Store, state: &Turns, session: SessionKey) -> Result<(), StoreError> {
    let run = RunId(Uuid::now_v7());
    let micros = state.clock.fetch_add(100, Ordering::Relaxed);
    let at = Timestamp::from_microsecond(micros.cast_signed()).unwrap_or_default();
    let event = |seq: u64, event: Event| {
        StoreWrite::Event(Arc::new(Envelope { topic: Topic::Run(run), seq: Seq(seq), at, node: None, event }))
    };
    let (agent, provider, model) = (Arc::from("main"), Arc::from("anthropic"), Arc::from("claude-sonnet"));
    let open = vec![
        event(1, Event::RunStarted { session: session.clone(), agent: Arc::clone(&agent), chat: None }),
        StoreWrite::OpenRun(RunRow {
            run,
            session: session.clone(),
            principal: "token:main".into(),
            client_id: Uuid::new_v4().to_string().into(),
            surface: "gateway".into(),
            agent: "main".into(),
            strategy: StrategyKind::React,
            started_at: at,
            input: PROMPT.into(),
            state: RunState::Running,
            requests: RunRequests::default(),
        }),
        StoreWrite::OpenModelCall(ModelCallRow {
            run,
            number: 1,
            session: session.clone(),
            agent: Arc::clone(&agent),
            provider: Arc::clone(&provider),
            model: Arc::clone(&model),
            estimated_input: 40,
            reserved: 1064,
            first_seq: Seq(2),
            node: None,
            key: None,
            at,
        }),
    ];
    store.commit(WriteBatch::boundary(open)).await?;

    let pieces: TextChunks = std::iter::repeat_n(PIECE, PIECES).collect();
    let answer = pieces.text().to_owned();
    let tokens = TokenCount { input: 40, output: 120 };
    let note = ModelCallUsage { tokens, provider: Arc::clone(&provider), model: Arc::clone(&model), estimated: false };
    let text_end = 1 + PIECES as u64;
    let date = at.to_zoned(jiff::tz::TimeZone::UTC).date();
    let close = vec![
        event(2, Event::AnswerText(pieces)),
        event(text_end + 1, Event::ModelUsage(note)),
        event(text_end + 2, Event::RunEnded { outcome: RunOutcome::Completed }),
        StoreWrite::SettleModelCall(UsageRow {
            run,
            number: 1,
            at,
            session: session.clone(),
            agent: Arc::clone(&agent),
            provider,
            model,
            tokens,
            cost_nanousd: 1_920_000,
            estimated: false,
            scopes: vec![
                BudgetScope::Session(session.clone()),
                BudgetScope::Day(date),
                BudgetScope::Month { year: date.year(), month: date.month() },
                BudgetScope::AgentDay(agent, date),
            ],
        }),
        StoreWrite::AddTurn(NewTurn {
            session,
            run,
            at,
            messages: vec![ModelMessage::user(PROMPT), ModelMessage::assistant(answer)],
        }),
        StoreWrite::CloseRun { run, outcome: RunOutcome::Completed, at },
    ];
    store.commit(WriteBatch::boundary(close)).await
}

struct ProcessorTime {
    process: u64,
    writer: u64,
}

/// Nanoseconds of processor time used so far, by all threads and by the writer alone.
fn processor_time() -> Result<ProcessorTime, Box<dyn Error>> {
    let mut time = ProcessorTime { process: 0, writer: 0 };
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        let used = read_first_number(&task.join("schedstat"))?;
        time.process += used;
        if std::fs::read_to_string(task.join("comm"))?.trim() == "store-writer" {
            time.writer += used;
        }
    }
    Ok(time)
}

fn resident() -> Result<u64, Box<dyn Error>> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    Ok(statm.split(' ').nth(1).unwrap_or_default().parse::<u64>()? * 4096)
}

fn read_first_number(path: &Path) -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string(path)?;
    Ok(text.split(' ').next().unwrap_or_default().parse()?)
}
