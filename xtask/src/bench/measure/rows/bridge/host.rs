//! What the server answers without a worker: `Ping`, and `ExecuteTool` of a tool of its own.

use std::sync::Arc;
use std::time::Duration;

use patchboard_proto::pb;

use super::{Row, SESSION, tool_call};
use crate::bench::measure::calls::{self, Subject};
use crate::bench::measure::env::Env;
use crate::bench::measure::figure::Figure;
use crate::bench::measure::grpc::{Address, Call, Client, echo};
use crate::bench::measure::round_trips::Shape;

#[derive(Debug)]
pub(in crate::bench::measure::rows) struct BridgePing;

#[derive(Debug)]
pub(in crate::bench::measure::rows) struct BridgeTool;

const SHAPES: [Shape; 3] = [
    Shape { connections: 1, in_flight: 1 },
    Shape { connections: 1, in_flight: 16 },
    Shape { connections: 8, in_flight: 1 },
];
/// Of the echo's rate; a tool is looked up, checked, called and written down as well.
const PING_SHARE: f64 = 0.9;
const TOOL_SHARE: f64 = 0.85;
const PATIENCE: Duration = Duration::from_secs(20);

impl Row for BridgePing {
    fn name(&self) -> &'static str {
        "bridge-ping"
    }

    fn about(&self) -> &'static str {
        "round trips of Ping on the bridge, beside a bare gRPC echo"
    }

    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>> {
        measure(env, "bridge ping", Call::Ping(pb::PingRequest { message: "hello".to_owned() }), PING_SHARE)
    }
}

impl Row for BridgeTool {
    fn name(&self) -> &'static str {
        "bridge-tool"
    }

    fn about(&self) -> &'static str {
        "ExecuteTool of a tool of the server's own that only reads, beside a bare gRPC echo"
    }

    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>> {
        measure(env, "bridge variable_list", tool_call("variable_list", [], echo::RESULT), TOOL_SHARE)
    }
}

fn measure(env: &Env, name: &str, call: Call, share: f64) -> anyhow::Result<Vec<Figure>> {
    let stub = env.stub()?;
    let server = env.server(stub.address, &[])?;
    let echo = env.grpc_echo()?;
    let call = Arc::new(call);
    let product = Subject { address: Address::Tcp(server.bridge), pid: server.pid(), call: call.clone() };
    let baseline = Subject { address: Address::Tcp(echo.address), pid: echo.pid(), call };
    env.block_on(PATIENCE, async { Client::connect(&product.address).await?.open_session(SESSION).await })?;
    let figures = SHAPES.into_iter().map(|shape| {
        let name = format!("{name}, {} × {} in flight", shape.connections, shape.in_flight);
        calls::rate(env, name, &product, &baseline, shape, share)
    });
    figures.collect()
}
