//! The terminal of a run or chat: output, and lines typed by the user.

use std::io::{self, IsTerminal, stderr, stdin, stdout};
use std::os::fd::OwnedFd;
use std::time::Duration;

use patchboard_config::Environment;
use patchboard_config::env::TERM;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::view::{DisplayUpdate, ProgressDisplay, ReplyTiming};
use crate::cli::markdown::{MarkdownLayout, MarkupMode};
use crate::output::screen::{LiveBlock, TerminalSize};
use crate::output::{self, OutputStream, TextRole, colour, paint};
use crate::telemetry::LogColour;

/// Maximum length of a typed answer.
const MAX_LINE: usize = 64 * 1024;

/// Writes display updates to the terminal.
pub(in crate::cli) struct TerminalWriter {
    live_block: LiveBlock,
    /// Set while a question is at the end of the screen: updates are held back.
    deferred: Option<Vec<DisplayUpdate>>,
    echo_guard: Option<KeyEchoGuard>,
}

impl TerminalWriter {
    pub(in crate::cli) fn new() -> Self {
        Self { live_block: LiveBlock::default(), deferred: None, echo_guard: None }
    }

    pub(in crate::cli) fn reply_timing() -> ReplyTiming {
        if stdout().is_terminal() { ReplyTiming::Streamed } else { ReplyTiming::AtEnd }
    }

    pub(in crate::cli) fn progress_display() -> ProgressDisplay {
        match (stderr().is_terminal(), can_draw()) {
            (false, _) => ProgressDisplay::None,
            (true, false) => ProgressDisplay::Lines,
            (true, true) => ProgressDisplay::Live,
        }
    }

    pub(in crate::cli) fn layout() -> MarkdownLayout {
        let marks = if colour(OutputStream::Out) == LogColour::On { MarkupMode::Styled } else { MarkupMode::Literal };
        MarkdownLayout { columns: Self::columns(), marks }
    }

    pub(in crate::cli) fn columns() -> usize {
        let size = if stdout().is_terminal() { TerminalSize::of(stdout()) } else { TerminalSize::of(stderr()) };
        size.columns
    }

    /// Turns off the echo of typed keys while the agent works, as it would damage the live block. The keys are not
    /// lost.
    pub(in crate::cli) fn hide_typing(&mut self) {
        if self.echo_guard.is_none() && Self::progress_display() == ProgressDisplay::Live {
            self.echo_guard = KeyEchoGuard::disable_echo();
        }
    }

    pub(in crate::cli) fn show_typing(&mut self) {
        self.echo_guard = None;
    }

    pub(in crate::cli) fn show(&mut self, updates: Vec<DisplayUpdate>) {
        match &mut self.deferred {
            // Live blocks need not be held back: they are redrawn anyway.
            Some(deferred) => {
                deferred.extend(updates.into_iter().filter(|update| !matches!(update, DisplayUpdate::LiveBlock(_))));
            }
            None => updates.into_iter().for_each(|update| self.write(update)),
        }
    }

    /// Shows a question at the end of the screen and holds back everything else until `resume`.
    pub(in crate::cli) fn ask(&mut self, question: &str) {
        self.live_block.commit();
        self.show_typing();
        // Keys typed before the question was shown are not its answer.
        tcflush(stdin(), QueueSelector::IFlush).ok();
        output::eprint(question);
        self.deferred.get_or_insert_default();
    }

    pub(in crate::cli) fn resume(&mut self) {
        if let Some(deferred) = self.deferred.take() {
            deferred.into_iter().for_each(|update| self.write(update));
        }
    }

    fn write(&mut self, update: DisplayUpdate) {
        match update {
            DisplayUpdate::LiveBlock(lines) => {
                output::eprint(&self.live_block.draw(&lines, TerminalSize::of(stderr())));
            }
            DisplayUpdate::Text(text) => {
                self.live_block.commit();
                output::print(&text);
            }
            DisplayUpdate::Line(line) => {
                self.live_block.commit();
                output::eprint_line(&line);
            }
            DisplayUpdate::DimLine(line) => {
                self.live_block.commit();
                output::eprint_line(&paint(&line, TextRole::Faint, colour(OutputStream::Err)));
            }
        }
    }
}

pub(in crate::cli) fn can_draw() -> bool {
    Environment::from_process().get(TERM).is_some_and(|term| term != "dumb")
}

/// The terminal mode before echo was turned off; restored on drop.
struct KeyEchoGuard(Termios);

impl KeyEchoGuard {
    fn disable_echo() -> Option<Self> {
        let before = tcgetattr(stdin()).ok()?;
        let mut no_echo = before.clone();
        no_echo.local_modes.remove(LocalModes::ECHO);
        tcsetattr(stdin(), OptionalActions::Now, &no_echo).ok()?;
        Some(Self(before))
    }
}

impl Drop for KeyEchoGuard {
    fn drop(&mut self) {
        tcsetattr(stdin(), OptionalActions::Now, &self.0).ok();
    }
}

/// Reads lines typed as answers. Nothing is read before a question is asked.
pub(in crate::cli) struct TerminalInput {
    input: Option<AsyncFd<OwnedFd>>,
    typed: Vec<u8>,
}

impl TerminalInput {
    pub(in crate::cli) fn new() -> Self {
        Self { input: None, typed: Vec::new() }
    }

    /// Whether a person can be asked.
    pub(in crate::cli) fn is_interactive() -> bool {
        stdin().is_terminal() && stderr().is_terminal()
    }

    /// The next line, empty at the end of input; pending forever if input cannot be read. Cancel-safe.
    pub(in crate::cli) async fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.typed.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.typed.drain(..=end).collect();
                return String::from_utf8_lossy(&line).into_owned();
            }
            match self.read_more().await {
                Ok(0) => return String::from_utf8_lossy(&std::mem::take(&mut self.typed)).into_owned(),
                Ok(_) if self.typed.len() <= MAX_LINE => {}
                Ok(_) => self.typed.clear(),
                Err(_) => std::future::pending().await,
            }
        }
    }

    async fn read_more(&mut self) -> io::Result<usize> {
        if self.input.is_none() {
            let input = rustix::io::fcntl_dupfd_cloexec(stdin(), 0)?;
            #[expect(deprecated, reason = "its successor is unsafe; an owned descriptor stays what it is")]
            let input = AsyncFd::with_interest(input, Interest::READABLE)?;
            self.input = Some(input);
        }
        let Some(input) = &self.input else { return Ok(0) };
        loop {
            let mut ready = input.readable().await?;
            // The terminal is not set to non-blocking mode, as it is shared with other processes.
            let mut polled = [PollFd::new(input, PollFlags::IN)];
            if poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? == 0 {
                ready.clear_ready();
                continue;
            }
            let mut bytes = [0; 4096];
            let read = rustix::io::read(input, &mut bytes)?;
            self.typed.extend_from_slice(bytes.get(..read).unwrap_or_default());
            return Ok(read);
        }
    }
}

/// Measures the time a run or turn takes.
pub(in crate::cli) struct TickTimer {
    started: tokio::time::Instant,
    interval: Option<tokio::time::Interval>,
}

impl TickTimer {
    /// Ticks only if a live block is drawn.
    pub(in crate::cli) fn new(progress: ProgressDisplay) -> Self {
        let interval = (progress == ProgressDisplay::Live).then(|| {
            let mut interval = tokio::time::interval(super::live_display::TICK_INTERVAL);
            interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
            interval
        });
        Self { started: tokio::time::Instant::now(), interval }
    }

    /// The elapsed time at the next tick. Cancel-safe.
    pub(in crate::cli) async fn next(&mut self) -> Duration {
        match &mut self.interval {
            Some(interval) => {
                interval.tick().await;
                self.started.elapsed()
            }
            None => std::future::pending().await,
        }
    }
}
