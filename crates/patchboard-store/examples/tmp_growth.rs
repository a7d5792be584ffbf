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
use patchboard_core::event::{Envelope, Event, Pieces, RunOutcome, Topic, UsageNote};
use patchboard_core::id::{RunId, Seq, SessionKey};
use patchboard_core::model::{Message, TokenCount};
use patchboard_core::port::{
    Batch, BudgetScope, Durability, ModelCallRow, NewTurn, RunRow, RunState, Store, StoreError, UsageRow, Write,
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
    let folder = tempfile::tempdir_in(".")?;
    let mut out = std::io::stdout().lock();
    let big = Arc::new(SqliteStore::open(SqliteOptions::new(folder.path().join("big.db")))?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let state = Arc::new(Turns { clock: AtomicU64::new(1_700_000_000_000_000), left: AtomicU64::new(0) });
    let go = |store: &Arc<SqliteStore>, turns: u64| -> Result<(f64, f64), Box<dyn Error>> {
        state.left.store(turns, Ordering::Relaxed);
        let (started, before) = (Instant::now(), processor_time()?);
        runtime.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            for caller in 0..32 { tasks.spawn(talk(store.clone(), state.clone(), caller, 1)); }
            tasks.join_all().await.into_iter().collect::<Result<Vec<()>, StoreError>>()
        })?;
        Ok((started.elapsed().as_secs_f64() / turns as f64 * 1e6, (processor_time()?.process - before.process) as f64 / 1e3 / turns as f64))
    };
    go(&big, 250_000)?;
    let mut sums = [0.0; 4];
    for round in 0..15 {
        let small = Arc::new(SqliteStore::open(SqliteOptions::new(folder.path().join(format!("small{round}.db"))))?);
        go(&small, 1000)?; 
        for _ in 0..2 {
            let (w, c) = go(&small, 2000)?; sums[0] += w; sums[1] += c;
            let (w, c) = go(&big, 2000)?; sums[2] += w; sums[3] += c;
        }
        runtime.block_on(small.close())?;
    }
    let [sw, sc, bw, bc] = sums.map(|x| x / 30.0);
    writeln!(out, "small: {sw:.0} us wall {sc:.0} us cpu; 1M events: {bw:.0} us wall {bc:.0} us cpu; ratio wall {:.3} cpu {:.3}", bw / sw, bc / sc)?;
    let _ = resident()?;
    Ok(())
}

async fn talk(store: Arc<SqliteStore>, state: Arc<Turns>, caller: u64, sessions: u64) -> Result<(), StoreError> {
    let mut said = 0;
    while state.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        let session =
            SessionKey::conversation("main", "web", &format!("account-{caller}"), &(said % sessions).to_string());
        turn(&*store, &state, session).await?;
        said += 1;
    }
    Ok(())
}

/// Pieces of an answer, committed as they come.
async fn stream(store: Arc<SqliteStore>, commits: u64) -> Result<(), StoreError> {
    let topic = Topic::Run(RunId(Uuid::now_v7()));
    let pieces: Pieces = std::iter::repeat_n(PIECE, DELTA_PIECES as usize).collect();
    for commit in 0..commits {
        let seq = Seq(commit * DELTA_PIECES + 1);
        let event = Event::Text(pieces.clone());
        let record = Envelope { topic: topic.clone(), seq, at: Timestamp::UNIX_EPOCH, event };
        store.commit(Batch { durability: Durability::Delta, writes: vec![Write::Event(Arc::new(record))] }).await?;
    }
    Ok(())
}

async fn turn(store: &dyn Store, state: &Turns, session: SessionKey) -> Result<(), StoreError> {
    let run = RunId(Uuid::now_v7());
    let micros = state.clock.fetch_add(100, Ordering::Relaxed);
    let at = Timestamp::from_microsecond(micros.cast_signed()).unwrap_or_default();
    let event =
        |seq: u64, event: Event| Write::Event(Arc::new(Envelope { topic: Topic::Run(run), seq: Seq(seq), at, event }));
    let (agent, provider, model) = (Arc::from("main"), Arc::from("anthropic"), Arc::from("claude-sonnet"));
    let open = vec![
        event(1, Event::RunStarted { session: session.clone(), agent: Arc::clone(&agent) }),
        Write::OpenRun(RunRow {
            run,
            session: session.clone(),
            principal: "token:main".into(),
            client_id: Uuid::new_v4().to_string().into(),
            surface: "gateway".into(),
            started_at: at,
            input: PROMPT.into(),
            state: RunState::Running,
        }),
        Write::OpenModelCall(ModelCallRow {
            run,
            number: 1,
            session: session.clone(),
            agent: Arc::clone(&agent),
            provider: Arc::clone(&provider),
            model: Arc::clone(&model),
            estimated_input: 40,
            reserved: 1064,
            first_seq: Seq(2),
            at,
        }),
    ];
    store.commit(Batch { durability: Durability::Boundary, writes: open }).await?;

    let pieces: Pieces = std::iter::repeat_n(PIECE, PIECES).collect();
    let answer = pieces.text().to_owned();
    let tokens = TokenCount { input: 40, output: 120 };
    let note = UsageNote { tokens, provider: Arc::clone(&provider), model: Arc::clone(&model), estimated: false };
    let text_end = 1 + PIECES as u64;
    let date = at.to_zoned(jiff::tz::TimeZone::UTC).date();
    let close = vec![
        event(2, Event::Text(pieces)),
        event(text_end + 1, Event::Usage(note)),
        event(text_end + 2, Event::RunEnded { outcome: RunOutcome::Completed }),
        Write::SettleModelCall(UsageRow {
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
        Write::Turn(NewTurn { session, run, at, messages: vec![Message::user(PROMPT), Message::assistant(answer)] }),
        Write::CloseRun { run, outcome: RunOutcome::Completed, at },
    ];
    store.commit(Batch { durability: Durability::Boundary, writes: close }).await
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
