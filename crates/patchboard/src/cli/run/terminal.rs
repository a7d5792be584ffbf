//! Where a run's words go, and where a person's come from.

use std::io::{BufRead, IsTerminal, stderr, stdin, stdout};

use tokio::sync::mpsc;

use super::view::{Asides, Reply, Say};
use crate::cli::output;
use crate::cli::screen::{Screen, Size};
use crate::config::Environment;
use crate::config::env::{NO_COLOR, TERM};

/// Does what a view says.
pub(super) struct Terminal {
    screen: Screen,
    colour: bool,
    /// A question stands at the end of the screen: what is said meanwhile waits.
    held: Option<Vec<Say>>,
}

impl Terminal {
    pub(super) fn new() -> Self {
        let colour = Environment::from_process().get(NO_COLOR).is_none() && stderr().is_terminal();
        Self { screen: Screen::default(), colour, held: None }
    }

    pub(super) fn reply() -> Reply {
        if stdout().is_terminal() { Reply::AsItComes } else { Reply::AtTheEnd }
    }

    pub(super) fn asides() -> Asides {
        let can_draw = Environment::from_process().get(TERM).is_some_and(|term| term != "dumb");
        match (stderr().is_terminal(), can_draw) {
            (false, _) => Asides::None,
            (true, false) => Asides::Lines,
            (true, true) => Asides::Pictures,
        }
    }

    pub(super) fn say(&mut self, said: Vec<Say>) {
        match &mut self.held {
            Some(held) => held.extend(said),
            None => said.into_iter().for_each(|one| self.put(one)),
        }
    }

    /// Puts a question at the end of the screen and holds everything else back until it is settled.
    pub(super) fn ask(&mut self, question: &str) {
        self.screen.settle();
        output::aside(question);
        self.held.get_or_insert_default();
    }

    pub(super) fn settle(&mut self) {
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
                output::error(&if self.colour { format!("\x1b[2m{line}\x1b[0m") } else { line });
            }
        }
    }
}

/// Lines a person types, read from the first question on; the thread that reads ends with the process.
pub(super) struct Keyboard(Option<mpsc::Receiver<String>>);

impl Keyboard {
    pub(super) fn new() -> Self {
        Self(None)
    }

    /// Can a person be asked?
    pub(super) fn has_person() -> bool {
        stdin().is_terminal() && stderr().is_terminal()
    }

    /// The next line; never when nobody can type. Safe to drop while it waits.
    pub(super) async fn line(&mut self) -> String {
        let lines = self.0.get_or_insert_with(|| {
            let (typed, lines) = mpsc::channel(1);
            std::thread::spawn(move || {
                let read = stdin().lock().lines().map_while(Result::ok);
                for line in read {
                    if typed.blocking_send(line).is_err() {
                        return;
                    }
                }
            });
            lines
        });
        match lines.recv().await {
            Some(line) => line,
            None => std::future::pending().await,
        }
    }
}
