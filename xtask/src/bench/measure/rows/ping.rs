//! `ping` on the gateway, beside a bare echo of frames of the same size.

use super::Row;
use crate::bench::measure::env::Env;
use crate::bench::measure::figure::Figure;
use crate::bench::measure::round_trips::{self, Greets, Shape, Subject};
use crate::bench::measure::ws;

#[derive(Debug)]
pub(super) struct Ping;

const REQUEST: &str = r#"{"id":"1","method":"ping"}"#;
const ANSWER: &str = r#"{"id":"1","result":"pong"}"#;
const CONNECTIONS: [usize; 2] = [1, 32];
/// How many are sent before the first is answered, and what share of the echo's rate is asked for.
const IN_FLIGHT: [(usize, f64); 3] = [(1, 0.95), (16, 1.0), (64, 1.0)];

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
        let product = Subject {
            address: server.gateway,
            path: ws::GATEWAY,
            pid: server.pid(),
            greets: Greets::First,
            request: REQUEST,
            answer: ANSWER,
        };
        let baseline = Subject::echo(&echo, REQUEST);
        let mut figures = Vec::new();
        for connections in CONNECTIONS {
            for (in_flight, share) in IN_FLIGHT {
                let name = format!("ping, {connections} × {in_flight} in flight");
                let shape = Shape { connections, in_flight };
                figures.push(round_trips::measure(env, name, product, baseline, shape, share)?);
            }
        }
        Ok(figures)
    }
}
