//! The scenario a client is put through, and what is to be said about how it does. A pure machine: what was seen and
//! when goes in, what to do and to say comes out. It knows nothing of sockets.

use std::time::Duration;

use super::frame::{self, Carrier, Frame, Kind, Response};
use super::handshake::{self, Handshake, Place};
use super::script::{self, Message, Script};
use super::verdict::{Finding, Level, Step, Tally, Verdict, quoted};

mod time;

/// Registering sooner is expected; later than this it is remarked upon.
const REGISTER_SOON: Duration = Duration::from_secs(5);
/// The hub drops a connection that is not registered by then.
const REGISTER_LATEST: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(30);
/// An answer that takes longer is remarked upon: the user waits.
const ANSWER_SOON: Duration = Duration::from_secs(10);
const PONG: Duration = Duration::from_secs(10);
/// How long a client may take to close its side.
const FAREWELL: Duration = Duration::from_secs(5);
/// The longest pause of the protocol's back-off is 30 s.
const COME_BACK: Duration = Duration::from_secs(40);
/// After a refusal the pause may have grown already.
const TRY_AGAIN: Duration = Duration::from_secs(70);
/// More verdicts than any client needs; one that goes on is stopped.
const MOST_VERDICTS: usize = 1000;

const AT_ONCE: &str = "a client registers as soon as the connection is open";
const ANSWERED: &str = "a message is answered within 30 s, or it goes to another app";
const ANSWERED_AGAIN: &str = "the same id may come again with a fresh timestamp, and is answered again";
const IGNORED: &str = "frame types and fields that a client does not know are ignored";
const PINGED: &str = "a ping is answered with a pong within 10 s";
const BACK_OFF: &str = "a client that lost the hub tries again after 1, 2, 4, 8, 16, 30, 30… s";
const NOT_HAMMERED: &str = "a refused registration is tried again after a pause that grows";
const STAYS: &str = "a client keeps its connection";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// A connection was made; it is the only one.
    Connected(Handshake),
    /// One that could not be made a WebSocket.
    Stranger(String),
    /// A second one while the first was open; it was turned away.
    Another,
    Data(Carrier, Vec<u8>),
    Pong(Vec<u8>),
    /// What came is not WebSocket, or too large.
    Garbled(String),
    /// With the client's close code, if it gave one.
    Closed(Option<u16>),
    /// Time has passed.
    Nothing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    Say(Verdict),
    /// What is tried now.
    Note(String),
    Send(String),
    Ping(Vec<u8>),
    /// With 1001, as a hub that shuts down.
    Close,
    /// Without a word.
    Drop,
    /// That was all.
    Finish,
}

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) place: Place,
    /// One connection, without leaving and coming back.
    pub(super) once: bool,
    /// For everything together.
    pub(super) timeout: Duration,
}

#[derive(Debug)]
pub(super) struct Judge {
    plan: Plan,
    script: Script,
    phase: Phase,
    /// When the phase is to end by itself.
    until: Duration,
    tally: Tally,
    name: Option<String>,
    /// Messages that are to be answered.
    awaited: Vec<Awaited>,
    /// Messages that were given up.
    late: Vec<Message>,
    /// How long the client stayed away the first time.
    pause: Option<Duration>,
}

#[derive(Debug)]
struct Awaited {
    message: Message,
    sent: Duration,
    is_again: bool,
    is_noticed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Listening,
    /// Connected and not registered; was it remarked upon?
    Registering {
        since: Duration,
        remarked: bool,
    },
    First,
    Together,
    Again,
    Strange,
    Pinged {
        at: Duration,
    },
    Leaving,
    Away {
        since: Duration,
    },
    /// Connected again, to be refused.
    Returning {
        since: Duration,
    },
    Barred {
        since: Duration,
    },
    /// Connected once more, to be let in.
    Admitted {
        since: Duration,
    },
    Over,
}

const PING: &[u8] = b"hub check";

impl Judge {
    pub(super) fn new(plan: Plan, script: Script) -> Self {
        let until = plan.timeout;
        Self {
            plan,
            script,
            phase: Phase::Listening,
            until,
            tally: Tally::default(),
            name: None,
            awaited: Vec::new(),
            late: Vec::new(),
            pause: None,
        }
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally
    }

    /// When to look again if nothing is seen before.
    pub(super) fn deadline(&self) -> Duration {
        let answers = self.awaited.iter().map(|awaited| awaited.sent + ANSWER);
        answers.chain([self.until, self.plan.timeout]).min().unwrap_or(self.plan.timeout)
    }

    pub(super) fn take(&mut self, at: Duration, seen: Seen) -> Vec<Act> {
        let mut acts = Vec::new();
        if self.phase == Phase::Over {
            return acts;
        }
        match seen {
            Seen::Connected(handshake) => self.connected(at, &handshake, &mut acts),
            Seen::Stranger(why) => {
                let saw = format!("a connection that is no WebSocket: {why}");
                let rule = "a client connects by a WebSocket handshake (RFC 6455)";
                self.say(at, Finding::wrong(Step::Handshake, saw, rule, "connect with a WebSocket library"), &mut acts);
            }
            Seen::Another => {
                let rule = "one app is one connection";
                let mend = "close the old connection, and wait until it is closed, before opening another";
                let saw = "a second connection while the first is open";
                self.say(at, Finding::warn(Step::Handshake, saw, rule, mend), &mut acts);
            }
            Seen::Data(carrier, bytes) => self.data(at, carrier, &bytes, &mut acts),
            Seen::Pong(payload) => self.pong(at, &payload, &mut acts),
            Seen::Garbled(why) => {
                let rule = "frames are WebSocket text frames of at most 1 MiB";
                let finding = Finding::wrong(Step::Frame, why, rule, "send JSON as text, in messages of at most 1 MiB");
                self.say(at, finding, &mut acts);
            }
            Seen::Closed(code) => self.closed(at, code, &mut acts),
            Seen::Nothing => {}
        }
        self.watch(at, &mut acts);
        if self.phase != Phase::Over && self.tally.total() >= MOST_VERDICTS {
            let rule = "a client answers what it is asked";
            self.say(
                at,
                Finding::wrong(Step::Scenario, "far too many frames", rule, "send each answer once"),
                &mut acts,
            );
            acts.push(Act::Drop);
            self.finish(&mut acts);
        }
        acts
    }

    fn connected(&mut self, at: Duration, handshake: &Handshake, acts: &mut Vec<Act>) {
        for finding in handshake::judge(handshake, &self.plan.place) {
            self.say(at, finding, acts);
        }
        match self.phase {
            Phase::Away { since } => {
                self.came_back(at, since, acts);
                self.enter(Phase::Returning { since: at }, at + REGISTER_LATEST);
                acts.push(Act::Note("connected again; its registration will be refused as a duplicate".to_owned()));
            }
            Phase::Barred { since } => {
                self.tried_again(at, since, acts);
                self.enter(Phase::Admitted { since: at }, at + REGISTER_LATEST);
            }
            Phase::Listening
            | Phase::Registering { .. }
            | Phase::First
            | Phase::Together
            | Phase::Again
            | Phase::Strange
            | Phase::Pinged { .. }
            | Phase::Leaving
            | Phase::Returning { .. }
            | Phase::Admitted { .. }
            | Phase::Over => {
                self.enter(Phase::Registering { since: at, remarked: false }, at + REGISTER_SOON);
                acts.push(Act::Note("connected; waiting for its registration".to_owned()));
            }
        }
    }

    fn data(&mut self, at: Duration, carrier: Carrier, bytes: &[u8], acts: &mut Vec<Act>) {
        let (frame, findings) = frame::open(carrier, bytes);
        let complaint = findings.iter().find(|finding| finding.level == Level::Wrong).map(|one| one.saw.clone());
        for finding in findings {
            self.say(at, finding, acts);
        }
        match frame {
            Frame::Registration(payload) => self.registration(at, &payload, acts),
            Frame::Response(payload) => {
                let (response, findings) = frame::response(&payload);
                let complaint =
                    findings.iter().find(|finding| finding.level == Level::Wrong).map(|one| one.saw.clone());
                for finding in findings {
                    self.say(at, finding, acts);
                }
                match response {
                    Some(response) => self.response(at, &response, acts),
                    None => self.complain(complaint, acts),
                }
            }
            Frame::Neither => self.complain(complaint, acts),
        }
    }

    /// As the hub does: before the registration by refusing it, after that by an `error`.
    fn complain(&self, complaint: Option<String>, acts: &mut Vec<Act>) {
        let message = complaint.unwrap_or_else(|| "this cannot be read".to_owned());
        acts.push(Act::Send(match self.is_registered() {
            true => script::error(&message),
            false => script::refused("VALIDATION_ERROR", &message),
        }));
    }

    fn registration(&mut self, at: Duration, payload: &serde_json::Value, acts: &mut Vec<Act>) {
        if self.is_registered() {
            let saw = "a second registration on one connection (ALREADY_REGISTERED)";
            let rule = "a connection registers once";
            self.say(at, Finding::wrong(Step::Registration, saw, rule, "register again only after reconnecting"), acts);
            let message = "This connection has already registered a client";
            acts.push(Act::Send(script::refused("ALREADY_REGISTERED", message)));
            return;
        }
        let (outcome, findings) = frame::registration(payload);
        for finding in findings {
            self.say(at, finding, acts);
        }
        let name = match outcome {
            Ok(name) => name,
            Err((code, message)) => return acts.push(Act::Send(script::refused(code, &message))),
        };
        if let Some(before) = self.name.replace(name.clone()).filter(|before| *before != name) {
            let saw = format!("{} instead of {}", quoted(&name), quoted(&before));
            let rule = "an app keeps its name: what was sent to it before is answered under that name";
            self.say(at, Finding::warn(Step::Registration, saw, rule, "register under the same name"), acts);
        }
        match self.phase {
            Phase::Registering { since, .. } => {
                self.say(at, Finding::ok(Step::Registration, waited("registered", at - since), AT_ONCE), acts);
                acts.push(Act::Send(self.script.registered(&name)));
                self.deliver(at, &[Message::First], acts);
                self.enter(Phase::First, self.plan.timeout);
            }
            Phase::Returning { .. } => {
                let message = format!("A client with name '{name}' is already registered");
                acts.push(Act::Send(script::refused("DUPLICATE_NAME", &message)));
                self.enter(Phase::Barred { since: at }, at + TRY_AGAIN);
            }
            Phase::Barred { since } => {
                self.tried_again(at, since, acts);
                self.welcome(at, &name, acts);
            }
            Phase::Admitted { .. } => self.welcome(at, &name, acts),
            Phase::Listening
            | Phase::First
            | Phase::Together
            | Phase::Again
            | Phase::Strange
            | Phase::Pinged { .. }
            | Phase::Leaving
            | Phase::Away { .. }
            | Phase::Over => {}
        }
    }

    /// Back after a refusal: nothing is left to be seen.
    fn welcome(&mut self, at: Duration, name: &str, acts: &mut Vec<Act>) {
        acts.push(Act::Send(self.script.registered(name)));
        self.say(at, Finding::ok(Step::Reconnect, "registered again after the refusal", NOT_HAMMERED), acts);
        acts.push(Act::Close);
        self.finish(acts);
    }

    fn response(&mut self, at: Duration, response: &Response, acts: &mut Vec<Act>) {
        if !self.is_registered() {
            let mend = "keep answers until the registration has succeeded";
            self.say(at, Finding::wrong(Step::Response, "an answer before the registration", AT_ONCE, mend), acts);
            return acts.push(Act::Send(script::refused("VALIDATION_ERROR", "register before answering messages")));
        }
        let Some(message) = self.script.find(&response.id).filter(|message| self.was_sent(*message)) else {
            let saw = format!("an answer to {}, which was never sent", quoted(&response.id));
            let rule = "`messageId` is the `id` of the message that is answered";
            return self.say(at, Finding::wrong(Step::Response, saw, rule, "send the id as it came"), acts);
        };
        let place = self.awaited.iter().position(|awaited| awaited.message == message);
        match (response.kind, place) {
            (Kind::Notification, Some(place)) => {
                if let Some(awaited) = self.awaited.get_mut(place) {
                    awaited.is_noticed = true;
                }
            }
            (Kind::Notification, None) => {}
            (Kind::Ack | Kind::Reject, Some(place)) => {
                let awaited = self.awaited.remove(place);
                self.answered(at, &awaited, acts);
                if self.awaited.is_empty() {
                    self.go_on(at, acts);
                }
            }
            (Kind::Ack | Kind::Reject, None) if self.late.contains(&message) => {
                let saw = format!("a late answer to {}, which another app has by now", message.word());
                let mend = "acknowledge as soon as the app has the message";
                self.say(at, Finding::warn(Step::Response, saw, ANSWERED, mend), acts);
            }
            (Kind::Ack, None) => {
                let rule = "one ack is enough";
                let saw = format!("a further ack of {}", message.word());
                self.say(at, Finding::warn(Step::Response, saw, rule, "acknowledge each delivery once"), acts);
            }
            (Kind::Reject, None) => {
                let saw = format!("a reject of {}, which was answered before", message.word());
                let rule = "a reject sends the message to another app, even after an ack";
                let mend = "after an ack, tell the user what went wrong by a notification";
                self.say(at, Finding::warn(Step::Response, saw, rule, mend), acts);
            }
        }
    }

    fn answered(&mut self, at: Duration, awaited: &Awaited, acts: &mut Vec<Act>) {
        let took = at.saturating_sub(awaited.sent);
        let rule = if awaited.is_again { ANSWERED_AGAIN } else { ANSWERED };
        let saw = waited(&format!("{} answered", awaited.message.word()), took);
        let finding = if took > ANSWER_SOON {
            let mend = "acknowledge as soon as the app has the message, and tell the result by a notification";
            Finding::warn(Step::Response, saw, rule, mend)
        } else {
            Finding::ok(Step::Response, saw, rule)
        };
        self.say(at, finding, acts);
    }

    /// Everything that was asked for has come, or is given up.
    fn go_on(&mut self, at: Duration, acts: &mut Vec<Act>) {
        match self.phase {
            Phase::First => {
                self.deliver(at, &[Message::Second, Message::Third], acts);
                self.enter(Phase::Together, self.plan.timeout);
            }
            Phase::Together => {
                acts.push(Act::Note("sending message 1 again, with the same id and a fresh timestamp".to_owned()));
                acts.push(Act::Send(self.script.message(Message::First, at)));
                let again = Awaited { message: Message::First, sent: at, is_again: true, is_noticed: false };
                self.awaited.push(again);
                self.enter(Phase::Again, self.plan.timeout);
            }
            Phase::Again => {
                acts.push(Act::Note(
                    "sending a frame of an unknown type, and a message with unknown fields".to_owned(),
                ));
                acts.push(Act::Send(script::unknown()));
                self.deliver(at, &[Message::Strange], acts);
                self.enter(Phase::Strange, self.plan.timeout);
            }
            Phase::Strange => {
                self.say(
                    at,
                    Finding::ok(Step::Frame, "an unknown frame and unknown fields did no harm", IGNORED),
                    acts,
                );
                acts.push(Act::Ping(PING.to_vec()));
                self.enter(Phase::Pinged { at }, at + PONG);
            }
            Phase::Pinged { .. } => {
                acts.push(Act::Close);
                if self.plan.once {
                    return self.finish(acts);
                }
                acts.push(Act::Note("closed with 1001 as if the hub went down; waiting for the client".to_owned()));
                self.enter(Phase::Leaving, at + FAREWELL);
            }
            Phase::Listening
            | Phase::Registering { .. }
            | Phase::Leaving
            | Phase::Away { .. }
            | Phase::Returning { .. }
            | Phase::Barred { .. }
            | Phase::Admitted { .. }
            | Phase::Over => {}
        }
    }

    fn pong(&mut self, at: Duration, payload: &[u8], acts: &mut Vec<Act>) {
        // Pongs nobody asked for are allowed, and mean nothing.
        if let Phase::Pinged { at: sent } = self.phase
            && payload == PING
        {
            self.say(at, Finding::ok(Step::Heartbeat, waited("pong", at - sent), PINGED), acts);
            self.go_on(at, acts);
        }
    }

    fn closed(&mut self, at: Duration, code: Option<u16>, acts: &mut Vec<Act>) {
        let with = code.map_or_else(|| "without a close frame".to_owned(), |code| format!("with code {code}"));
        match self.phase {
            Phase::Leaving => self.enter(Phase::Away { since: at }, at + COME_BACK),
            // It may well leave after a refusal, and come back later.
            Phase::Barred { .. } | Phase::Listening | Phase::Away { .. } | Phase::Over => {}
            Phase::Registering { .. } if self.tally.wrong > 0 => {
                let saw = format!("the connection ended {with} after the registration was refused");
                let mend = "mend the registration as said above, and try again";
                self.say(at, Finding::wrong(Step::Scenario, saw, STAYS, mend), acts);
                self.finish(acts);
            }
            Phase::Registering { .. }
            | Phase::First
            | Phase::Together
            | Phase::Again
            | Phase::Strange
            | Phase::Pinged { .. }
            | Phase::Returning { .. }
            | Phase::Admitted { .. } => {
                let saw = format!("the client ended the connection {with} while {}", self.doing());
                let mend = "look for an error in the client at this moment";
                self.say(at, Finding::wrong(Step::Scenario, saw, STAYS, mend), acts);
                self.finish(acts);
            }
        }
    }

    fn deliver(&mut self, at: Duration, messages: &[Message], acts: &mut Vec<Act>) {
        for &message in messages {
            acts.push(Act::Note(format!("sending {}; an answer is due within 30 s", message.word())));
            acts.push(Act::Send(self.script.message(message, at)));
            self.awaited.push(Awaited { message, sent: at, is_again: false, is_noticed: false });
        }
    }

    /// Has the scenario come to that message?
    fn was_sent(&self, message: Message) -> bool {
        let sent: &[Message] = match self.phase {
            Phase::Listening | Phase::Registering { .. } => &[],
            Phase::First => &[Message::First],
            Phase::Together | Phase::Again => &[Message::First, Message::Second, Message::Third],
            Phase::Strange
            | Phase::Pinged { .. }
            | Phase::Leaving
            | Phase::Away { .. }
            | Phase::Returning { .. }
            | Phase::Barred { .. }
            | Phase::Admitted { .. }
            | Phase::Over => &Message::ALL,
        };
        sent.contains(&message)
    }

    fn is_registered(&self) -> bool {
        match self.phase {
            Phase::First | Phase::Together | Phase::Again | Phase::Strange | Phase::Pinged { .. } | Phase::Leaving => {
                true
            }
            Phase::Listening
            | Phase::Registering { .. }
            | Phase::Away { .. }
            | Phase::Returning { .. }
            | Phase::Barred { .. }
            | Phase::Admitted { .. }
            | Phase::Over => false,
        }
    }

    fn doing(&self) -> &'static str {
        match self.phase {
            Phase::Listening => "waiting for a client",
            Phase::Registering { .. } | Phase::Returning { .. } | Phase::Admitted { .. } => {
                "waiting for its registration"
            }
            Phase::First => "waiting for the answer to message 1",
            Phase::Together => "waiting for the answers to messages 2 and 3",
            Phase::Again => "waiting for a second answer to message 1",
            Phase::Strange => "an unknown frame and unknown fields were sent",
            Phase::Pinged { .. } => "waiting for a pong",
            Phase::Leaving => "waiting for its close frame",
            Phase::Away { .. } => "waiting for it to come back",
            Phase::Barred { .. } => "waiting for its next registration",
            Phase::Over => "nothing was left to do",
        }
    }

    fn enter(&mut self, phase: Phase, until: Duration) {
        self.phase = phase;
        self.until = until;
    }

    fn say(&mut self, at: Duration, finding: Finding, acts: &mut Vec<Act>) {
        self.tally.count(finding.level);
        acts.push(Act::Say(Verdict { at, finding }));
    }

    fn finish(&mut self, acts: &mut Vec<Act>) {
        self.phase = Phase::Over;
        acts.push(Act::Finish);
    }
}

fn waited(what: &str, time: Duration) -> String {
    format!("{what} after {:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests;
