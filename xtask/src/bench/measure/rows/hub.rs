//! How soon an utterance is with its app when a hundred are connected, beside a server that only passes it on.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Row;
use crate::bench::measure::chat::find;
use crate::bench::measure::env::Env;
use crate::bench::measure::figure::{Figure, Target, Unit};
use crate::bench::measure::load::{self, Side};
use crate::bench::measure::ws::{Socket, client_frame};
use crate::bench::stats::Sample;

#[derive(Debug)]
pub(super) struct Hub;

/// One app for each, which says that it is about just this.
const THINGS: &str = "anchor apple arrow balloon banana basket bicycle blanket bottle bridge broom bucket butter \
    button cabbage camera candle carpet caravan castle chain cheese cherry chimney clock cloud copper comb compass \
    coral cotton cradle crystal curtain desert diamond dolphin dragon drum eagle engine falcon feather fence fiddle \
    flute forest fountain garlic giraffe glove guitar hammer harbour helmet honey island ivory jacket jungle kettle \
    ladder lantern lemon lizard magnet marble meadow mirror monkey mushroom needle ocean olive onion orchid oyster \
    paddle parrot peach pencil pulley piano pigeon pillow planet pumpkin rabbit ribbon river rocket saddle sailor \
    scissors shovel spider spoon statue sunflower turnip";
/// Milliseconds that one of a hundred may take.
const MOST_OF_THE_SLOWEST: f64 = 2.0;
const ROUNDS: usize = 20;
const MESSAGES_A_ROUND: usize = 50;
/// Nothing takes so long unless it went elsewhere.
const ARRIVAL: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(300);

impl Row for Hub {
    fn name(&self) -> &'static str {
        "hub"
    }

    fn about(&self) -> &'static str {
        "utterance in to delivery out with 100 apps, by name and by the local matcher, beside bare passing on"
    }

    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>> {
        let stub = env.stub()?;
        let server = env.server(stub.address, &[])?;
        let echo = env.echo()?;
        let times = env.block_on(PATIENCE, compare(server.hub, echo.address))?;
        let bare = Sample::new(times.bare)?.median();
        let mut figures = Vec::new();
        for (way, times, most) in [("by name", times.direct, 0.5), ("by the local matcher", times.matched, 0.7)] {
            let times = Sample::new(times)?;
            let note = format!(
                "of {}; from connecting to POST /v1/messages to the app's frame, on record before; baseline: a bare \
                 server that passes the body on, its median",
                times.count()
            );
            for (percent, most) in [(50.0, most), (99.0, MOST_OF_THE_SLOWEST)] {
                let name = format!("hub delivery {way}, 100 apps, p{percent}");
                figures.push(
                    Figure::new(name, times.percentile(percent), Unit::Milliseconds)
                        .beside(bare)
                        .target(Target::AtMost(most))
                        .note(note.clone()),
                );
            }
        }
        Ok(figures)
    }
}

/// In milliseconds.
#[derive(Debug, Default)]
struct Times {
    direct: Vec<f64>,
    matched: Vec<f64>,
    bare: Vec<f64>,
}

async fn compare(hub: SocketAddr, bare: SocketAddr) -> anyhow::Result<Times> {
    let things: Vec<&str> = THINGS.split_ascii_whitespace().collect();
    ensure!(things.len() == 100, "there are {} things", things.len());
    let mut apps = Vec::with_capacity(things.len());
    for thing in &things {
        apps.push(App::register(hub, thing).await?);
    }
    let mut listener = Socket::connect(bare, "/listen").await?;
    let mut times = Times::default();
    let mut next = (0..things.len()).cycle();
    // The first round opens files and fills caches.
    for (turn, side) in load::in_turn(ROUNDS + 1).enumerate() {
        for _ in 0..MESSAGES_A_ROUND {
            let number = next.next().unwrap_or_default();
            let (Some(thing), Some(app)) = (things.get(number), apps.get_mut(number)) else { continue };
            let question = format!("ask the {thing}keeper about the {thing}");
            match side {
                Side::Product => {
                    times.direct.push(app.receive(hub, &format!("{thing}: mend the {thing}"), true).await?);
                    times.matched.push(app.receive(hub, &question, false).await?);
                }
                Side::Baseline => {
                    let started = Instant::now();
                    let mut asking = post(bare, "/say", &format!("{{\"text\":\"{question}\"}}")).await?;
                    listener.next().await?;
                    times.bare.push(started.elapsed().as_secs_f64() * 1e3);
                    finish(&mut asking).await?;
                }
            }
        }
        if turn == 1 {
            times = Times::default();
        }
    }
    Ok(times)
}

#[derive(Debug)]
struct App {
    socket: Socket,
}

impl App {
    async fn register(hub: SocketAddr, thing: &str) -> anyhow::Result<App> {
        let mut socket = Socket::connect(hub, "/").await?;
        let registration = format!(
            r#"{{"type":"registration","payload":{{"name":"{thing}","description":"I look after the {thing} and its {thing}keeper."}}}}"#
        );
        socket.send(&client_frame(&registration)).await?;
        let answer = socket.next().await?;
        ensure!(find(answer, b"\"success\":true").is_some(), "not registered: {}", String::from_utf8_lossy(answer));
        Ok(App { socket })
    }

    /// How long the words take to get here; acknowledged, so that nothing is sent twice.
    async fn receive(&mut self, hub: SocketAddr, text: &str, is_direct: bool) -> anyhow::Result<f64> {
        const ID: &[u8] = b"\"id\":\"";
        let started = Instant::now();
        let mut asking = post(hub, "/v1/messages", &format!("{{\"text\":\"{text}\"}}")).await?;
        let arriving = tokio::time::timeout(ARRIVAL, self.socket.next()).await;
        let frame = arriving.with_context(|| format!("{text:?} did not arrive"))??;
        let took = started.elapsed().as_secs_f64() * 1e3;
        let direct: &[u8] = if is_direct { b"\"directRouted\":true" } else { b"\"directRouted\":false" };
        ensure!(find(frame, direct).is_some(), "not routed as meant: {}", String::from_utf8_lossy(frame));
        let id = find(frame, ID).and_then(|at| frame.get(at + ID.len()..)).unwrap_or_default();
        let id = id.split(|byte| *byte == b'"').next().unwrap_or_default();
        let ack = format!(
            r#"{{"type":"response","payload":{{"messageId":"{}","type":"ack","payload":{{}}}}}}"#,
            String::from_utf8_lossy(id)
        );
        self.socket.send(&client_frame(&ack)).await?;
        finish(&mut asking).await?;
        Ok(took)
    }
}

/// Sends the request; the answer is still to come.
async fn post(address: SocketAddr, path: &str, body: &str) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await.context("cannot connect")?;
    stream.set_nodelay(true).context("cannot set TCP_NODELAY")?;
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.context("cannot send a request")?;
    Ok(stream)
}

async fn finish(stream: &mut TcpStream) -> anyhow::Result<()> {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.context("cannot read an answer")?;
    let went_well = answer.starts_with(b"HTTP/1.1 20");
    ensure!(went_well, "refused: {}", String::from_utf8_lossy(&answer));
    Ok(())
}
