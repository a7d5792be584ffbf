//! What a plugin's tool costs: a fresh instance for every call, beside a tool of the server's own on the same way.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::Row;
use super::bridge::{SESSION, tool_call};
use crate::bench::measure::calls::{self, Patience, Subject};
use crate::bench::measure::env::Env;
use crate::bench::measure::figure::{Figure, Target, Unit};
use crate::bench::measure::grpc::{Address, Client, echo};
use crate::bench::measure::round_trips::Shape;
use crate::workspace::Workspace;

#[derive(Debug)]
pub(super) struct PluginCall;

/// Of a call, from its turn to its answer.
const MOST_MILLISECONDS: f64 = 0.08;
const BUSY: Shape = Shape { connections: 1, in_flight: 8 };
const PATIENCE: Duration = Duration::from_secs(20);
/// A Rust guest, as it is committed.
const COMPONENT: &str = "plugins/built/echo.wasm";

impl Row for PluginCall {
    fn name(&self) -> &'static str {
        "plugin"
    }

    fn about(&self) -> &'static str {
        "ExecuteTool of a plugin in Rust, a fresh instance each time, beside a tool of the server's own"
    }

    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>> {
        let component = Workspace::find()?.root.join(COMPONENT);
        ensure!(component.is_file(), "{COMPONENT} is not there: `cargo xtask plugins --commit` builds it");
        let stub = env.stub()?;
        let config = format!("[[plugins]]\nname = \"echo\"\npath = {:?}\n", component.display().to_string());
        let server = env.server_with(&config, stub.address)?;
        let subject = |call| Subject { address: Address::Tcp(server.bridge), pid: server.pid(), call: Arc::new(call) };
        let plugin = subject(tool_call("echo", [("text", r#""hello""#)], r#""hello""#));
        let own = subject(tool_call("variable_list", [], echo::RESULT));
        env.block_on(PATIENCE, async { Client::connect(&plugin.address).await?.open_session(SESSION).await })?;
        let patience = Patience { least_rounds: 20, calls_a_round: 25, span: env.span() * 2 };
        let limit = patience.span + Duration::from_secs(60);
        let times = env.block_on(limit, calls::times(&plugin, &own, patience))?;
        let (slow, fast) = (&times.product, &times.baseline);
        let inside = inside(server.gateway)?;
        let call =
            Figure::new("a plugin's call in the server, a fresh instance each, mean", inside, Unit::Milliseconds)
                .target(Target::AtMost(MOST_MILLISECONDS))
                .note("as the server itself counts it, warm-up included");
        let seen = Figure::new("a plugin's call as a client sees it, p50", slow.median(), Unit::Milliseconds)
            .beside(fast.median())
            .note(format!(
                "beside a tool of the server's own without arguments; p99 {:.3} and {:.3} ms; {} calls each",
                slow.percentile(99.0),
                fast.percentile(99.0),
                slow.count()
            ));
        let busy =
            calls::rate(env, format!("calls of a plugin, {} in flight", BUSY.in_flight), &plugin, &own, BUSY, 0.0)?;
        Ok(vec![call, seen, Figure { target: Target::None, ..busy }])
    }
}

/// What the server's own clock says of its plugins' calls so far, in milliseconds each.
fn inside(gateway: SocketAddr) -> anyhow::Result<f64> {
    let mut socket = TcpStream::connect(gateway).context("cannot reach the gateway")?;
    socket.set_read_timeout(Some(PATIENCE))?;
    write!(socket, "GET /metrics HTTP/1.1\r\nHost: {gateway}\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    socket.read_to_string(&mut text).context("cannot read the metrics")?;
    let figure = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        line.with_context(|| format!("the metrics have no `{name}`"))
    };
    let seconds = figure("patchboard_plugin_call_duration_seconds_sum ")?;
    Ok(seconds * 1e3 / figure("patchboard_plugin_call_duration_seconds_count ")?)
}
