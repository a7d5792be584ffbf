//! How long a `ping` takes while ten calls of a plugin loop without end, beside the same pings on a quiet server.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::Row;
use crate::bench::measure::env::Env;
use crate::bench::measure::figure::{Figure, Target, Unit};
use crate::bench::measure::ws::{self, Socket, client_frame};
use crate::bench::options::HOSTILE;
use crate::bench::stats::Sample;
use crate::plugins;

#[derive(Debug)]
pub(super) struct HostilePlugins;

const PING: &str = r#"{"id":"1","method":"ping"}"#;
const CALLS: usize = 10;
const PINGS: usize = 400;
/// Two hundred a second, so that each finds the server as the plugins left it.
const PAUSE: Duration = Duration::from_millis(5);
/// By then every call runs or waits for its turn.
const SETTLE: Duration = Duration::from_millis(500);
/// What a person does not notice.
const MOST_MILLISECONDS: f64 = 5.0;
const PATIENCE: Duration = Duration::from_secs(60);
/// Does what its argument says; made for tests and built by `cargo xtask plugins`.
const COMPONENT: &str = "hostile.wasm";

impl Row for HostilePlugins {
    fn name(&self) -> &'static str {
        HOSTILE
    }

    fn about(&self) -> &'static str {
        "ping while ten calls of a plugin loop without end, beside a quiet server"
    }

    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>> {
        let component = plugins::folder(&env.target).join(COMPONENT);
        ensure!(component.is_file(), "{} is not there: `cargo xtask plugins` builds it", component.display());
        let stub = env.stub()?;
        let config = format!(
            "[[plugins]]\nname = \"hostile\"\npath = {:?}\n\n\
             [limits]\nplugin_time = \"10m\"\nplugin_fuel = 100000000000000\n",
            component.display().to_string()
        );
        let mut figures = Vec::new();
        for kind in ["loop", "spin_host"] {
            let server = env.server_with(&config, stub.address)?;
            let (quiet, beside) = env.block_on(PATIENCE, pings(server.gateway, kind))?;
            let figure = |name: &str, percent: f64, target| {
                Figure::new(name, beside.percentile(percent), Unit::Milliseconds)
                    .beside(quiet.percentile(percent))
                    .target(target)
                    .note(format!("of {PINGS}; baseline: before the calls"))
            };
            let name = format!("ping beside ten calls of `{kind}`");
            figures.push(figure(&format!("{name}, p99"), 99.0, Target::None));
            figures.push(figure(&format!("{name}, longest"), 100.0, Target::AtMost(MOST_MILLISECONDS)));
            // The calls end with the server.
            server.kill();
        }
        Ok(figures)
    }
}

/// Milliseconds of each ping, before and beside the calls.
async fn pings(gateway: SocketAddr, kind: &str) -> anyhow::Result<(Sample, Sample)> {
    let mut pinging = Socket::connect(gateway, ws::GATEWAY).await?;
    pinging.next().await?;
    let quiet = series(&mut pinging).await?;
    let mut calling = Socket::connect(gateway, ws::GATEWAY).await?;
    calling.next().await?;
    for number in 0..CALLS {
        let request = format!(
            r#"{{"id":"call-{number}","method":"tool.call","params":{{"account":"a{number}","name":"hostile","arguments":{{"what":"{kind}"}}}}}}"#
        );
        calling.send(&client_frame(&request)).await?;
    }
    let answered = tokio::time::timeout(SETTLE, calling.next()).await;
    if let Ok(answer) = answered {
        let answer = String::from_utf8_lossy(answer?).into_owned();
        return Err(anyhow::Error::msg(answer)).context("a call that never ends has ended");
    }
    Ok((quiet, series(&mut pinging).await?))
}

async fn series(socket: &mut Socket) -> anyhow::Result<Sample> {
    let request = client_frame(PING);
    let mut times = Vec::with_capacity(PINGS);
    for _ in 0..PINGS {
        let started = Instant::now();
        socket.send(&request).await?;
        socket.next().await?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
        tokio::time::sleep(PAUSE).await;
    }
    Sample::new(times)
}
