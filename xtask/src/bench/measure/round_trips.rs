//! Requests that are answered at once, as many as there is time for, beside a bare echo of them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::env::Env;
use super::figure::{Figure, Target, Unit};
use super::helper::Helper;
use super::load::{self, Effort, Side};
use super::ws::{self, Socket, client_frame, server_frame};
use crate::bench::stats::Sample;

const ROUNDS: usize = 4;
const WARM_UP: Duration = Duration::from_millis(200);

/// One of the two servers: where it is, what it is asked and what it must answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject {
    pub(super) address: SocketAddr,
    pub(super) path: &'static str,
    pub(super) pid: u32,
    pub(super) greets: Greets,
    pub(super) request: &'static str,
    pub(super) answer: &'static str,
}

/// Does a server speak before it is asked?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Greets {
    First,
    Never,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) connections: usize,
    /// How many requests a connection sends before the first is answered.
    pub(super) in_flight: usize,
}

/// A server and the connections to it.
struct Peer {
    clients: Vec<Client>,
    effort: Effort,
    rates: Vec<f64>,
}

/// A connection, what it sends and what it must hear.
struct Client {
    socket: Socket,
    /// As many requests as may be in flight.
    requests: Vec<u8>,
    in_flight: usize,
    answer: Vec<u8>,
}

impl Subject {
    /// The bare echo of the same request.
    pub(super) fn echo(echo: &Helper, request: &'static str) -> Subject {
        let (address, pid) = (echo.address, echo.pid());
        Subject { address, path: ws::GATEWAY, pid, greets: Greets::Never, request, answer: request }
    }
}

/// Round trips per second, of which `share` of the baseline's are asked for.
pub(super) fn measure(
    env: &Env,
    name: String,
    product: Subject,
    baseline: Subject,
    shape: Shape,
    share: f64,
) -> anyhow::Result<Figure> {
    let patience = env.span() * 4 + Duration::from_secs(60);
    let (product, baseline) = env.block_on(patience, async {
        compare(Peer::open(product, shape).await?, Peer::open(baseline, shape).await?, env.span()).await
    })?;
    Ok(Figure::new(name, Sample::new(product.rates)?.median(), Unit::PerSecond)
        .beside(Sample::new(baseline.rates)?.median())
        .target(Target::RatioAtLeast(share))
        .note(format!("server time {:.1} µs each, echo {:.1} µs", product.effort.each(), baseline.effort.each())))
}

async fn compare(mut product: Peer, mut baseline: Peer, span: Duration) -> anyhow::Result<(Peer, Peer)> {
    for side in load::in_turn(1) {
        let peer = if side == Side::Product { &mut product } else { &mut baseline };
        ask_for(&mut peer.clients, WARM_UP).await?;
    }
    for side in load::in_turn(ROUNDS) {
        let peer = if side == Side::Product { &mut product } else { &mut baseline };
        peer.measure(span / ROUNDS as u32).await?;
    }
    Ok((product, baseline))
}

impl Peer {
    async fn open(subject: Subject, shape: Shape) -> anyhow::Result<Peer> {
        let Subject { address, path, pid, greets, request, answer } = subject;
        let Shape { connections, in_flight } = shape;
        let clients = load::open(connections, move |_| async move {
            let mut socket = Socket::connect(address, path).await?;
            if greets == Greets::First {
                socket.next().await?;
            }
            let requests = client_frame(request).repeat(in_flight);
            Ok(Client { socket, requests, in_flight, answer: server_frame(answer) })
        });
        Ok(Peer { clients: clients.await?, effort: Effort::of(pid), rates: Vec::new() })
    }

    async fn measure(&mut self, span: Duration) -> anyhow::Result<()> {
        let before = self.effort.clock();
        let (round_trips, took) = ask_for(&mut self.clients, span).await?;
        self.effort.add(before, round_trips);
        self.rates.push(round_trips as f64 / took.as_secs_f64());
        Ok(())
    }
}

async fn ask_for(clients: &mut Vec<Client>, span: Duration) -> anyhow::Result<(u64, Duration)> {
    let until = Instant::now() + span;
    let done = load::all(clients, move |mut client| async move {
        let round_trips = client.ask_until(until).await?;
        Ok((client, round_trips))
    });
    let done = done.await?;
    Ok((done.results.iter().sum(), done.took))
}

impl Client {
    /// Keeps as many requests in flight as it may until then, and hears all answers.
    async fn ask_until(&mut self, until: Instant) -> anyhow::Result<u64> {
        let size = self.requests.len() / self.in_flight;
        self.socket.send(&self.requests).await?;
        let mut open = self.in_flight;
        let mut round_trips = 0;
        while open > 0 {
            self.socket.fill().await?;
            let answered = self.socket.take_equal(&self.answer)?;
            round_trips += answered as u64;
            if Instant::now() < until {
                self.socket.send(self.requests.get(..answered * size).unwrap_or_default()).await?;
            } else {
                open -= answered.min(open);
            }
        }
        Ok(round_trips)
    }
}
