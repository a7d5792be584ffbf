//! How much later a token reaches the client than it would without a server in between.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;

use super::Row;
use crate::bench::measure::chat::Chat;
use crate::bench::measure::clock;
use crate::bench::measure::direct::Direct;
use crate::bench::measure::env::Env;
use crate::bench::measure::figure::{Figure, Target, Unit};
use crate::bench::measure::load::{self, Side};
use crate::bench::stats::Sample;

#[derive(Debug)]
pub(super) struct Tokens;

const MODEL: &str = "paced-100-2ms";
const PIECES: usize = 100;
/// Answers of each stream, on each side.
const ROUNDS: usize = 10;

impl Row for Tokens {
    fn name(&self) -> &'static str {
        "tokens"
    }

    fn about(&self) -> &'static str {
        "delay of each token of a paced answer, beside reading the model directly"
    }

    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>> {
        let stub = env.stub()?;
        let server = env.server(stub.address, &[MODEL])?;
        let mut figures = Vec::new();
        for streams in [1, 32] {
            let work = delays(server.gateway, stub.address, streams);
            let (through, direct) = env.block_on(Duration::from_secs(120), work)?;
            // A median is for a stream that has the machine to itself; of many at once the slow ones matter.
            let targets = if streams == 1 {
                [(50.0, Target::AtMost(0.1)), (99.0, Target::AtMost(0.5))]
            } else {
                [(50.0, Target::None), (99.0, Target::AtMost(3.0))]
            };
            for (percent, target) in targets {
                let (through_it, directly) = (through.percentile(percent), direct.percentile(percent));
                let name = format!(
                    "added delay of a token, {streams} stream{}, p{percent}",
                    if streams == 1 { "" } else { "s" }
                );
                figures.push(Figure::new(name, through_it - directly, Unit::Milliseconds).target(target).note(
                    format!(
                        "{through_it:.3} ms through the gateway, {directly:.3} ms directly; {} tokens each",
                        through.count()
                    ),
                ));
            }
        }
        Ok(figures)
    }
}

/// In milliseconds, through the gateway and directly.
async fn delays(gateway: SocketAddr, stub: SocketAddr, streams: usize) -> anyhow::Result<(Sample, Sample)> {
    let mut chats =
        load::open(streams, move |number| Chat::open(gateway, MODEL, format!("user-{streams}-{number}"))).await?;
    let mut direct = load::open(streams, move |_| Direct::open(stub, MODEL)).await?;
    let (mut through_it, mut directly) = (Vec::new(), Vec::new());
    // The first answer opens connections and fills caches; it is not what a token costs.
    for (answer, side) in load::in_turn(ROUNDS + 1).enumerate() {
        let (delays, into) = match side {
            Side::Product => (load::all(&mut chats, hear_chat).await?, &mut through_it),
            Side::Baseline => (load::all(&mut direct, hear_direct).await?, &mut directly),
        };
        if answer >= 2 {
            into.extend(delays.results.into_iter().flatten());
        }
    }
    Ok((Sample::new(through_it)?, Sample::new(directly)?))
}

async fn hear_chat(mut chat: Chat) -> anyhow::Result<(Chat, Vec<f64>)> {
    let mut delays = Vec::with_capacity(PIECES);
    let now = clock::nanoseconds;
    let hear = |sent: &[u8], delays: &mut Vec<f64>| delays.extend(delay(sent, now()));
    chat.turn_with(|told| {
        if told.event == b"text" {
            let quoted = told.data.strip_prefix(b"\"").and_then(|data| data.strip_suffix(b"\""));
            hear(quoted.unwrap_or_default(), &mut delays);
        }
    })
    .await?;
    complete(delays).map(|delays| (chat, delays))
}

async fn hear_direct(mut direct: Direct) -> anyhow::Result<(Direct, Vec<f64>)> {
    let mut delays = Vec::with_capacity(PIECES);
    direct.answer(|sent| delays.extend(delay(sent, clock::nanoseconds()))).await?;
    complete(delays).map(|delays| (direct, delays))
}

/// Milliseconds from the time a piece of text is.
fn delay(sent: &[u8], now: u64) -> Option<f64> {
    let sent: u64 = std::str::from_utf8(sent).ok()?.parse().ok()?;
    Some(now.saturating_sub(sent) as f64 / 1e6)
}

fn complete(delays: Vec<f64>) -> anyhow::Result<Vec<f64>> {
    (delays.len() == PIECES).then_some(delays).context("an answer was not told as it was")
}
