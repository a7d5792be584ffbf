//! What is measured. A hot path that is added to the product gets a row here.

mod bash;
mod bridge;
mod growth;
mod hostile;
mod hub;
mod memory;
mod ping;
mod plugin;
mod returned;
mod runs;
mod size;
mod start;
mod streams;
mod tokens;
mod turns;

use super::env::Env;
use super::figure::Figure;

/// Some figures that are taken together.
pub(crate) trait Row {
    /// As given to `--only`. Rows whose names begin with the same word and a hyphen are a group.
    fn name(&self) -> &'static str;

    fn about(&self) -> &'static str;

    /// Starts what it needs, measures, and leaves nothing running.
    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>>;
}

pub(crate) const ALL: &[&dyn Row] = &[
    &ping::Ping,
    &turns::Turns,
    &tokens::Tokens,
    &streams::Streams,
    &start::Start,
    &memory::IdleMemory,
    &returned::ReturnedMemory,
    &size::Size,
    &growth::Growth,
    &runs::RunsPing,
    &runs::RunsList,
    &runs::RunsFirst,
    &runs::RunsStreams,
    &runs::RunsResume,
    &bash::Bash,
    &hub::Hub,
    &bridge::BridgePing,
    &bridge::BridgeTool,
    &bridge::BridgeWorker,
    &bridge::BridgeBinary,
    &bridge::BridgeReplaced,
    &plugin::PluginCall,
    &hostile::HostilePlugins,
];
