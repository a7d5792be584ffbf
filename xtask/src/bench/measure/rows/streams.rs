//! How many events pass through per second when 32 answers stream as fast as they can, and whether all arrive.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::Row;
use crate::bench::measure::chat::Chat;
use crate::bench::measure::direct::Direct;
use crate::bench::measure::env::Env;
use crate::bench::measure::figure::{Figure, Target, Unit};
use crate::bench::measure::load::{self, Effort, Side};
use crate::bench::stats::Sample;

#[derive(Debug)]
pub(super) struct Streams;

/// Each piece in a chunk of its own, as models send them, and as a proxy that gathers them would.
const SENT_ALONE: &str = "instant-5000";
const PACKED: &str = "packed-5000";
const PIECES: u64 = 5000;
const STREAMS: usize = 32;
const ROUNDS: usize = 2;

/// What a number of answers came to.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    events: u64,
    /// Pieces of text that never came, and numbers that did not follow each other.
    lost: u64,
}

impl Row for Streams {
    fn name(&self) -> &'static str {
        "streams"
    }

    fn about(&self) -> &'static str {
        "events per second of 32 answers of 5,000 pieces, and whether any is lost"
    }

    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>> {
        let stub = env.stub()?;
        let server = env.server(stub.address, &[SENT_ALONE, PACKED])?;
        let patience = env.span() * 2 + Duration::from_secs(120);
        let mut total = Tally::default();
        let mut figures = Vec::new();
        for (model, name, target) in [
            (SENT_ALONE, "streamed events, 32 streams", Target::AtLeast(600_000.0)),
            (PACKED, "the same, packed by a proxy", Target::None),
        ] {
            let work = compare(server.gateway, stub.address, model, Effort::of(server.pid()), env.span());
            let Rates { product, baseline, tally, effort } = env.block_on(patience, work)?;
            figures.push(
                Figure::new(name, Sample::new(product)?.median(), Unit::PerSecond)
                    .beside(Sample::new(baseline)?.median())
                    .target(target)
                    .note(format!("server time {:.2} µs an event; baseline: direct reads", effort.each())),
            );
            total = total.plus(tally);
        }
        figures.push(
            Figure::new("streamed events lost", total.lost as f64, Unit::Count)
                .target(Target::AtMost(0.0))
                .note(format!("of {}; numbers follow each other in every stream", total.events)),
        );
        Ok(figures)
    }
}

/// Events per second, round by round.
struct Rates {
    product: Vec<f64>,
    baseline: Vec<f64>,
    tally: Tally,
    effort: Effort,
}

async fn compare(
    gateway: SocketAddr,
    stub: SocketAddr,
    model: &'static str,
    effort: Effort,
    span: Duration,
) -> anyhow::Result<Rates> {
    let mut chats = load::open(STREAMS, move |number| Chat::open(gateway, model, format!("user-{number}"))).await?;
    let mut direct = load::open(STREAMS, move |_| Direct::open(stub, model)).await?;
    let mut rates = Rates { product: Vec::new(), baseline: Vec::new(), tally: Tally::default(), effort };
    for side in load::in_turn(ROUNDS) {
        let until = Instant::now() + span / ROUNDS as u32;
        match side {
            Side::Product => {
                let before = rates.effort.clock();
                let done = load::all(&mut chats, move |chat| chat_until(chat, until)).await?;
                let tally = done.results.into_iter().fold(Tally::default(), Tally::plus);
                rates.effort.add(before, tally.events);
                rates.product.push(tally.events as f64 / done.took.as_secs_f64());
                rates.tally = rates.tally.plus(tally);
            }
            Side::Baseline => {
                let done = load::all(&mut direct, move |direct| read_until(direct, until)).await?;
                rates.baseline.push(done.results.iter().sum::<u64>() as f64 / done.took.as_secs_f64());
            }
        }
    }
    Ok(rates)
}

impl Tally {
    fn plus(self, other: Tally) -> Tally {
        Tally { events: self.events + other.events, lost: self.lost + other.lost }
    }
}

async fn chat_until(mut chat: Chat, until: Instant) -> anyhow::Result<(Chat, Tally)> {
    let mut tally = Tally::default();
    while Instant::now() < until {
        let heard = chat.turn().await?;
        tally = tally.plus(Tally { events: heard.events, lost: heard.gaps + PIECES.abs_diff(heard.texts) });
    }
    Ok((chat, tally))
}

async fn read_until(mut direct: Direct, until: Instant) -> anyhow::Result<(Direct, u64)> {
    let mut pieces = 0;
    while Instant::now() < until {
        pieces += direct.answer(|_| {}).await?;
    }
    Ok((direct, pieces))
}
