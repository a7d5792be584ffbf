//! The scenario a client goes through, and the findings about its behaviour. A pure state machine: timed events in,
//! actions and findings out. It uses no sockets.

use std::time::Duration;

use super::finding::{FindingLevel, ProtocolFinding, ProtocolStep, Tally, TimedFinding, quoted};
use super::frame::{self, ClientFrame, ClientResponse, FrameEncoding, ResponseKind};
use super::handshake::{self, EndpointConfig, Handshake};
use super::script::{self, HubScript, ScriptMessage};

mod deadlines;

/// A later registration is reported as a warning.
const REGISTER_PROMPTLY: Duration = Duration::from_secs(5);
/// The hub drops a connection that has not registered by then.
const REGISTER_TIMEOUT: Duration = Duration::from_secs(30);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// A slower answer is reported as a warning: the user waits.
const ANSWER_PROMPTLY: Duration = Duration::from_secs(10);
const PONG_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take to close its side.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Covers the protocol's longest backoff pause, 30 s.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(40);
/// After a refusal the pause may have grown already.
const RETRY_TIMEOUT: Duration = Duration::from_secs(70);
/// More findings than any client should need; the check stops there.
const MAX_FINDINGS: usize = 1000;

const RULE_REGISTER: &str = "a client registers as soon as the connection is open";
const RULE_ANSWER: &str = "a message is answered within 30 s, or it goes to another app";
const RULE_ANSWER_REPEAT: &str = "the same id may come again with a fresh timestamp, and is answered again";
const RULE_IGNORE_UNKNOWN: &str = "frame types and fields that a client does not know are ignored";
const RULE_PONG: &str = "a ping is answered with a pong within 10 s";
const RULE_RECONNECT_BACKOFF: &str = "a client that lost the hub tries again after 1, 2, 4, 8, 16, 30, 30… s";
const RULE_RETRY_BACKOFF: &str = "a refused registration is tried again after a pause that grows";
const RULE_KEEP_CONNECTION: &str = "a client keeps its connection";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClientEvent {
    /// A connection was accepted; it is the only one.
    Connected(Handshake),
    /// A connection whose WebSocket handshake failed.
    HandshakeFailed(String),
    /// A second connection while the first was open; it was rejected.
    SecondConnection,
    Data(FrameEncoding, Vec<u8>),
    Pong(Vec<u8>),
    /// The data is not valid WebSocket, or too large.
    ProtocolError(String),
    /// Contains the client's close code, if it sent one.
    Closed(Option<u16>),
    /// Time has passed without another event.
    Tick,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HubAction {
    Report(TimedFinding),
    /// Describes the step that begins.
    Note(String),
    Send(String),
    Ping(Vec<u8>),
    /// Close with 1001, as a hub that shuts down.
    Close,
    /// Drop the connection without a close frame.
    Drop,
    /// The scenario is finished.
    Finish,
}

#[derive(Debug)]
pub struct CheckOptions {
    pub endpoint: EndpointConfig,
    /// Use one connection only, without the disconnect and reconnect steps.
    pub once: bool,
    /// Time limit of the whole scenario.
    pub timeout: Duration,
}

#[derive(Debug)]
pub struct ConformanceChecker {
    options: CheckOptions,
    script: HubScript,
    phase: ScenarioPhase,
    /// When the current phase ends by itself.
    phase_deadline: Duration,
    tally: Tally,
    name: Option<String>,
    /// Messages whose answer is awaited.
    pending: Vec<PendingMessage>,
    /// Messages whose answer timed out.
    expired: Vec<ScriptMessage>,
    /// Duration of the client's first reconnect pause.
    reconnect_pause: Option<Duration>,
}

#[derive(Debug)]
struct PendingMessage {
    message: ScriptMessage,
    sent: Duration,
    is_repeat: bool,
    has_notification: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScenarioPhase {
    Listening,
    /// Connected but not registered; `warned` if the delay was already reported.
    Registering {
        since: Duration,
        warned: bool,
    },
    FirstMessage,
    TwoMessages,
    RepeatedMessage,
    UnknownFields,
    Pinged {
        at: Duration,
    },
    Closing,
    Disconnected {
        since: Duration,
    },
    /// Connected again; its registration will be refused.
    Reconnected {
        since: Duration,
    },
    Refused {
        since: Duration,
    },
    /// Connected a third time; its registration will be accepted.
    Readmitted {
        since: Duration,
    },
    Finished,
}

const PING_PAYLOAD: &[u8] = b"hub check";

impl ConformanceChecker {
    pub fn new(plan: CheckOptions, script: HubScript) -> Self {
        let until = plan.timeout;
        Self {
            options: plan,
            script,
            phase: ScenarioPhase::Listening,
            phase_deadline: until,
            tally: Tally::default(),
            name: None,
            pending: Vec::new(),
            expired: Vec::new(),
            reconnect_pause: None,
        }
    }

    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// When to check deadlines if no event arrives before.
    pub(crate) fn deadline(&self) -> Duration {
        let answers = self.pending.iter().map(|awaited| awaited.sent + ANSWER_TIMEOUT);
        answers.chain([self.phase_deadline, self.options.timeout]).min().unwrap_or(self.options.timeout)
    }

    pub(crate) fn handle_event(&mut self, at: Duration, seen: ClientEvent) -> Vec<HubAction> {
        let mut acts = Vec::new();
        if self.phase == ScenarioPhase::Finished {
            return acts;
        }
        match seen {
            ClientEvent::Connected(handshake) => self.connected(at, &handshake, &mut acts),
            ClientEvent::HandshakeFailed(why) => {
                let saw = format!("a connection that is no WebSocket: {why}");
                let rule = "a client connects by a WebSocket handshake (RFC 6455)";
                self.report(
                    at,
                    ProtocolFinding::wrong(ProtocolStep::Handshake, saw, rule, "connect with a WebSocket library"),
                    &mut acts,
                );
            }
            ClientEvent::SecondConnection => {
                let rule = "one app is one connection";
                let mend = "close the old connection, and wait until it is closed, before opening another";
                let saw = "a second connection while the first is open";
                self.report(at, ProtocolFinding::warn(ProtocolStep::Handshake, saw, rule, mend), &mut acts);
            }
            ClientEvent::Data(carrier, bytes) => self.data(at, carrier, &bytes, &mut acts),
            ClientEvent::Pong(payload) => self.pong(at, &payload, &mut acts),
            ClientEvent::ProtocolError(why) => {
                let rule = "frames are WebSocket text frames of at most 1 MiB";
                let finding = ProtocolFinding::wrong(
                    ProtocolStep::Frame,
                    why,
                    rule,
                    "send JSON as text, in messages of at most 1 MiB",
                );
                self.report(at, finding, &mut acts);
            }
            ClientEvent::Closed(code) => self.closed(at, code, &mut acts),
            ClientEvent::Tick => {}
        }
        self.check_deadlines(at, &mut acts);
        if self.phase != ScenarioPhase::Finished && self.tally.total() >= MAX_FINDINGS {
            let rule = "a client answers what it is asked";
            self.report(
                at,
                ProtocolFinding::wrong(ProtocolStep::Scenario, "far too many frames", rule, "send each answer once"),
                &mut acts,
            );
            acts.push(HubAction::Drop);
            self.finish(&mut acts);
        }
        acts
    }

    fn connected(&mut self, at: Duration, handshake: &Handshake, acts: &mut Vec<HubAction>) {
        for finding in handshake::check_handshake(handshake, &self.options.endpoint) {
            self.report(at, finding, acts);
        }
        match self.phase {
            ScenarioPhase::Disconnected { since } => {
                self.check_reconnect_pause(at, since, acts);
                self.enter(ScenarioPhase::Reconnected { since: at }, at + REGISTER_TIMEOUT);
                acts.push(HubAction::Note(
                    "connected again; its registration will be refused as a duplicate".to_owned(),
                ));
            }
            ScenarioPhase::Refused { since } => {
                self.check_retry_pause(at, since, acts);
                self.enter(ScenarioPhase::Readmitted { since: at }, at + REGISTER_TIMEOUT);
            }
            ScenarioPhase::Listening
            | ScenarioPhase::Registering { .. }
            | ScenarioPhase::FirstMessage
            | ScenarioPhase::TwoMessages
            | ScenarioPhase::RepeatedMessage
            | ScenarioPhase::UnknownFields
            | ScenarioPhase::Pinged { .. }
            | ScenarioPhase::Closing
            | ScenarioPhase::Reconnected { .. }
            | ScenarioPhase::Readmitted { .. }
            | ScenarioPhase::Finished => {
                self.enter(ScenarioPhase::Registering { since: at, warned: false }, at + REGISTER_PROMPTLY);
                acts.push(HubAction::Note("connected; waiting for its registration".to_owned()));
            }
        }
    }

    fn data(&mut self, at: Duration, carrier: FrameEncoding, bytes: &[u8], acts: &mut Vec<HubAction>) {
        let (frame, findings) = frame::parse_frame(carrier, bytes);
        let complaint =
            findings.iter().find(|finding| finding.level == FindingLevel::Wrong).map(|one| one.observed.clone());
        for finding in findings {
            self.report(at, finding, acts);
        }
        match frame {
            ClientFrame::Registration(payload) => self.registration(at, &payload, acts),
            ClientFrame::Response(payload) => {
                let (response, findings) = frame::parse_response(&payload);
                let complaint = findings
                    .iter()
                    .find(|finding| finding.level == FindingLevel::Wrong)
                    .map(|one| one.observed.clone());
                for finding in findings {
                    self.report(at, finding, acts);
                }
                match response {
                    Some(response) => self.response(at, &response, acts),
                    None => self.reject_frame(complaint, acts),
                }
            }
            ClientFrame::Invalid => self.reject_frame(complaint, acts),
        }
    }

    /// As the hub does: before registration by a refusal, afterwards by an `error`.
    fn reject_frame(&self, complaint: Option<String>, acts: &mut Vec<HubAction>) {
        let message = complaint.unwrap_or_else(|| "this cannot be read".to_owned());
        acts.push(HubAction::Send(match self.is_registered() {
            true => script::error_frame(&message),
            false => script::registration_refused("VALIDATION_ERROR", &message),
        }));
    }

    fn registration(&mut self, at: Duration, payload: &serde_json::Value, acts: &mut Vec<HubAction>) {
        if self.is_registered() {
            let saw = "a second registration on one connection (ALREADY_REGISTERED)";
            let rule = "a connection registers once";
            self.report(
                at,
                ProtocolFinding::wrong(ProtocolStep::Registration, saw, rule, "register again only after reconnecting"),
                acts,
            );
            let message = "This connection has already registered a client";
            acts.push(HubAction::Send(script::registration_refused("ALREADY_REGISTERED", message)));
            return;
        }
        let (outcome, findings) = frame::parse_registration(payload);
        for finding in findings {
            self.report(at, finding, acts);
        }
        let name = match outcome {
            Ok(name) => name,
            Err((code, message)) => return acts.push(HubAction::Send(script::registration_refused(code, &message))),
        };
        if let Some(before) = self.name.replace(name.clone()).filter(|before| *before != name) {
            let saw = format!("{} instead of {}", quoted(&name), quoted(&before));
            let rule = "an app keeps its name: what was sent to it before is answered under that name";
            self.report(
                at,
                ProtocolFinding::warn(ProtocolStep::Registration, saw, rule, "register under the same name"),
                acts,
            );
        }
        match self.phase {
            ScenarioPhase::Registering { since, .. } => {
                self.report(
                    at,
                    ProtocolFinding::ok(
                        ProtocolStep::Registration,
                        with_delay("registered", at - since),
                        RULE_REGISTER,
                    ),
                    acts,
                );
                acts.push(HubAction::Send(self.script.registration_accepted(&name)));
                self.deliver(at, &[ScriptMessage::First], acts);
                self.enter(ScenarioPhase::FirstMessage, self.options.timeout);
            }
            ScenarioPhase::Reconnected { .. } => {
                let message = format!("A client with name '{name}' is already registered");
                acts.push(HubAction::Send(script::registration_refused("DUPLICATE_NAME", &message)));
                self.enter(ScenarioPhase::Refused { since: at }, at + RETRY_TIMEOUT);
            }
            ScenarioPhase::Refused { since } => {
                self.check_retry_pause(at, since, acts);
                self.accept_registration(at, &name, acts);
            }
            ScenarioPhase::Readmitted { .. } => self.accept_registration(at, &name, acts),
            ScenarioPhase::Listening
            | ScenarioPhase::FirstMessage
            | ScenarioPhase::TwoMessages
            | ScenarioPhase::RepeatedMessage
            | ScenarioPhase::UnknownFields
            | ScenarioPhase::Pinged { .. }
            | ScenarioPhase::Closing
            | ScenarioPhase::Disconnected { .. }
            | ScenarioPhase::Finished => {}
        }
    }

    /// Reconnected after a refusal: the scenario is complete.
    fn accept_registration(&mut self, at: Duration, name: &str, acts: &mut Vec<HubAction>) {
        acts.push(HubAction::Send(self.script.registration_accepted(name)));
        self.report(
            at,
            ProtocolFinding::ok(ProtocolStep::Reconnect, "registered again after the refusal", RULE_RETRY_BACKOFF),
            acts,
        );
        acts.push(HubAction::Close);
        self.finish(acts);
    }

    fn response(&mut self, at: Duration, response: &ClientResponse, acts: &mut Vec<HubAction>) {
        if !self.is_registered() {
            let mend = "keep answers until the registration has succeeded";
            self.report(
                at,
                ProtocolFinding::wrong(
                    ProtocolStep::Response,
                    "an answer before the registration",
                    RULE_REGISTER,
                    mend,
                ),
                acts,
            );
            return acts.push(HubAction::Send(script::registration_refused(
                "VALIDATION_ERROR",
                "register before answering messages",
            )));
        }
        let Some(message) = self.script.find(&response.id).filter(|message| self.was_sent(*message)) else {
            let saw = format!("an answer to {}, which was never sent", quoted(&response.id));
            let rule = "`messageId` is the `id` of the message that is answered";
            return self.report(
                at,
                ProtocolFinding::wrong(ProtocolStep::Response, saw, rule, "send the id as it came"),
                acts,
            );
        };
        let place = self.pending.iter().position(|awaited| awaited.message == message);
        match (response.kind, place) {
            (ResponseKind::Notification, Some(place)) => {
                if let Some(awaited) = self.pending.get_mut(place) {
                    awaited.has_notification = true;
                }
            }
            (ResponseKind::Notification, None) => {}
            (ResponseKind::Ack | ResponseKind::Reject, Some(place)) => {
                let awaited = self.pending.remove(place);
                self.answered(at, &awaited, acts);
                if self.pending.is_empty() {
                    self.next_phase(at, acts);
                }
            }
            (ResponseKind::Ack | ResponseKind::Reject, None) if self.expired.contains(&message) => {
                let saw = format!("a late answer to {}, which another app has by now", message.label());
                let mend = "acknowledge as soon as the app has the message";
                self.report(at, ProtocolFinding::warn(ProtocolStep::Response, saw, RULE_ANSWER, mend), acts);
            }
            (ResponseKind::Ack, None) => {
                let rule = "one ack is enough";
                let saw = format!("a further ack of {}", message.label());
                self.report(
                    at,
                    ProtocolFinding::warn(ProtocolStep::Response, saw, rule, "acknowledge each delivery once"),
                    acts,
                );
            }
            (ResponseKind::Reject, None) => {
                let saw = format!("a reject of {}, which was answered before", message.label());
                let rule = "a reject sends the message to another app, even after an ack";
                let mend = "after an ack, tell the user what went wrong by a notification";
                self.report(at, ProtocolFinding::warn(ProtocolStep::Response, saw, rule, mend), acts);
            }
        }
    }

    fn answered(&mut self, at: Duration, awaited: &PendingMessage, acts: &mut Vec<HubAction>) {
        let took = at.saturating_sub(awaited.sent);
        let rule = if awaited.is_repeat { RULE_ANSWER_REPEAT } else { RULE_ANSWER };
        let saw = with_delay(&format!("{} answered", awaited.message.label()), took);
        let finding = if took > ANSWER_PROMPTLY {
            let mend = "acknowledge as soon as the app has the message, and tell the result by a notification";
            ProtocolFinding::warn(ProtocolStep::Response, saw, rule, mend)
        } else {
            ProtocolFinding::ok(ProtocolStep::Response, saw, rule)
        };
        self.report(at, finding, acts);
    }

    /// All expected answers have arrived or timed out.
    fn next_phase(&mut self, at: Duration, acts: &mut Vec<HubAction>) {
        match self.phase {
            ScenarioPhase::FirstMessage => {
                self.deliver(at, &[ScriptMessage::Second, ScriptMessage::Third], acts);
                self.enter(ScenarioPhase::TwoMessages, self.options.timeout);
            }
            ScenarioPhase::TwoMessages => {
                acts.push(HubAction::Note(
                    "sending message 1 again, with the same id and a fresh timestamp".to_owned(),
                ));
                acts.push(HubAction::Send(self.script.message(ScriptMessage::First, at)));
                let again = PendingMessage {
                    message: ScriptMessage::First,
                    sent: at,
                    is_repeat: true,
                    has_notification: false,
                };
                self.pending.push(again);
                self.enter(ScenarioPhase::RepeatedMessage, self.options.timeout);
            }
            ScenarioPhase::RepeatedMessage => {
                acts.push(HubAction::Note(
                    "sending a frame of an unknown type, and a message with unknown fields".to_owned(),
                ));
                acts.push(HubAction::Send(script::unknown_frame()));
                self.deliver(at, &[ScriptMessage::UnknownFields], acts);
                self.enter(ScenarioPhase::UnknownFields, self.options.timeout);
            }
            ScenarioPhase::UnknownFields => {
                self.report(
                    at,
                    ProtocolFinding::ok(
                        ProtocolStep::Frame,
                        "an unknown frame and unknown fields did no harm",
                        RULE_IGNORE_UNKNOWN,
                    ),
                    acts,
                );
                acts.push(HubAction::Ping(PING_PAYLOAD.to_vec()));
                self.enter(ScenarioPhase::Pinged { at }, at + PONG_TIMEOUT);
            }
            ScenarioPhase::Pinged { .. } => {
                acts.push(HubAction::Close);
                if self.options.once {
                    return self.finish(acts);
                }
                acts.push(HubAction::Note(
                    "closed with 1001 as if the hub went down; waiting for the client".to_owned(),
                ));
                self.enter(ScenarioPhase::Closing, at + CLOSE_TIMEOUT);
            }
            ScenarioPhase::Listening
            | ScenarioPhase::Registering { .. }
            | ScenarioPhase::Closing
            | ScenarioPhase::Disconnected { .. }
            | ScenarioPhase::Reconnected { .. }
            | ScenarioPhase::Refused { .. }
            | ScenarioPhase::Readmitted { .. }
            | ScenarioPhase::Finished => {}
        }
    }

    fn pong(&mut self, at: Duration, payload: &[u8], acts: &mut Vec<HubAction>) {
        // Unsolicited pongs are allowed and ignored.
        if let ScenarioPhase::Pinged { at: sent } = self.phase
            && payload == PING_PAYLOAD
        {
            self.report(
                at,
                ProtocolFinding::ok(ProtocolStep::Heartbeat, with_delay("pong", at - sent), RULE_PONG),
                acts,
            );
            self.next_phase(at, acts);
        }
    }

    fn closed(&mut self, at: Duration, code: Option<u16>, acts: &mut Vec<HubAction>) {
        let with = code.map_or_else(|| "without a close frame".to_owned(), |code| format!("with code {code}"));
        match self.phase {
            ScenarioPhase::Closing => self.enter(ScenarioPhase::Disconnected { since: at }, at + RECONNECT_TIMEOUT),
            // The client may leave after a refusal and reconnect later.
            ScenarioPhase::Refused { .. }
            | ScenarioPhase::Listening
            | ScenarioPhase::Disconnected { .. }
            | ScenarioPhase::Finished => {}
            ScenarioPhase::Registering { .. } if self.tally.wrong > 0 => {
                let saw = format!("the connection ended {with} after the registration was refused");
                let mend = "mend the registration as said above, and try again";
                self.report(at, ProtocolFinding::wrong(ProtocolStep::Scenario, saw, RULE_KEEP_CONNECTION, mend), acts);
                self.finish(acts);
            }
            ScenarioPhase::Registering { .. }
            | ScenarioPhase::FirstMessage
            | ScenarioPhase::TwoMessages
            | ScenarioPhase::RepeatedMessage
            | ScenarioPhase::UnknownFields
            | ScenarioPhase::Pinged { .. }
            | ScenarioPhase::Reconnected { .. }
            | ScenarioPhase::Readmitted { .. } => {
                let saw = format!("the client ended the connection {with} while {}", self.phase_text());
                let mend = "look for an error in the client at this moment";
                self.report(at, ProtocolFinding::wrong(ProtocolStep::Scenario, saw, RULE_KEEP_CONNECTION, mend), acts);
                self.finish(acts);
            }
        }
    }

    fn deliver(&mut self, at: Duration, messages: &[ScriptMessage], acts: &mut Vec<HubAction>) {
        for &message in messages {
            acts.push(HubAction::Note(format!("sending {}; an answer is due within 30 s", message.label())));
            acts.push(HubAction::Send(self.script.message(message, at)));
            self.pending.push(PendingMessage { message, sent: at, is_repeat: false, has_notification: false });
        }
    }

    /// Whether the scenario has already sent that message.
    fn was_sent(&self, message: ScriptMessage) -> bool {
        let sent: &[ScriptMessage] = match self.phase {
            ScenarioPhase::Listening | ScenarioPhase::Registering { .. } => &[],
            ScenarioPhase::FirstMessage => &[ScriptMessage::First],
            ScenarioPhase::TwoMessages | ScenarioPhase::RepeatedMessage => {
                &[ScriptMessage::First, ScriptMessage::Second, ScriptMessage::Third]
            }
            ScenarioPhase::UnknownFields
            | ScenarioPhase::Pinged { .. }
            | ScenarioPhase::Closing
            | ScenarioPhase::Disconnected { .. }
            | ScenarioPhase::Reconnected { .. }
            | ScenarioPhase::Refused { .. }
            | ScenarioPhase::Readmitted { .. }
            | ScenarioPhase::Finished => &ScriptMessage::ALL,
        };
        sent.contains(&message)
    }

    fn is_registered(&self) -> bool {
        match self.phase {
            ScenarioPhase::FirstMessage
            | ScenarioPhase::TwoMessages
            | ScenarioPhase::RepeatedMessage
            | ScenarioPhase::UnknownFields
            | ScenarioPhase::Pinged { .. }
            | ScenarioPhase::Closing => true,
            ScenarioPhase::Listening
            | ScenarioPhase::Registering { .. }
            | ScenarioPhase::Disconnected { .. }
            | ScenarioPhase::Reconnected { .. }
            | ScenarioPhase::Refused { .. }
            | ScenarioPhase::Readmitted { .. }
            | ScenarioPhase::Finished => false,
        }
    }

    fn phase_text(&self) -> &'static str {
        match self.phase {
            ScenarioPhase::Listening => "waiting for a client",
            ScenarioPhase::Registering { .. }
            | ScenarioPhase::Reconnected { .. }
            | ScenarioPhase::Readmitted { .. } => "waiting for its registration",
            ScenarioPhase::FirstMessage => "waiting for the answer to message 1",
            ScenarioPhase::TwoMessages => "waiting for the answers to messages 2 and 3",
            ScenarioPhase::RepeatedMessage => "waiting for a second answer to message 1",
            ScenarioPhase::UnknownFields => "an unknown frame and unknown fields were sent",
            ScenarioPhase::Pinged { .. } => "waiting for a pong",
            ScenarioPhase::Closing => "waiting for its close frame",
            ScenarioPhase::Disconnected { .. } => "waiting for it to come back",
            ScenarioPhase::Refused { .. } => "waiting for its next registration",
            ScenarioPhase::Finished => "nothing was left to do",
        }
    }

    fn enter(&mut self, phase: ScenarioPhase, until: Duration) {
        self.phase = phase;
        self.phase_deadline = until;
    }

    fn report(&mut self, at: Duration, finding: ProtocolFinding, acts: &mut Vec<HubAction>) {
        self.tally.count(finding.level);
        acts.push(HubAction::Report(TimedFinding { at, finding }));
    }

    fn finish(&mut self, acts: &mut Vec<HubAction>) {
        self.phase = ScenarioPhase::Finished;
        acts.push(HubAction::Finish);
    }
}

fn with_delay(what: &str, time: Duration) -> String {
    format!("{what} after {:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests;
