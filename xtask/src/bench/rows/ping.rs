//! `ping` on the gateway, beside a bare echo of frames of the same size.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::Row;
use crate::bench::env::Env;
use crate::bench::figure::{Figure, Target, Unit};
use crate::bench::load::{self, Effort, Side};
use crate::bench::stats::Sample;
use crate::bench::ws::{Socket, client_frame, server_frame};

#[derive(Debug)]
pub(super) struct Ping;

const REQUEST: &str = r#"{"id":"1","method":"ping"}"#;
const ANSWER: &str = r#"{"id":"1","result":"pong"}"#;
const CONNECTIONS: [usize; 2] = [1, 32];
/// How many are sent before the first is answered, and what share of the echo's rate is asked for.
const IN_FLIGHT: [(usize, f64); 3] = [(1, 0.9), (16, 0.7), (64, 0.7)];
const ROUNDS: usize = 4;
const WARM_UP: Duration = Duration::from_millis(200);

/// One of the two servers and the connections to it.
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

impl Row for Ping {
    fn name(&self) -> &'static str {
        "ping"
    }

    fn about(&self) -> &'static str {
        "round trips on the gateway, beside a bare WebSocket echo"
    }

    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>> {
        let stub = env.stub()?;
        let server = env.server(stub.address, &[])?;
        let echo = env.echo()?;
        let patience = env.span() * 4 + Duration::from_secs(60);
        let mut figures = Vec::new();
        for connections in CONNECTIONS {
            for (in_flight, share) in IN_FLIGHT {
                let work = async {
                    let product =
                        Peer::open(server.gateway, server.pid(), connections, in_flight, Greets::First).await?;
                    let baseline = Peer::open(echo.address, echo.pid(), connections, in_flight, Greets::Never).await?;
                    compare(product, baseline, env.span()).await
                };
                let (product, baseline) = env.block_on(patience, work)?;
                let name = format!("ping, {connections} × {in_flight} in flight");
                figures.push(
                    Figure::new(name, Sample::new(product.rates)?.median(), Unit::PerSecond)
                        .beside(Sample::new(baseline.rates)?.median())
                        .target(Target::RatioAtLeast(share))
                        .note(format!(
                            "server time {:.1} µs each, echo {:.1} µs",
                            product.effort.each(),
                            baseline.effort.each()
                        )),
                );
            }
        }
        Ok(figures)
    }
}

async fn compare(mut product: Peer, mut baseline: Peer, span: Duration) -> anyhow::Result<(Peer, Peer)> {
    for side in load::in_turn(1) {
        let peer = if side == Side::Product { &mut product } else { &mut baseline };
        ping_for(&mut peer.clients, WARM_UP).await?;
    }
    for side in load::in_turn(ROUNDS) {
        let peer = if side == Side::Product { &mut product } else { &mut baseline };
        peer.measure(span / ROUNDS as u32).await?;
    }
    Ok((product, baseline))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Greets {
    First,
    Never,
}

impl Peer {
    async fn open(
        address: SocketAddr,
        pid: u32,
        connections: usize,
        in_flight: usize,
        greets: Greets,
    ) -> anyhow::Result<Peer> {
        let clients = load::open(connections, move |_| async move {
            let mut socket = Socket::connect(address).await?;
            let request = client_frame(REQUEST);
            let answer = match greets {
                Greets::First => {
                    socket.next().await?;
                    server_frame(ANSWER)
                }
                Greets::Never => server_frame(REQUEST),
            };
            Ok(Client { socket, requests: request.repeat(in_flight), in_flight, answer })
        });
        Ok(Peer { clients: clients.await?, effort: Effort::of(pid), rates: Vec::new() })
    }

    async fn measure(&mut self, span: Duration) -> anyhow::Result<()> {
        let before = self.effort.clock();
        let (round_trips, took) = ping_for(&mut self.clients, span).await?;
        self.effort.add(before, round_trips);
        self.rates.push(round_trips as f64 / took.as_secs_f64());
        Ok(())
    }
}

async fn ping_for(clients: &mut Vec<Client>, span: Duration) -> anyhow::Result<(u64, Duration)> {
    let until = Instant::now() + span;
    let done = load::all(clients, move |mut client| async move {
        let round_trips = client.ping_until(until).await?;
        Ok((client, round_trips))
    });
    let done = done.await?;
    Ok((done.results.iter().sum(), done.took))
}

impl Client {
    /// Keeps as many requests in flight as it may until then, and hears all answers.
    async fn ping_until(&mut self, until: Instant) -> anyhow::Result<u64> {
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
