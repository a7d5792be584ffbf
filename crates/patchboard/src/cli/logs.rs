//! `patchboard logs`: reads the log file of a data directory, without a request to the server.

use std::io::{IsTerminal, stdout};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::tz::TimeZone;
use patchboard_config::Environment;
use patchboard_config::env::NO_COLOR;

use super::ConfigLocation;
use super::failure::CommandFailure;
use crate::output;
use crate::telemetry::log_file::LOG_FOLDER;
use render::{LogLine, RenderStyle};

mod read;
mod render;

/// Poll interval of `--follow`.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum value of `--lines`; larger ones have the same effect.
const MAX_LINES: usize = 1_000_000;

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    place: ConfigLocation,
    /// Print new lines as they are written, until Ctrl-C.
    #[arg(short, long)]
    follow: bool,
    /// Number of past lines to start with.
    #[arg(short = 'n', long = "lines", value_name = "LINES", default_value_t = 100)]
    lines: usize,
    /// Only lines of this level and of more serious ones.
    #[arg(long, value_enum, default_value_t = LineLevel::Trace)]
    level: LineLevel,
    /// Print the lines as they are stored: one JSON object each.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum LineLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

pub(super) fn run(args: LogsArgs) -> Result<ExitCode, CommandFailure> {
    let folder = args.place.find_data_dir()?.join(LOG_FOLDER);
    let (lines, mut follower) =
        read::open_log(&folder, args.lines.min(MAX_LINES), &|line| is_wanted(line, args.level))?;
    if !follower.has_file() && !args.follow {
        return Err(CommandFailure::failed(format!("there is no log in `{}`", folder.display()))
            .hint("`patchboard serve` begins one when it starts; name another folder with --data-dir"));
    }
    let show = LinePrinter { style: if args.json { None } else { Some(style()) } };
    if lines.iter().any(|line| show.line(line).is_err()) || !args.follow {
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        thread::sleep(POLL_INTERVAL);
        let news = follower.read_new()?;
        if news.has_gap {
            output::eprint_line("note: lines in between are gone: the files were rotated faster than they were read");
        }
        let wanted = news.lines.iter().filter(|line| is_wanted(line, args.level));
        for line in wanted {
            // The reader has closed its end of the pipe.
            if show.line(line).is_err() {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
}

fn is_wanted(line: &str, least: LineLevel) -> bool {
    least == LineLevel::Trace || LogLine::parse(line).is_none_or(|line| line.level.is_none_or(|level| level <= least))
}

fn style() -> RenderStyle {
    let no_color = Environment::from_process().get(NO_COLOR).is_some_and(|value| !value.is_empty());
    RenderStyle { zone: TimeZone::system(), has_colour: stdout().is_terminal() && !no_color }
}

struct LinePrinter {
    /// `None`: unchanged.
    style: Option<RenderStyle>,
}

impl LinePrinter {
    fn line(&self, line: &str) -> std::io::Result<()> {
        let shown = match &self.style {
            Some(style) => render::line(line, style),
            None => render::json(line),
        };
        output::try_print(&format!("{shown}\n"))
    }
}
