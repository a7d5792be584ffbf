//! Follows one run over its connection, and carries what a person says back to it.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use super::Watched;
use super::event::{Event, Happening};
use super::questions::{Asked, Question, Questions, is_yes, words};
use super::terminal::{Beats, Keyboard, Terminal};
use super::view::{Asides, Say, View, shown};
use crate::cli::approval_mode::{self, Answerer, Unattended};
use crate::cli::failure::Failure;
use crate::cli::{output, remedy};
use crate::client::runs::{Frame, RunEnd, RunsClient};

/// How long a cancelled run may take to say that it is over.
const FAREWELL: Duration = Duration::from_secs(2);
/// Exit codes of programs ended by these signals, as shells count them.
const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;

/// What Ctrl-C means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interrupt {
    /// The run is this command's.
    Cancels,
    /// The run is only watched.
    Leaves,
}

pub(super) struct Follow {
    client: RunsClient,
    id: String,
    json: bool,
    interrupt: Interrupt,
    answerer: Answerer,
    view: View,
    terminal: Terminal,
    keyboard: Keyboard,
    questions: Questions,
    beats: Beats,
    signals: Signals,
    leaving: Option<Leaving>,
    last_event: u64,
}

struct Leaving {
    code: u8,
    until: Instant,
}

enum Heard {
    Beat(Duration),
    Frame(anyhow::Result<Frame>),
    Line(String),
    Signal(u8),
    TooLong(u8),
}

impl Follow {
    pub(super) fn new(
        client: RunsClient,
        id: String,
        json: bool,
        interrupt: Interrupt,
        answerer: Answerer,
    ) -> Result<Self, Failure> {
        Ok(Self {
            client,
            id,
            json,
            interrupt,
            answerer,
            view: View::new(Terminal::reply(), Terminal::asides(), Terminal::look()),
            terminal: Terminal::new(),
            keyboard: Keyboard::new(),
            questions: Questions::default(),
            beats: Beats::new(if json { Asides::None } else { Terminal::asides() }),
            signals: Signals::new()?,
            leaving: None,
            last_event: 0,
        })
    }

    pub(super) async fn watch(mut self) -> Result<Watched, Failure> {
        if !self.json {
            self.terminal.hush();
        }
        loop {
            match self.hear().await {
                Heard::Beat(elapsed) => {
                    self.view.resize(Terminal::columns());
                    self.terminal.say(self.view.tick(elapsed));
                }
                Heard::Frame(Ok(Frame::Event(raw))) => self.event(raw.get()).await?,
                Heard::Frame(Ok(Frame::End(end))) => return Ok(self.ended(&end)),
                Heard::Frame(Ok(Frame::Error(error))) => return Ok(self.failed(&error)),
                Heard::Frame(Ok(Frame::ApprovalRefused(error))) => self.remark(&error),
                Heard::Frame(Err(error)) => return self.broke_off(&error),
                Heard::Line(line) => self.answer(&line).await?,
                Heard::Signal(code) => {
                    if self.leaving.is_some() {
                        return Ok(self.leave(code, true));
                    }
                    if self.interrupt == Interrupt::Leaves {
                        return Ok(self.leave(code, false));
                    }
                    self.client.cancel(&self.id).await?;
                    self.leaving = Some(Leaving { code, until: Instant::now() + FAREWELL });
                }
                Heard::TooLong(code) => return Ok(self.leave(code, false)),
            }
        }
    }

    async fn hear(&mut self) -> Heard {
        let leaving = self.leaving.as_ref().map(|leaving| (leaving.code, leaving.until));
        let too_long = async move {
            match leaving {
                Some((code, until)) => {
                    tokio::time::sleep_until(until).await;
                    code
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            code = self.signals.next() => Heard::Signal(code),
            code = too_long => Heard::TooLong(code),
            line = self.keyboard.line(), if !self.questions.is_empty() => Heard::Line(line),
            frame = self.client.frame() => Heard::Frame(frame),
            elapsed = self.beats.next() => Heard::Beat(elapsed),
        }
    }

    async fn event(&mut self, raw: &str) -> Result<(), Failure> {
        if self.json {
            output::line(raw);
        }
        let event = Event::read(raw).map_err(|error| Failure::failed(format!("an event cannot be read: {error}")))?;
        self.last_event = event.event_id;
        if let Happening::ToolApproval { call_id: Some(call_id), name, arguments, reason } = &event.what {
            let (call, reason) = (format!("{name} {}", shown(arguments)), reason.as_deref());
            match self.answerer {
                Answerer::Nobody(Unattended::Refuse) => {
                    let ways = "`--approvals wait` lets it wait for `patchboard approvals`";
                    self.remark(&because(reason, approval_mode::refusal(name, &call, ways)));
                    self.client.approve(&self.id, call_id, false).await?;
                }
                Answerer::Person | Answerer::Nobody(Unattended::Wait) => self.wanted(call_id, &call, reason),
            }
        }
        if let Happening::ToolEnd { call_id: Some(call_id), .. } = &event.what {
            self.settled(call_id);
        }
        if !self.json {
            self.terminal.say(self.view.event(&event));
        }
        Ok(())
    }

    /// A person at the terminal is asked; elsewhere it is told how to answer.
    fn wanted(&mut self, call_id: &str, call: &str, reason: Option<&str>) {
        if self.answerer == Answerer::Person {
            let (id, words) = (call_id.to_owned(), words(call, reason));
            match self.questions.add(Question { call: id.clone(), id, words }) {
                Asked::Now => return self.ask(),
                Asked::Later => return,
                Asked::Never => {}
            }
        }
        self.remark(&because(reason, approval_mode::invitation(call_id, call, "")));
    }

    fn ask(&mut self) {
        match self.questions.now() {
            Some(question) => {
                self.terminal.say(self.view.pause());
                self.terminal.ask(&question.words);
            }
            None => {
                self.terminal.settle();
                self.terminal.hush();
            }
        }
    }

    async fn answer(&mut self, line: &str) -> Result<(), Failure> {
        if let Some(question) = self.questions.take() {
            self.client.approve(&self.id, &question.id, is_yes(line)).await?;
            self.ask();
        }
        Ok(())
    }

    /// Somebody else has answered, or nobody has in time.
    fn settled(&mut self, call_id: &str) {
        if self.questions.settled(call_id) {
            output::error("(settled)");
            self.ask();
        }
    }

    fn ended(mut self, end: &RunEnd) -> Watched {
        self.terminal.settle();
        if self.json {
            output::line(&serde_json::to_string(end).unwrap_or_default());
        } else {
            self.terminal.say(self.view.ended(end));
        }
        // Cancelled too late: it came to its end all the same.
        self.leaving.map_or(ExitCode::SUCCESS, |leaving| ExitCode::from(leaving.code)).into()
    }

    fn failed(mut self, error: &str) -> Watched {
        self.say_failure(error);
        self.leaving.map_or(ExitCode::FAILURE, |leaving| ExitCode::from(leaving.code)).into()
    }

    fn broke_off(mut self, error: &anyhow::Error) -> Result<Watched, Failure> {
        if let Some(Leaving { code, .. }) = self.leaving {
            return Ok(self.leave(code, false));
        }
        let error = format!("{error:#}");
        if self.json {
            self.say_failure(&error);
            return Ok(ExitCode::FAILURE.into());
        }
        self.terminal.settle();
        self.terminal.say(self.view.pause());
        let id = output::one_line(&self.id);
        Err(Failure::failed(error)
            .hint(format!("if the run goes on, `patchboard attach {id} --after {}` follows it", self.last_event)))
    }

    fn leave(mut self, code: u8, in_haste: bool) -> Watched {
        self.terminal.settle();
        if self.json {
            output::line(&json!({ "error": "interrupted" }).to_string());
        } else {
            self.terminal.say(self.view.pause());
            if self.interrupt == Interrupt::Leaves {
                let id = output::one_line(&self.id);
                let again = format!("the run goes on; `patchboard attach {id} --after {}` follows it", self.last_event);
                self.terminal.say(vec![Say::Line(again)]);
            }
        }
        Watched { code: ExitCode::from(code), in_haste }
    }

    fn say_failure(&mut self, error: &str) {
        self.terminal.settle();
        if self.json {
            output::line(&json!({ "error": error }).to_string());
        } else {
            self.terminal.say(self.view.pause());
            let told = remedy::of(error);
            let mut lines = vec![Say::Line(format!("error: {}", output::plain(&told.problem)))];
            lines.extend(told.hint.map(|hint| Say::Line(format!("hint: {}", output::plain(&hint)))));
            self.terminal.say(lines);
        }
    }

    fn remark(&mut self, text: &str) {
        if !self.json {
            self.terminal.say(self.view.pause());
        }
        self.terminal.say(vec![Say::Line(output::plain(text))]);
    }
}

/// With why it is asked, where that is more than the policy.
fn because(reason: Option<&str>, text: String) -> String {
    match reason {
        Some(reason) => format!("{reason}\n{text}"),
        None => text,
    }
}

/// Ctrl-C, and what `kill` sends.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => INTERRUPTED,
            _ = self.terminate.recv() => TERMINATED,
        }
    }
}
