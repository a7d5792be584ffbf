//! Follows one run over its connection and sends the user's answers.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use super::WatchOutcome;
use super::event::{RunEvent, RunEventKind};
use super::questions::{ApprovalQuestion, EnqueueOutcome, QuestionQueue, is_yes, prompt_text};
use super::terminal::{TerminalInput, TerminalWriter, TickTimer};
use super::view::{DisplayUpdate, ProgressDisplay, RunView, arguments_text};
use crate::cli::approval_mode::{self, ApprovalResponder, UnattendedMode};
use crate::cli::failure::CommandFailure;
use crate::cli::remedy;
use crate::client::runs::{RunEnd, RunFrame, RunsClient};
use crate::output;

/// How long a cancelled run may take to end.
const CANCEL_GRACE: Duration = Duration::from_secs(2);
/// Exit codes of shells for programs ended by these signals.
const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;

/// The effect of Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InterruptAction {
    /// Cancels the run, which belongs to this command.
    CancelRun,
    /// Stops following; the run continues.
    Detach,
}

pub(super) struct RunFollower {
    client: RunsClient,
    id: String,
    json: bool,
    interrupt: InterruptAction,
    responder: ApprovalResponder,
    view: RunView,
    terminal: TerminalWriter,
    keyboard: TerminalInput,
    questions: QuestionQueue,
    ticks: TickTimer,
    signals: ExitSignals,
    pending_exit: Option<PendingExit>,
    last_event: u64,
}

struct PendingExit {
    code: u8,
    until: Instant,
}

enum FollowEvent {
    Tick(Duration),
    Frame(anyhow::Result<RunFrame>),
    Line(String),
    Signal(u8),
    GraceElapsed(u8),
}

impl RunFollower {
    pub(super) fn new(
        client: RunsClient,
        id: String,
        json: bool,
        interrupt: InterruptAction,
        answerer: ApprovalResponder,
    ) -> Result<Self, CommandFailure> {
        Ok(Self {
            client,
            id,
            json,
            interrupt,
            responder: answerer,
            view: RunView::new(
                TerminalWriter::reply_timing(),
                TerminalWriter::progress_display(),
                TerminalWriter::layout(),
            ),
            terminal: TerminalWriter::new(),
            keyboard: TerminalInput::new(),
            questions: QuestionQueue::default(),
            ticks: TickTimer::new(if json { ProgressDisplay::None } else { TerminalWriter::progress_display() }),
            signals: ExitSignals::new()?,
            pending_exit: None,
            last_event: 0,
        })
    }

    pub(super) async fn watch(mut self) -> Result<WatchOutcome, CommandFailure> {
        if !self.json {
            self.terminal.hide_typing();
        }
        loop {
            match self.next_event().await {
                FollowEvent::Tick(elapsed) => {
                    self.view.resize(TerminalWriter::columns());
                    self.terminal.show(self.view.tick(elapsed));
                }
                FollowEvent::Frame(Ok(RunFrame::Event(raw))) => self.event(raw.get()).await?,
                FollowEvent::Frame(Ok(RunFrame::End(end))) => return Ok(self.ended(&end)),
                FollowEvent::Frame(Ok(RunFrame::Error(error))) => return Ok(self.failed(&error)),
                FollowEvent::Frame(Ok(RunFrame::ApprovalRefused(error))) => self.remark(&error),
                FollowEvent::Frame(Err(error)) => return self.disconnected(&error),
                FollowEvent::Line(line) => self.answer(&line).await?,
                FollowEvent::Signal(code) => {
                    if self.pending_exit.is_some() {
                        return Ok(self.leave(code, true));
                    }
                    if self.interrupt == InterruptAction::Detach {
                        return Ok(self.leave(code, false));
                    }
                    self.client.cancel(&self.id).await?;
                    self.pending_exit = Some(PendingExit { code, until: Instant::now() + CANCEL_GRACE });
                }
                FollowEvent::GraceElapsed(code) => return Ok(self.leave(code, false)),
            }
        }
    }

    async fn next_event(&mut self) -> FollowEvent {
        let leaving = self.pending_exit.as_ref().map(|leaving| (leaving.code, leaving.until));
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
            code = self.signals.next() => FollowEvent::Signal(code),
            code = too_long => FollowEvent::GraceElapsed(code),
            line = self.keyboard.line(), if !self.questions.is_empty() => FollowEvent::Line(line),
            frame = self.client.next_frame() => FollowEvent::Frame(frame),
            elapsed = self.ticks.next() => FollowEvent::Tick(elapsed),
        }
    }

    async fn event(&mut self, raw: &str) -> Result<(), CommandFailure> {
        if self.json {
            output::print_line(raw);
        }
        let event = RunEvent::parse(raw)
            .map_err(|error| CommandFailure::failed(format!("an event cannot be read: {error}")))?;
        self.last_event = event.event_id;
        if let RunEventKind::ToolApproval { call_id: Some(call_id), name, arguments, reason } = &event.kind {
            let (call, reason) = (format!("{name} {}", arguments_text(arguments)), reason.as_deref());
            match self.responder {
                ApprovalResponder::Unattended(UnattendedMode::Refuse) => {
                    let ways = "`--approvals wait` lets it wait for `patchboard approvals`";
                    self.remark(&with_reason(reason, approval_mode::refusal_text(name, &call, ways)));
                    self.client.approve(&self.id, call_id, false).await?;
                }
                ApprovalResponder::Person | ApprovalResponder::Unattended(UnattendedMode::Wait) => {
                    self.request_approval(call_id, &call, reason);
                }
            }
        }
        if let RunEventKind::ToolEnd { call_id: Some(call_id), .. } = &event.kind {
            self.settled(call_id);
        }
        if !self.json {
            self.terminal.show(self.view.event(&event));
        }
        Ok(())
    }

    /// Asks the person at the terminal; without one, shows how to answer.
    fn request_approval(&mut self, call_id: &str, call: &str, reason: Option<&str>) {
        if self.responder == ApprovalResponder::Person {
            let (id, prompt) = (call_id.to_owned(), prompt_text(call, reason));
            match self.questions.add(ApprovalQuestion { call: id.clone(), id, prompt }) {
                EnqueueOutcome::Current => return self.ask(),
                EnqueueOutcome::Queued => return,
                EnqueueOutcome::Full => {}
            }
        }
        self.remark(&with_reason(reason, approval_mode::invitation_text(call_id, call, "")));
    }

    fn ask(&mut self) {
        match self.questions.current() {
            Some(question) => {
                self.terminal.show(self.view.pause());
                self.terminal.ask(&question.prompt);
            }
            None => {
                self.terminal.resume();
                self.terminal.hide_typing();
            }
        }
    }

    async fn answer(&mut self, line: &str) -> Result<(), CommandFailure> {
        if let Some(question) = self.questions.pop() {
            self.client.approve(&self.id, &question.id, is_yes(line)).await?;
            self.ask();
        }
        Ok(())
    }

    /// Drops a question that another client answered or that expired.
    fn settled(&mut self, call_id: &str) {
        if self.questions.remove_call(call_id) {
            output::eprint_line("(settled)");
            self.ask();
        }
    }

    fn ended(mut self, end: &RunEnd) -> WatchOutcome {
        self.terminal.resume();
        if self.json {
            output::print_line(&serde_json::to_string(end).unwrap_or_default());
        } else {
            self.terminal.show(self.view.ended(end));
        }
        // The run ended before the cancellation took effect.
        self.pending_exit.map_or(ExitCode::SUCCESS, |leaving| ExitCode::from(leaving.code)).into()
    }

    fn failed(mut self, error: &str) -> WatchOutcome {
        self.show_failure(error);
        self.pending_exit.map_or(ExitCode::FAILURE, |leaving| ExitCode::from(leaving.code)).into()
    }

    fn disconnected(mut self, error: &anyhow::Error) -> Result<WatchOutcome, CommandFailure> {
        if let Some(PendingExit { code, .. }) = self.pending_exit {
            return Ok(self.leave(code, false));
        }
        let error = format!("{error:#}");
        if self.json {
            self.show_failure(&error);
            return Ok(ExitCode::FAILURE.into());
        }
        self.terminal.resume();
        self.terminal.show(self.view.pause());
        let id = output::one_line(&self.id);
        Err(CommandFailure::failed(error)
            .hint(format!("if the run goes on, `patchboard attach {id} --after {}` follows it", self.last_event)))
    }

    fn leave(mut self, code: u8, in_haste: bool) -> WatchOutcome {
        self.terminal.resume();
        if self.json {
            output::print_line(&json!({ "error": "interrupted" }).to_string());
        } else {
            self.terminal.show(self.view.pause());
            if self.interrupt == InterruptAction::Detach {
                let id = output::one_line(&self.id);
                let again = format!("the run goes on; `patchboard attach {id} --after {}` follows it", self.last_event);
                self.terminal.show(vec![DisplayUpdate::Line(again)]);
            }
        }
        WatchOutcome { code: ExitCode::from(code), is_immediate: in_haste }
    }

    fn show_failure(&mut self, error: &str) {
        self.terminal.resume();
        if self.json {
            output::print_line(&json!({ "error": error }).to_string());
        } else {
            self.terminal.show(self.view.pause());
            let advice = remedy::advise(error);
            let mut lines = vec![DisplayUpdate::Line(format!("error: {}", output::plain(&advice.problem)))];
            lines.extend(advice.hint.map(|hint| DisplayUpdate::Line(format!("hint: {}", output::plain(&hint)))));
            self.terminal.show(lines);
        }
    }

    fn remark(&mut self, text: &str) {
        if !self.json {
            self.terminal.show(self.view.pause());
        }
        self.terminal.show(vec![DisplayUpdate::Line(output::plain(text))]);
    }
}

/// Prepends the reason if there is one beyond the policy.
fn with_reason(reason: Option<&str>, text: String) -> String {
    match reason {
        Some(reason) => format!("{reason}\n{text}"),
        None => text,
    }
}

/// SIGINT and SIGTERM.
struct ExitSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl ExitSignals {
    fn new() -> Result<Self, CommandFailure> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => INTERRUPTED,
            _ = self.terminate.recv() => TERMINATED,
        }
    }
}
