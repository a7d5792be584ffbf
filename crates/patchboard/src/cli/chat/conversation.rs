//! Runs a conversation over its connection: sends messages, shows replies, and answers approval questions.

use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::context::ChatContext;
use super::turn::{ChatTurn, FrameEffect};
use crate::cli::failure::CommandFailure;
use crate::cli::run::questions::{EnqueueOutcome, QuestionQueue, is_yes};
use crate::cli::run::terminal::{TerminalInput, TerminalWriter, TickTimer};
use crate::cli::run::view::{DisplayUpdate, ProgressDisplay};
use crate::client::{GatewayClient, ServerAddress};
use crate::output;

pub(super) struct Conversation {
    pub(super) address: ServerAddress,
    pub(super) context: ChatContext,
    client: GatewayClient,
    json: bool,
    terminal: TerminalWriter,
    keyboard: TerminalInput,
    interrupt: Signal,
}

/// The outcome of a turn.
#[derive(Debug)]
pub(super) enum TurnOutcome {
    Completed,
    Failed,
    /// Cancelled by Ctrl-C.
    Cancelled,
    /// A second Ctrl-C: leave without waiting.
    Aborted,
    /// The connection to the server is lost.
    Disconnected(CommandFailure),
}

enum TurnEvent {
    Frame(anyhow::Result<Value>),
    Interrupt,
    Line(String),
    Tick(std::time::Duration),
}

impl Conversation {
    pub(super) async fn connect(
        address: ServerAddress,
        context: ChatContext,
        json: bool,
    ) -> Result<Self, CommandFailure> {
        let client = GatewayClient::connect(&address).await.map_err(CommandFailure::from_connect_error)?;
        let (terminal, keyboard) = (TerminalWriter::new(), TerminalInput::new());
        Ok(Self { address, context, client, json, terminal, keyboard, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Connects again, for instance to a restarted server. The context is kept.
    pub(super) async fn reconnect(&mut self, address: ServerAddress) -> Result<(), CommandFailure> {
        self.client = GatewayClient::connect(&address).await.map_err(CommandFailure::from_connect_error)?;
        self.address = address;
        Ok(())
    }

    pub(super) async fn is_alive(&mut self) -> bool {
        self.client.call("ping", Value::Null).await.is_ok()
    }

    /// Sends a request outside of turns.
    pub(super) async fn request(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        self.client.call(method, params).await
    }

    pub(super) async fn list(&mut self, method: &str, params: Value) -> anyhow::Result<Vec<Value>> {
        self.client.list(method, params, 500).await
    }

    /// Reads a line where there is no editor.
    pub(super) async fn line(&mut self) -> Option<String> {
        tokio::select! {
            line = self.keyboard.line() => Some(line).filter(|line| !line.is_empty()),
            _ = self.interrupt.recv() => None,
        }
    }

    pub(super) async fn turn(&mut self, content: &str) -> Result<TurnOutcome, CommandFailure> {
        let progress = if self.json { ProgressDisplay::None } else { TerminalWriter::progress_display() };
        let mut turn = ChatTurn::new(TerminalWriter::reply_timing(), progress, TerminalWriter::layout());
        if !self.json {
            self.terminal.hide_typing();
        }
        let ended = self.follow(&mut turn, content, TickTimer::new(progress)).await;
        let mut updates = Vec::new();
        turn.end(&mut updates);
        self.show(updates);
        self.terminal.resume();
        self.terminal.show_typing();
        Ok(ended)
    }

    async fn follow(&mut self, turn: &mut ChatTurn, content: &str, mut ticks: TickTimer) -> TurnOutcome {
        let mut id = match self.client.send("chat.send", self.context.send_params(content)).await {
            Ok(id) => id,
            Err(error) => return TurnOutcome::Disconnected(connection_lost(&error)),
        };
        let mut questions = QuestionQueue::default();
        let mut ended = TurnOutcome::Completed;
        loop {
            let event = tokio::select! {
                _ = self.interrupt.recv() => TurnEvent::Interrupt,
                line = self.keyboard.line(), if !questions.is_empty() => TurnEvent::Line(line),
                frame = self.client.next_frame() => TurnEvent::Frame(frame),
                elapsed = ticks.next() => TurnEvent::Tick(elapsed),
            };
            let frame = match event {
                TurnEvent::Frame(Ok(frame)) => frame,
                TurnEvent::Frame(Err(error)) => return TurnOutcome::Disconnected(connection_lost(&error)),
                TurnEvent::Tick(elapsed) => {
                    turn.display().resize(TerminalWriter::columns());
                    let updates = turn.display().tick(elapsed);
                    self.show(updates);
                    continue;
                }
                TurnEvent::Line(line) => {
                    if let Some(question) = questions.pop()
                        && let Err(error) = self.answer(&question.id, is_yes(&line)).await
                    {
                        return TurnOutcome::Disconnected(connection_lost(&error));
                    }
                    self.ask_next(turn, &questions);
                    continue;
                }
                TurnEvent::Interrupt if matches!(ended, TurnOutcome::Cancelled) => return TurnOutcome::Aborted,
                TurnEvent::Interrupt => {
                    if let Err(error) = self.client.send("chat.cancel", json!({ "id": id })).await {
                        return TurnOutcome::Disconnected(connection_lost(&error));
                    }
                    ended = TurnOutcome::Cancelled;
                    questions = QuestionQueue::default();
                    self.terminal.resume();
                    self.emit(|updates| turn.line("(stopped; Ctrl-C again leaves at once)".to_owned(), updates));
                    continue;
                }
            };
            if frame.get("id").and_then(Value::as_str) != Some(&id) {
                continue;
            }
            // The server checks the folder before it stores anything of the turn, so the message can be sent again.
            let refusal = frame.get("error").and_then(Value::as_str);
            if let Some(notice) = refusal.and_then(|refusal| self.context.folder.fall_back(refusal)) {
                self.emit(|updates| turn.line(output::plain(&notice), updates));
                id = match self.client.send("chat.send", self.context.send_params(content)).await {
                    Ok(id) => id,
                    Err(error) => return TurnOutcome::Disconnected(connection_lost(&error)),
                };
                continue;
            }
            if self.json {
                output::print_line(&frame.to_string());
            }
            if let Some(problem) = frame.get("error") {
                let problem = problem.as_str().unwrap_or("the server refused");
                self.emit(|updates| turn.line(format!("error: {}", output::plain(problem)), updates));
                return TurnOutcome::Failed;
            }
            let event = frame.get("event").and_then(Value::as_str).unwrap_or_default();
            let data = frame.get("data").unwrap_or(&Value::Null);
            let mut updates = Vec::new();
            let step = turn.event(event, data, &mut updates);
            self.show(updates);
            match step {
                FrameEffect::Continue => {}
                FrameEffect::Done => return ended,
                FrameEffect::Failed(_) => ended = TurnOutcome::Failed,
                FrameEffect::CallFinished(call) => {
                    if questions.remove_call(&call) {
                        output::eprint_line("(settled)");
                        self.ask_next(turn, &questions);
                    }
                }
                FrameEffect::AskApproval(question) => {
                    // Approval needs a person at the terminal, so without one the tool is refused at once.
                    let outcome = match TerminalInput::is_interactive() && !self.json {
                        true => questions.add(question),
                        false => {
                            self.emit(|updates| turn.note_refusal(updates));
                            if let Err(error) = self.answer(&question.id, false).await {
                                return TurnOutcome::Disconnected(connection_lost(&error));
                            }
                            continue;
                        }
                    };
                    if outcome == EnqueueOutcome::Current {
                        self.ask_next(turn, &questions);
                    }
                }
            }
        }
    }

    /// Sends without waiting; the server's reply arrives among the frames.
    async fn answer(&mut self, approval: &str, approve: bool) -> anyhow::Result<()> {
        self.client.send("approval.answer", json!({ "approval_id": approval, "approve": approve })).await.map(drop)
    }

    fn ask_next(&mut self, turn: &mut ChatTurn, questions: &QuestionQueue) {
        match questions.current() {
            Some(question) => {
                self.emit(|updates| turn.end(updates));
                self.terminal.ask(&question.prompt);
            }
            None => {
                self.terminal.resume();
                self.terminal.hide_typing();
            }
        }
    }

    fn emit(&mut self, what: impl FnOnce(&mut Vec<DisplayUpdate>)) {
        let mut updates = Vec::new();
        what(&mut updates);
        self.show(updates);
    }

    fn show(&mut self, updates: Vec<DisplayUpdate>) {
        if !self.json {
            self.terminal.show(updates);
        }
    }
}

fn connection_lost(error: &anyhow::Error) -> CommandFailure {
    CommandFailure::unreachable(format!("the server is gone: {error:#}"))
        .hint("what was said until then is kept. Start it again with `patchboard serve`; `patchboard chat` goes on with the conversation")
}
