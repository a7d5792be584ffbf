//! Whether a turn and a replay take longer when much is stored.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::Row;
use crate::bench::measure::chat::Chat;
use crate::bench::measure::env::Env;
use crate::bench::measure::figure::{Figure, Target, Unit};
use crate::bench::measure::load::{self, Side};
use crate::bench::measure::server::Server;
use crate::bench::stats::Sample;
use crate::output::say;

#[derive(Debug)]
pub(super) struct Growth;

const MODEL: &str = "instant-8";
/// The turn that is told again; long enough that reading it matters.
const REPLAYED: &str = "instant-1000";
/// Records a short turn leaves at the least: its start, its text, its usage and its end.
const RECORDS_A_TURN: u64 = 4;
const CONNECTIONS: usize = 32;
/// Sessions that each connection spreads its turns over.
const SESSIONS: u64 = 64;
const ROUNDS: usize = 20;
const TURNS_A_ROUND: usize = 25;
const REPLAYS_A_ROUND: usize = 10;

/// One of the two servers that are compared.
struct Subject {
    chat: Chat,
    /// The id of its long turn.
    replayed: String,
    turns: Vec<f64>,
    replays: Vec<f64>,
}

impl Row for Growth {
    fn name(&self) -> &'static str {
        "growth"
    }

    fn about(&self) -> &'static str {
        "time of a turn and of a replay with much stored, beside an almost empty store"
    }

    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>> {
        let stub = env.stub()?;
        let empty = env.server(stub.address, &[MODEL, REPLAYED])?;
        let folder = env.folder()?;
        let full = env.server_in(&folder, stub.address, &[MODEL, REPLAYED])?;
        let turns = env.options.growth.div_ceil(RECORDS_A_TURN);
        let patience = Duration::from_secs(120 + turns / 50);
        let (empty, full) = env.block_on(patience, async {
            let in_empty = long_turn(&empty).await?;
            // Before the rest, so that it is buried under it.
            let in_full = long_turn(&full).await?;
            say!("storing {turns} turns");
            fill(&full, turns).await?;
            compare(Subject::open(&empty, in_empty).await?, Subject::open(&full, in_full).await?).await
        })?;
        // Read while the server runs, as any other program may.
        let stored = match count_events(&folder.join("data").join("patchboard.db")) {
            Some(count) => format!("{count} stored events"),
            None => format!("at least {} stored events", turns * RECORDS_A_TURN),
        };
        let figure = |name: &str, full: Vec<f64>, empty: Vec<f64>| -> anyhow::Result<Figure> {
            let full = Sample::new(full)?;
            Ok(Figure::new(name, full.median(), Unit::Milliseconds)
                .beside(Sample::new(empty)?.median())
                .target(Target::RatioAtMost(1.1))
                .note(format!("{stored}; median of {}; baseline: almost empty store", full.count())))
        };
        Ok(vec![
            figure("turn with a full store, p50", full.turns, empty.turns)?,
            figure("replay of 1,000 pieces with a full store, p50", full.replays, empty.replays)?,
        ])
    }
}

/// The id of a long turn that is stored and over.
async fn long_turn(server: &Server) -> anyhow::Result<String> {
    let mut chat = Chat::open(server.gateway, REPLAYED, "replayed").await?;
    chat.turn().await?;
    Ok(chat.last_id())
}

impl Subject {
    async fn open(server: &Server, replayed: String) -> anyhow::Result<Subject> {
        let chat = Chat::open(server.gateway, MODEL, "measured").await?;
        Ok(Subject { chat, replayed, turns: Vec::new(), replays: Vec::new() })
    }

    async fn measure(&mut self) -> anyhow::Result<()> {
        for _ in 0..TURNS_A_ROUND {
            let started = Instant::now();
            self.chat.turn().await?;
            self.turns.push(started.elapsed().as_secs_f64() * 1e3);
        }
        for _ in 0..REPLAYS_A_ROUND {
            let started = Instant::now();
            let heard = self.chat.replay(&self.replayed).await?;
            self.replays.push(started.elapsed().as_secs_f64() * 1e3);
            anyhow::ensure!(heard.texts == 1000 && heard.gaps == 0, "a turn was not told again as it was: {heard:?}");
        }
        Ok(())
    }
}

async fn fill(server: &Server, turns: u64) -> anyhow::Result<()> {
    let gateway = server.gateway;
    let mut chats = load::open(CONNECTIONS, move |number| Chat::open(gateway, MODEL, format!("user-{number}"))).await?;
    let number = std::sync::atomic::AtomicU64::new(0);
    let each = turns.div_ceil(CONNECTIONS as u64);
    let done = load::all(&mut chats, |mut chat| {
        let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        async move {
            for turn in 0..each {
                chat.move_to(format!("user-{number}-{}", turn % SESSIONS));
                chat.turn().await?;
            }
            Ok((chat, ()))
        }
    });
    done.await.map(drop)
}

async fn compare(mut empty: Subject, mut full: Subject) -> anyhow::Result<(Subject, Subject)> {
    for subject in [&mut empty, &mut full] {
        subject.measure().await?;
        // That was to warm up.
        subject.turns.clear();
        subject.replays.clear();
    }
    for side in load::in_turn(ROUNDS) {
        match side {
            Side::Product => full.measure().await?,
            Side::Baseline => empty.measure().await?,
        }
    }
    Ok((empty, full))
}

/// The rows themselves, where Python is there to count them.
fn count_events(database: &Path) -> Option<u64> {
    const SCRIPT: &str = "import sqlite3, sys\n\
        print(sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM events').fetchone()[0])";
    let output = Command::new("python3").args(["-c", SCRIPT]).arg(database).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}
