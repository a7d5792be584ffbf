//! `patchboard workers`: the pools of a running server, once or as they change.

use std::io::{IsTerminal, stdout};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use patchboard_core::port::Clock;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;

use super::failure::Failure;
use super::output::Page;
use super::screen::{Screen, Size};
use super::{Target, block_on, output};
use crate::client::Client;
use crate::config::Environment;
use crate::config::env::TERM;
use crate::system::SystemClock;
use crate::telemetry::LogColour;
use report::Pool;

mod report;
mod words;

/// How often `--watch` looks.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct WorkersArgs {
    #[command(flatten)]
    target: Target,
    /// Print JSON: one object, or with --watch one a line.
    #[arg(long)]
    json: bool,
    /// Look again every second, until Ctrl-C or until the server is gone.
    #[arg(long)]
    watch: bool,
}

pub(super) fn run(args: WorkersArgs) -> Result<ExitCode, Failure> {
    block_on(async move {
        let mut client = args.target.connect().await?;
        let first = ask(&mut client).await?;
        match (args.watch, args.json) {
            (true, json) => return watch(client, first, Show::choose(json)).await,
            (false, true) => output::line(&as_json(&first)),
            (false, false) => lines(&first, Page::of_stdout())?.iter().for_each(|line| output::line(line)),
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn ask(client: &mut Client) -> anyhow::Result<Vec<Value>> {
    client.list("worker.list", json!({}), usize::MAX).await
}

fn as_json(pools: &[Value]) -> String {
    json!({ "pools": pools }).to_string()
}

fn lines(pools: &[Value], page: Page) -> anyhow::Result<Vec<String>> {
    let pools = pools.iter().map(report::read).collect::<anyhow::Result<Vec<Pool>>>()?;
    Ok(words::pools(&pools, SystemClock.now(), page))
}

/// How what is seen again and again is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Show {
    /// Drawn in its place.
    Picture,
    /// One below the other, with an empty line between them.
    Blocks,
    Json,
}

impl Show {
    fn choose(json: bool) -> Self {
        let can_draw = Environment::from_process().get(TERM).is_some_and(|term| term != "dumb");
        match (json, stdout().is_terminal() && can_draw) {
            (true, _) => Self::Json,
            (false, true) => Self::Picture,
            (false, false) => Self::Blocks,
        }
    }
}

async fn watch(mut client: Client, first: Vec<Value>, show: Show) -> Result<ExitCode, Failure> {
    // Listened for from here to the end: one that comes while a block is being drawn is not lost.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut view = View { show, screen: Screen::default(), shown: 0 };
    let _cursor = (show == Show::Picture).then(HiddenCursor::hide);
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first one is at once, and what there is to see now has been asked for.
    ticks.tick().await;
    let mut pools = first;
    loop {
        if output::put(&view.next(&pools, Size::of(stdout()))?).is_err() {
            return Ok(ExitCode::SUCCESS);
        }
        let look = async {
            ticks.tick().await;
            ask(&mut client).await
        };
        pools = tokio::select! {
            seen = look => seen.map_err(|error| Failure::unreachable(format!("the server is gone: {error:#}")))?,
            _ = interrupt.recv() => return Ok(ExitCode::SUCCESS),
            _ = terminate.recv() => return Ok(ExitCode::SUCCESS),
        };
    }
}

/// The screen cuts lines itself, and counts their letters: colour would be in its way.
const PICTURE: Page = Page { columns: None, colour: LogColour::Off };

struct View {
    show: Show,
    screen: Screen,
    shown: u64,
}

impl View {
    /// The bytes to write now.
    fn next(&mut self, pools: &[Value], size: Size) -> anyhow::Result<String> {
        self.shown += 1;
        Ok(match self.show {
            Show::Json => format!("{}\n", as_json(pools)),
            Show::Picture => self.screen.draw(&beginning(lines(pools, PICTURE)?, size.room()), size),
            Show::Blocks => {
                let gap = if self.shown > 1 { "\n" } else { "" };
                format!("{gap}{}\n", lines(pools, Page::of_stdout())?.join("\n"))
            }
        })
    }
}

/// As much of it as there is room for. What stands first matters as much as what stands last, so the end goes.
fn beginning(mut lines: Vec<String>, room: usize) -> Vec<String> {
    if lines.len() > room {
        let kept = room.saturating_sub(1);
        let hidden = lines.len() - kept;
        lines.truncate(kept);
        lines.push(format!("… {hidden} more lines"));
    }
    lines
}

/// A cursor that jumps about is all one would see of a picture that is drawn again. It comes back however this ends.
struct HiddenCursor;

impl HiddenCursor {
    fn hide() -> Self {
        output::part("\x1b[?25l");
        Self
    }
}

impl Drop for HiddenCursor {
    fn drop(&mut self) {
        // Below the picture; what the terminal shows of Ctrl-C is wiped out.
        output::part("\r\x1b[K\x1b[?25h");
    }
}

#[cfg(test)]
mod tests;
