//! `patchboard workers`: the pools of a running server, once or continuously.

use std::io::{IsTerminal, stdout};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use patchboard_config::Environment;
use patchboard_config::env::TERM;
use patchboard_core::port::Clock;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;

use super::failure::CommandFailure;
use super::{ServerTarget, block_on};
use crate::client::GatewayClient;
use crate::output;
use crate::output::PageLayout;
use crate::output::screen::{LiveBlock, TerminalSize};
use crate::system::SystemClock;
use crate::telemetry::LogColour;
use report::PoolStatus;

mod control;
mod format;
mod report;

/// Refresh interval of `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct WorkersArgs {
    /// Left out, the pools are listed.
    #[command(subcommand)]
    verb: Option<WorkersCommand>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Subcommand)]
enum WorkersCommand {
    /// Show the pools and what each worker is doing; the default.
    List(ListArgs),
    /// Replace a worker, or all of a pool, without losing calls.
    Restart(control::RestartArgs),
    /// Show what a worker wrote.
    Logs(control::WorkerLogsArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    target: ServerTarget,
    /// Print JSON: one object, or with --watch one a line.
    #[arg(long)]
    json: bool,
    /// Refresh every second, until Ctrl-C or until the server stops.
    #[arg(long)]
    watch: bool,
}

pub(super) fn run(args: WorkersArgs) -> Result<ExitCode, CommandFailure> {
    match args.verb.unwrap_or(WorkersCommand::List(args.list)) {
        WorkersCommand::List(args) => list(args),
        WorkersCommand::Restart(args) => block_on(control::restart(args)),
        WorkersCommand::Logs(args) => block_on(control::logs(args)),
    }
}

fn list(args: ListArgs) -> Result<ExitCode, CommandFailure> {
    block_on(async move {
        let mut client = args.target.connect().await?;
        let first = fetch_pools(&mut client).await?;
        match (args.watch, args.json) {
            (true, json) => return watch(client, first, WatchFormat::choose(json)).await,
            (false, true) => output::print_line(&as_json(&first)),
            (false, false) => {
                pool_lines(&first, PageLayout::of_stdout())?.iter().for_each(|line| output::print_line(line));
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn fetch_pools(client: &mut GatewayClient) -> anyhow::Result<Vec<Value>> {
    client.list("worker.list", json!({}), usize::MAX).await
}

fn as_json(pools: &[Value]) -> String {
    json!({ "pools": pools }).to_string()
}

fn pool_lines(pools: &[Value], page: PageLayout) -> anyhow::Result<Vec<String>> {
    let pools = pools.iter().map(report::parse).collect::<anyhow::Result<Vec<PoolStatus>>>()?;
    Ok(format::pools(&pools, SystemClock.now(), page))
}

/// The output of `--watch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchFormat {
    /// Redrawn in place.
    Redraw,
    /// One below the other, separated by an empty line.
    Blocks,
    Json,
}

impl WatchFormat {
    fn choose(json: bool) -> Self {
        let can_draw = Environment::from_process().get(TERM).is_some_and(|term| term != "dumb");
        match (json, stdout().is_terminal() && can_draw) {
            (true, _) => Self::Json,
            (false, true) => Self::Redraw,
            (false, false) => Self::Blocks,
        }
    }
}

async fn watch(mut client: GatewayClient, first: Vec<Value>, show: WatchFormat) -> Result<ExitCode, CommandFailure> {
    // Registered once for the whole loop, so that no signal is lost while a block is drawn.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut view = WatchView { format: show, live_block: LiveBlock::default(), frames_shown: 0 };
    let _cursor = (show == WatchFormat::Redraw).then(HiddenCursor::hide);
    let mut ticks = tokio::time::interval(WATCH_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is immediate, and the current state was fetched already.
    ticks.tick().await;
    let mut pools = first;
    loop {
        if output::try_print(&view.next(&pools, TerminalSize::of(stdout()))?).is_err() {
            return Ok(ExitCode::SUCCESS);
        }
        let look = async {
            ticks.tick().await;
            fetch_pools(&mut client).await
        };
        pools = tokio::select! {
            seen = look => seen.map_err(|error| CommandFailure::unreachable(format!("the server is gone: {error:#}")))?,
            _ = interrupt.recv() => return Ok(ExitCode::SUCCESS),
            _ = terminate.recv() => return Ok(ExitCode::SUCCESS),
        };
    }
}

/// The live block cuts lines by counting characters, so they must not contain colour codes.
const REDRAW_LAYOUT: PageLayout = PageLayout { columns: None, colour: LogColour::Off };

struct WatchView {
    format: WatchFormat,
    live_block: LiveBlock,
    frames_shown: u64,
}

impl WatchView {
    /// The bytes to write for this refresh.
    fn next(&mut self, pools: &[Value], size: TerminalSize) -> anyhow::Result<String> {
        self.frames_shown += 1;
        Ok(match self.format {
            WatchFormat::Json => format!("{}\n", as_json(pools)),
            WatchFormat::Redraw => {
                self.live_block.draw(&truncate_lines(pool_lines(pools, REDRAW_LAYOUT)?, size.max_lines()), size)
            }
            WatchFormat::Blocks => {
                let gap = if self.frames_shown > 1 { "\n" } else { "" };
                format!("{gap}{}\n", pool_lines(pools, PageLayout::of_stdout())?.join("\n"))
            }
        })
    }
}

/// The lines that fit. The end is cut, as the first lines matter as much as the last.
fn truncate_lines(mut lines: Vec<String>, room: usize) -> Vec<String> {
    if lines.len() > room {
        let kept = room.saturating_sub(1);
        let hidden = lines.len() - kept;
        lines.truncate(kept);
        lines.push(format!("… {hidden} more lines"));
    }
    lines
}

/// Hides the cursor, which would jump visibly during redraws. Restored on drop.
struct HiddenCursor;

impl HiddenCursor {
    fn hide() -> Self {
        output::print("\x1b[?25l");
        Self
    }
}

impl Drop for HiddenCursor {
    fn drop(&mut self) {
        // Clears the `^C` that the terminal may have printed below the block.
        output::print("\r\x1b[K\x1b[?25h");
    }
}

#[cfg(test)]
mod tests;
