//! Where a run's words go, and where a person's come from.

use std::io::{self, IsTerminal, stderr, stdin, stdout};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::view::{Asides, Reply, Say};
use crate::cli::markdown::{Look, Marks};
use crate::cli::output::{self, Role, Stream, colour, paint};
use crate::cli::screen::{Screen, Size};
use crate::config::Environment;
use crate::config::env::TERM;
use crate::telemetry::LogColour;

/// An answer to a question is no longer.
const MAX_LINE: usize = 64 * 1024;

/// Does what a view says.
pub(in crate::cli) struct Terminal {
    screen: Screen,
    /// A question stands at the end of the screen: what is said meanwhile waits.
    held: Option<Vec<Say>>,
    hush: Option<Hush>,
}

impl Terminal {
    pub(in crate::cli) fn new() -> Self {
        Self { screen: Screen::default(), held: None, hush: None }
    }

    pub(in crate::cli) fn reply() -> Reply {
        if stdout().is_terminal() { Reply::AsItComes } else { Reply::AtTheEnd }
    }

    pub(in crate::cli) fn asides() -> Asides {
        match (stderr().is_terminal(), can_draw()) {
            (false, _) => Asides::None,
            (true, false) => Asides::Lines,
            (true, true) => Asides::Pictures,
        }
    }

    pub(in crate::cli) fn look() -> Look {
        let marks = if colour(Stream::Out) == LogColour::On { Marks::Styled } else { Marks::Kept };
        Look { columns: Self::columns(), marks }
    }

    pub(in crate::cli) fn columns() -> usize {
        let size = if stdout().is_terminal() { Size::of(stdout()) } else { Size::of(stderr()) };
        size.columns
    }

    /// Keys that are pressed while somebody works are not shown: they would tear up what is drawn. They are not lost.
    pub(in crate::cli) fn hush(&mut self) {
        if self.hush.is_none() && Self::asides() == Asides::Pictures {
            self.hush = Hush::begin();
        }
    }

    pub(in crate::cli) fn unhush(&mut self) {
        self.hush = None;
    }

    pub(in crate::cli) fn say(&mut self, said: Vec<Say>) {
        match &mut self.held {
            // What is drawn in place is drawn again anyway.
            Some(held) => held.extend(said.into_iter().filter(|one| !matches!(one, Say::Picture(_)))),
            None => said.into_iter().for_each(|one| self.put(one)),
        }
    }

    /// Puts a question at the end of the screen and holds everything else back until it is settled.
    pub(in crate::cli) fn ask(&mut self, question: &str) {
        self.screen.settle();
        self.unhush();
        // What was typed before the question stood there is no answer to it.
        tcflush(stdin(), QueueSelector::IFlush).ok();
        output::aside(question);
        self.held.get_or_insert_default();
    }

    pub(in crate::cli) fn settle(&mut self) {
        if let Some(held) = self.held.take() {
            held.into_iter().for_each(|one| self.put(one));
        }
    }

    fn put(&mut self, said: Say) {
        match said {
            Say::Picture(lines) => output::aside(&self.screen.draw(&lines, Size::of(stderr()))),
            Say::Words(words) => {
                self.screen.settle();
                output::part(&words);
            }
            Say::Line(line) => {
                self.screen.settle();
                output::error(&line);
            }
            Say::Aside(line) => {
                self.screen.settle();
                output::error(&paint(&line, Role::Faint, colour(Stream::Err)));
            }
        }
    }
}

pub(in crate::cli) fn can_draw() -> bool {
    Environment::from_process().get(TERM).is_some_and(|term| term != "dumb")
}

/// The terminal as it was before keys were hidden; it is put back when this goes.
struct Hush(Termios);

impl Hush {
    fn begin() -> Option<Self> {
        let before = tcgetattr(stdin()).ok()?;
        let mut hushed = before.clone();
        hushed.local_modes.remove(LocalModes::ECHO);
        tcsetattr(stdin(), OptionalActions::Now, &hushed).ok()?;
        Some(Self(before))
    }
}

impl Drop for Hush {
    fn drop(&mut self) {
        tcsetattr(stdin(), OptionalActions::Now, &self.0).ok();
    }
}

/// Lines a person types as answers. Nothing is read before it is asked for.
pub(in crate::cli) struct Keyboard {
    input: Option<AsyncFd<OwnedFd>>,
    typed: Vec<u8>,
}

impl Keyboard {
    pub(in crate::cli) fn new() -> Self {
        Self { input: None, typed: Vec::new() }
    }

    /// Can a person be asked?
    pub(in crate::cli) fn has_person() -> bool {
        stdin().is_terminal() && stderr().is_terminal()
    }

    /// The next line, empty when there are no more; never when nobody can type. Safe to drop while it waits.
    pub(in crate::cli) async fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.typed.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.typed.drain(..=end).collect();
                return String::from_utf8_lossy(&line).into_owned();
            }
            match self.more().await {
                Ok(0) => return String::from_utf8_lossy(&std::mem::take(&mut self.typed)).into_owned(),
                Ok(_) if self.typed.len() <= MAX_LINE => {}
                Ok(_) => self.typed.clear(),
                Err(_) => std::future::pending().await,
            }
        }
    }

    async fn more(&mut self) -> io::Result<usize> {
        if self.input.is_none() {
            let input = rustix::io::fcntl_dupfd_cloexec(stdin(), 0)?;
            #[expect(deprecated, reason = "its successor is unsafe; an owned descriptor stays what it is")]
            let input = AsyncFd::with_interest(input, Interest::READABLE)?;
            self.input = Some(input);
        }
        let Some(input) = &self.input else { return Ok(0) };
        loop {
            let mut ready = input.readable().await?;
            // The terminal is not in non-blocking mode, which it shares with whoever else uses it.
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

/// Time that goes by while somebody is at work.
pub(in crate::cli) struct Beats {
    began: tokio::time::Instant,
    beat: Option<tokio::time::Interval>,
}

impl Beats {
    /// Beats only where something is drawn.
    pub(in crate::cli) fn new(asides: Asides) -> Self {
        let beat = (asides == Asides::Pictures).then(|| {
            let mut beat = tokio::time::interval(super::page::BEAT);
            beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
            beat
        });
        Self { began: tokio::time::Instant::now(), beat }
    }

    /// How long it has been. Safe to drop while it waits.
    pub(in crate::cli) async fn next(&mut self) -> Duration {
        match &mut self.beat {
            Some(beat) => {
                beat.tick().await;
                self.began.elapsed()
            }
            None => std::future::pending().await,
        }
    }
}
