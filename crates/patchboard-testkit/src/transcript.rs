//! Runs a transcript against a dialect, without sockets, clocks or tokio.
//!
//! A transcript is a text file. Input lines:
//!
//! - `> frame` a text frame from the client; `>> binary` a binary one
//! - `= answer` the board's answer to the oldest open command; `=2 answer` to the second command of the file
//! - `~ event` an event on the newest followed topic; `~2 event` on the second one; `event@3` is one of node 3
//! - `| error text` the newest followed topic fails; `|` it ends
//! - `? identity` the answer to a token check: `client`, `operator` or `nobody`
//! - `@ 20s`, `@ 20ms` time passes
//! - `* pong` the client answers a ping
//! - `/ client` the connection closes; the cause is `client`, `stall` or `server`
//!
//! Output lines, which are compared: `! command`, `! ping`, `< frame`, `x code reason`, `x dropped`. `#` starts a
//! comment; the first line may be `#! token` for a connection that has to sign in. Running a transcript returns it with
//! the actual outputs, so that tests compare whole files and readers see the protocol.

use std::time::Duration;

use patchboard_core::caller::GrantSet;
use patchboard_core::id::Seq;
use patchboard_surfaces::auth::ClientIdentity;
use patchboard_surfaces::dialect::{BoardRequest, CloseCause, Dialect, FollowId, Step, Steps, Ticket};

mod read;
mod show;

/// Runs the inputs of a transcript and returns the transcript with its actual outputs.
pub fn play<D: Dialect>(text: &str, mut dialect: D) -> String {
    let mut player = Player::new();
    let needs_token = text.starts_with("#! token");
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next_if(|line| line.starts_with('#') || line.is_empty()) {
        player.say(line);
    }
    player.step(|steps| dialect.opened((!needs_token).then(client), Duration::ZERO, steps));
    for line in lines {
        player.line(line, &mut dialect);
    }
    player.out
}

struct Player<D: Dialect> {
    out: String,
    now: Duration,
    wake_at: Option<Duration>,
    /// Each request until it is answered.
    asked: Vec<(Ticket, Option<BoardRequest<D::Reply>>)>,
    answered: usize,
    follows: Vec<(FollowId, Seq)>,
}

impl<D: Dialect> Player<D> {
    fn new() -> Self {
        Self {
            out: String::new(),
            now: Duration::ZERO,
            wake_at: None,
            asked: Vec::new(),
            answered: 0,
            follows: Vec::new(),
        }
    }

    fn line(&mut self, line: &str, dialect: &mut D) {
        let Some((mark, rest)) = split(line) else {
            if line.is_empty() || line.starts_with('#') {
                self.say(line);
            }
            // Expected outputs are skipped; the actual ones replace them.
            return;
        };
        self.say(line);
        let now = self.now;
        match mark.chars().next() {
            Some('>') if mark == ">>" => self.step(|steps| dialect.binary(rest.as_bytes(), now, steps)),
            Some('>') => self.step(|steps| dialect.text(rest, now, steps)),
            Some('=') => {
                let index = number(mark).unwrap_or(self.answered);
                self.answered += 1;
                let Some((ticket, request)) = self.asked.get_mut(index) else {
                    return self.say("no such command was asked");
                };
                let (ticket, Some(request)) = (*ticket, request.take()) else {
                    return self.say("that command was answered already");
                };
                match read::answer(rest).map(|reply| request.reply_for(reply)) {
                    Ok(Some(reply)) => self.step(|steps| dialect.replied(ticket, reply, now, steps)),
                    Ok(None) => self.say("that command has another type of reply"),
                    Err(problem) => self.say(&problem),
                }
            }
            Some('~') => {
                let index = number(mark).unwrap_or(self.follows.len().saturating_sub(1));
                let Some(&(follow, seq)) = self.follows.get(index) else { return self.say("nothing is followed") };
                match read::event(rest, seq) {
                    Ok(envelope) => {
                        if let Some(slot) = self.follows.get_mut(index) {
                            slot.1 = envelope.last_seq().next();
                        }
                        self.step(|steps| dialect.observed(follow, &envelope, now, steps));
                    }
                    Err(problem) => self.say(&problem),
                }
            }
            Some('|') => {
                let Some(&(follow, _)) = self.follows.last() else { return self.say("nothing is followed") };
                let error = (!rest.is_empty()).then(|| read::error(rest)).transpose();
                match error {
                    Ok(error) => self.step(|steps| dialect.follow_ended(follow, error, steps)),
                    Err(problem) => self.say(&problem),
                }
            }
            Some('?') => {
                let identity = match rest {
                    "client" => Some(client()),
                    "operator" => Some(ClientIdentity::new("operator".into(), GrantSet::OPERATOR)),
                    _ => None,
                };
                self.step(|steps| dialect.authenticated(identity, now, steps));
            }
            Some('@') => self.pass(rest, dialect),
            Some('*') => self.step(|steps| dialect.pong_received(now, steps)),
            Some('/') => match rest {
                "client" => self.step(|steps| dialect.closed(CloseCause::Client, steps)),
                "stall" => self.step(|steps| dialect.closed(CloseCause::Stalled, steps)),
                "server" => self.step(|steps| dialect.closed(CloseCause::Server, steps)),
                other => self.say(&format!("no identity is called `{other}`")),
            },
            _ => {}
        }
    }

    /// Advances the time; a timer that becomes due fires at its own time.
    fn pass(&mut self, text: &str, dialect: &mut D) {
        let read = |unit: &str| text.strip_suffix(unit).and_then(|count| count.parse::<u64>().ok());
        let passed = read("ms").map(Duration::from_millis).or_else(|| read("s").map(Duration::from_secs));
        let Some(passed) = passed else {
            return self.say("time passes in whole seconds or milliseconds, such as `@ 20s` or `@ 5ms`");
        };
        let until = self.now + passed;
        while let Some(due) = self.wake_at.filter(|&due| due <= until) {
            self.wake_at = None;
            self.now = self.now.max(due);
            let now = self.now;
            self.step(|steps| dialect.timer_fired(now, steps));
        }
        self.now = until;
    }

    fn step(&mut self, act: impl FnOnce(&mut Steps<D>)) {
        let mut steps = Vec::new();
        act(&mut steps);
        for step in steps {
            match step {
                Step::Ask(ticket, request) => {
                    let shown = show::command(request.command());
                    self.asked.push((ticket, Some(request)));
                    self.say(&format!("! {shown}"));
                }
                Step::CancelAsk(ticket) => self.say(&format!("! withdraw {}", self.which(ticket))),
                Step::AwaitReply(ticket) => self.say(&format!("! see through {}", self.which(ticket))),
                Step::Follow { follow, topic, from, pace } => {
                    self.follows.push((follow, from));
                    self.say(&format!("! follow {} from {from} {}", show::topic(&topic), show::pace(pace)));
                }
                Step::Authenticate(token) => self.say(&format!("! check token {token:?}")),
                Step::Write(frame) => self.say(&format!("< {frame}")),
                Step::Ping => self.say("! ping"),
                Step::WakeAt(at) => self.wake_at = Some(at),
                Step::CancelWake => self.wake_at = None,
                Step::Close { code, reason } => self.say(&format!("x {code} {reason}")),
                Step::Drop => self.say("x dropped"),
            }
        }
    }

    /// The command's number in the file, counted from 1.
    fn which(&self, ticket: Ticket) -> usize {
        self.asked.iter().position(|&(asked, _)| asked == ticket).map_or(0, |index| index + 1)
    }

    fn say(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }
}

fn client() -> ClientIdentity {
    ClientIdentity::new("local".into(), GrantSet::CLIENT)
}

/// Splits an input line into its mark and the rest; `None` for outputs, comments and blank lines.
fn split(line: &str) -> Option<(&str, &str)> {
    let mark = line.split(' ').next()?;
    let is_input = mark.starts_with(['>', '=', '~', '|', '?', '@', '/', '*']);
    is_input.then(|| (mark, line.get(mark.len()..).unwrap_or_default().trim_start()))
}

/// The `2` of `=2`, as an index.
fn number(mark: &str) -> Option<usize> {
    mark.get(1..)?.parse::<usize>().ok()?.checked_sub(1)
}
