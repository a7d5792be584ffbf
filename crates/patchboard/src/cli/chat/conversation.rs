//! Carries a conversation over its connection: what is said goes there, what comes back is shown, and questions about tools
//! are answered.

use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::request::Talk;
use super::turn::{Step, Turn};
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::cli::run::questions::{Asked, Questions, is_yes};
use crate::cli::run::terminal::{Beats, Keyboard, Terminal};
use crate::cli::run::view::{Asides, Say};
use crate::client::{Address, Client};

pub(super) struct Conversation {
    pub(super) address: Address,
    pub(super) talk: Talk,
    client: Client,
    json: bool,
    terminal: Terminal,
    keyboard: Keyboard,
    interrupt: Signal,
}

/// How a turn went.
#[derive(Debug)]
pub(super) enum Ended {
    Well,
    Badly,
    /// Ctrl-C.
    Cancelled,
    /// A second Ctrl-C: nothing more is waited for.
    Left,
    /// The server is gone.
    Lost(Failure),
}

enum Heard {
    Frame(anyhow::Result<Value>),
    Interrupt,
    Line(String),
    Beat(std::time::Duration),
}

impl Conversation {
    pub(super) async fn connect(address: Address, talk: Talk, json: bool) -> Result<Self, Failure> {
        let client = Client::connect(&address).await.map_err(Failure::no_server)?;
        let (terminal, keyboard) = (Terminal::new(), Keyboard::new());
        Ok(Self { address, talk, client, json, terminal, keyboard, interrupt: signal(SignalKind::interrupt())? })
    }

    /// A server that was started again is as good as the one before.
    pub(super) async fn reconnect(&mut self, address: Address) -> Result<(), Failure> {
        self.client = Client::connect(&address).await.map_err(Failure::no_server)?;
        self.address = address;
        Ok(())
    }

    pub(super) async fn is_alive(&mut self) -> bool {
        self.client.call("ping", Value::Null).await.is_ok()
    }

    /// A request beside the turns.
    pub(super) async fn ask(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        self.client.call(method, params).await
    }

    pub(super) async fn list(&mut self, method: &str, params: Value) -> anyhow::Result<Vec<Value>> {
        self.client.list(method, params, 500).await
    }

    /// A line a person types where there is no editor.
    pub(super) async fn line(&mut self) -> Option<String> {
        tokio::select! {
            line = self.keyboard.line() => Some(line).filter(|line| !line.is_empty()),
            _ = self.interrupt.recv() => None,
        }
    }

    pub(super) async fn turn(&mut self, content: &str) -> Result<Ended, Failure> {
        let asides = if self.json { Asides::None } else { Terminal::asides() };
        let mut turn = Turn::new(Terminal::reply(), asides, Terminal::look());
        if !self.json {
            self.terminal.hush();
        }
        let ended = self.follow(&mut turn, content, Beats::new(asides)).await;
        let mut said = Vec::new();
        turn.end(&mut said);
        self.say(said);
        self.terminal.settle();
        self.terminal.unhush();
        Ok(ended)
    }

    async fn follow(&mut self, turn: &mut Turn, content: &str, mut beats: Beats) -> Ended {
        let mut id = match self.client.send("chat.send", self.talk.send(content)).await {
            Ok(id) => id,
            Err(error) => return Ended::Lost(lost(&error)),
        };
        let mut questions = Questions::default();
        let mut ended = Ended::Well;
        loop {
            let heard = tokio::select! {
                _ = self.interrupt.recv() => Heard::Interrupt,
                line = self.keyboard.line(), if !questions.is_empty() => Heard::Line(line),
                frame = self.client.frame() => Heard::Frame(frame),
                elapsed = beats.next() => Heard::Beat(elapsed),
            };
            let frame = match heard {
                Heard::Frame(Ok(frame)) => frame,
                Heard::Frame(Err(error)) => return Ended::Lost(lost(&error)),
                Heard::Beat(elapsed) => {
                    turn.page().resize(Terminal::columns());
                    let said = turn.page().tick(elapsed);
                    self.say(said);
                    continue;
                }
                Heard::Line(line) => {
                    if let Some(question) = questions.take()
                        && let Err(error) = self.answer(&question.id, is_yes(&line)).await
                    {
                        return Ended::Lost(lost(&error));
                    }
                    self.ask_next(turn, &questions);
                    continue;
                }
                Heard::Interrupt if matches!(ended, Ended::Cancelled) => return Ended::Left,
                Heard::Interrupt => {
                    if let Err(error) = self.client.send("chat.cancel", json!({ "id": id })).await {
                        return Ended::Lost(lost(&error));
                    }
                    ended = Ended::Cancelled;
                    questions = Questions::default();
                    self.terminal.settle();
                    self.with(|said| turn.line("(stopped; Ctrl-C again leaves at once)".to_owned(), said));
                    continue;
                }
            };
            if frame.get("id").and_then(Value::as_str) != Some(&id) {
                continue;
            }
            // The folder is judged before anything of the turn is kept, so nothing is said twice.
            let refusal = frame.get("error").and_then(Value::as_str);
            if let Some(told) = refusal.and_then(|refusal| self.talk.folder.fall_back(refusal)) {
                self.with(|said| turn.line(output::plain(&told), said));
                id = match self.client.send("chat.send", self.talk.send(content)).await {
                    Ok(id) => id,
                    Err(error) => return Ended::Lost(lost(&error)),
                };
                continue;
            }
            if self.json {
                output::line(&frame.to_string());
            }
            if let Some(problem) = frame.get("error") {
                let problem = problem.as_str().unwrap_or("the server refused");
                self.with(|said| turn.line(format!("error: {}", output::plain(problem)), said));
                return Ended::Badly;
            }
            let event = frame.get("event").and_then(Value::as_str).unwrap_or_default();
            let data = frame.get("data").unwrap_or(&Value::Null);
            let mut said = Vec::new();
            let step = turn.event(event, data, &mut said);
            self.say(said);
            match step {
                Step::Goes => {}
                Step::Done => return ended,
                Step::Failed(_) => ended = Ended::Badly,
                Step::Settled(call) => {
                    if questions.settled(&call) {
                        output::error("(settled)");
                        self.ask_next(turn, &questions);
                    }
                }
                Step::Asks(question) => {
                    // Without a person at the terminal nobody can agree, so the tool is refused at once.
                    let asked = match Keyboard::has_person() && !self.json {
                        true => questions.add(question),
                        false => {
                            self.with(|said| turn.refused(said));
                            if let Err(error) = self.answer(&question.id, false).await {
                                return Ended::Lost(lost(&error));
                            }
                            continue;
                        }
                    };
                    if asked == Asked::Now {
                        self.ask_next(turn, &questions);
                    }
                }
            }
        }
    }

    /// Nobody waits for what the server says to it; that comes among the frames.
    async fn answer(&mut self, approval: &str, approve: bool) -> anyhow::Result<()> {
        self.client.send("approval.answer", json!({ "approval_id": approval, "approve": approve })).await.map(drop)
    }

    fn ask_next(&mut self, turn: &mut Turn, questions: &Questions) {
        match questions.now() {
            Some(question) => {
                self.with(|said| turn.end(said));
                self.terminal.ask(&question.words);
            }
            None => {
                self.terminal.settle();
                self.terminal.hush();
            }
        }
    }

    fn with(&mut self, what: impl FnOnce(&mut Vec<Say>)) {
        let mut said = Vec::new();
        what(&mut said);
        self.say(said);
    }

    fn say(&mut self, said: Vec<Say>) {
        if !self.json {
            self.terminal.say(said);
        }
    }
}

fn lost(error: &anyhow::Error) -> Failure {
    Failure::unreachable(format!("the server is gone: {error:#}"))
        .hint("what was said until then is kept. Start it again with `patchboard serve`; `patchboard chat` goes on with the conversation")
}
