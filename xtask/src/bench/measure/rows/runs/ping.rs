//! `ping` on the runs surface, beside a bare echo of frames of the same size.

use super::Row;
use crate::bench::measure::env::Env;
use crate::bench::measure::figure::Figure;
use crate::bench::measure::round_trips::{self, Greets, Shape, Subject};
use crate::bench::measure::ws;

#[derive(Debug)]
pub(in crate::bench::measure::rows) struct RunsPing;

const REQUEST: &str = r#"{"type":"ping","id":"1"}"#;
const ANSWER: &str = r#"{"type":"pong","id":"1"}"#;
const CONNECTIONS: [usize; 2] = [1, 32];
/// Of the echo's rate.
const SHARE: f64 = 0.95;

impl Row for RunsPing {
    fn name(&self) -> &'static str {
        "runs-ping"
    }

    fn about(&self) -> &'static str {
        "round trips on the runs surface, beside a bare WebSocket echo"
    }

    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>> {
        let stub = env.stub()?;
        let server = env.server(stub.address, &[])?;
        let echo = env.echo()?;
        let product = Subject {
            address: server.runs,
            path: ws::RUNS,
            pid: server.pid(),
            greets: Greets::Never,
            request: REQUEST,
            answer: ANSWER,
        };
        let baseline = Subject::echo(&echo, REQUEST);
        let figures = CONNECTIONS.into_iter().map(|connections| {
            let name = format!("runs ping, {connections} × 1 in flight");
            round_trips::measure(env, name, product, baseline, Shape { connections, in_flight: 1 }, SHARE)
        });
        figures.collect()
    }
}
