//! Deadlines: missing answers, and reconnect pauses that are too short.

use std::time::Duration;

use super::{
    ANSWER_TIMEOUT, ConformanceChecker, HubAction, PendingMessage, RECONNECT_TIMEOUT, REGISTER_TIMEOUT, RULE_ANSWER,
    RULE_ANSWER_REPEAT, RULE_PONG, RULE_RECONNECT_BACKOFF, RULE_REGISTER, RULE_RETRY_BACKOFF, ScenarioPhase,
    with_delay,
};
use crate::finding::{ProtocolFinding, ProtocolStep};

/// A reconnect pause below the first value is reported as hammering; below the second it misses the required second.
const HAMMERING_PAUSE: Duration = Duration::from_millis(500);
const FIRST_PAUSE: Duration = Duration::from_millis(900);

impl ConformanceChecker {
    /// Reports deadlines that have passed.
    pub(crate) fn check_deadlines(&mut self, at: Duration, acts: &mut Vec<HubAction>) {
        if self.phase == ScenarioPhase::Finished {
            return;
        }
        self.expire_pending(at, acts);
        if self.phase != ScenarioPhase::Finished && at >= self.options.timeout {
            let saw = format!("the time is up while {}", self.phase_text());
            let rule = "the whole scenario fits into --timeout";
            self.report(
                at,
                ProtocolFinding::wrong(ProtocolStep::Scenario, saw, rule, "start the client, or allow more time"),
                acts,
            );
            acts.push(HubAction::Drop);
            return self.finish(acts);
        }
        if at < self.phase_deadline {
            return;
        }
        match self.phase {
            ScenarioPhase::Registering { since, warned: false } => {
                let mend = "send `registration` in the handler of the open event";
                let saw = with_delay("not registered", at - since);
                self.report(at, ProtocolFinding::warn(ProtocolStep::Registration, saw, RULE_REGISTER, mend), acts);
                self.enter(ScenarioPhase::Registering { since, warned: true }, since + REGISTER_TIMEOUT);
            }
            ScenarioPhase::Registering { .. }
            | ScenarioPhase::Reconnected { .. }
            | ScenarioPhase::Readmitted { .. } => {
                let saw = "no registration within 30 s; the hub drops such connections";
                let mend = "send `registration` in the handler of the open event";
                self.report(at, ProtocolFinding::wrong(ProtocolStep::Registration, saw, RULE_REGISTER, mend), acts);
                acts.push(HubAction::Drop);
                self.finish(acts);
            }
            ScenarioPhase::Pinged { .. } => {
                let mend = "use a WebSocket library that answers pings, and let it read all the time";
                self.report(
                    at,
                    ProtocolFinding::wrong(ProtocolStep::Heartbeat, "no pong within 10 s", RULE_PONG, mend),
                    acts,
                );
                self.next_phase(at, acts);
            }
            ScenarioPhase::Closing => {
                let mend = "answer a close frame with one, as WebSocket libraries do";
                let saw = "the connection stays open after the hub closed it";
                self.report(
                    at,
                    ProtocolFinding::warn(ProtocolStep::Reconnect, saw, RULE_RECONNECT_BACKOFF, mend),
                    acts,
                );
                acts.push(HubAction::Drop);
                self.enter(ScenarioPhase::Disconnected { since: at }, at + RECONNECT_TIMEOUT);
            }
            ScenarioPhase::Disconnected { since } => {
                let saw = with_delay("not back", at - since);
                let mend = "reconnect by itself after the connection was lost";
                self.report(
                    at,
                    ProtocolFinding::wrong(ProtocolStep::Reconnect, saw, RULE_RECONNECT_BACKOFF, mend),
                    acts,
                );
                self.finish(acts);
            }
            ScenarioPhase::Refused { since } => {
                let saw = with_delay("no further registration after the refusal", at - since);
                let mend = "try again after a pause: the name may be free by then";
                self.report(at, ProtocolFinding::warn(ProtocolStep::Reconnect, saw, RULE_RETRY_BACKOFF, mend), acts);
                acts.push(HubAction::Drop);
                self.finish(acts);
            }
            ScenarioPhase::Listening
            | ScenarioPhase::FirstMessage
            | ScenarioPhase::TwoMessages
            | ScenarioPhase::RepeatedMessage
            | ScenarioPhase::UnknownFields
            | ScenarioPhase::Finished => {}
        }
    }

    fn expire_pending(&mut self, at: Duration, acts: &mut Vec<HubAction>) {
        let is_late = |awaited: &PendingMessage| at >= awaited.sent + ANSWER_TIMEOUT;
        let late: Vec<PendingMessage> = self.pending.extract_if(.., |awaited| is_late(awaited)).collect();
        for awaited in &late {
            self.expired.push(awaited.message);
            let rule = if awaited.is_repeat { RULE_ANSWER_REPEAT } else { RULE_ANSWER };
            let word = awaited.message.label();
            let finding = if awaited.has_notification {
                let saw = format!("{word} got a notification and no ack; the hub takes it as accepted");
                ProtocolFinding::warn(ProtocolStep::Response, saw, rule, "send an ack before the notification")
            } else {
                let saw = format!("no answer to {word} within 30 s");
                let mend = match awaited.is_repeat {
                    true => "acknowledge it again; remember ids so that nothing is done twice",
                    false => "send an ack when the app takes it, a reject when it does not want it",
                };
                ProtocolFinding::wrong(ProtocolStep::Response, saw, rule, mend)
            };
            self.report(at, finding, acts);
        }
        if !late.is_empty() && self.pending.is_empty() {
            self.next_phase(at, acts);
        }
    }

    pub(crate) fn check_reconnect_pause(&mut self, at: Duration, since: Duration, acts: &mut Vec<HubAction>) {
        let pause = at.saturating_sub(since);
        self.reconnect_pause = Some(pause);
        let saw = with_delay("back", pause);
        let finding = if pause < HAMMERING_PAUSE {
            ProtocolFinding::wrong(
                ProtocolStep::Reconnect,
                saw,
                RULE_RECONNECT_BACKOFF,
                "wait a second before the first try",
            )
        } else if pause < FIRST_PAUSE {
            ProtocolFinding::warn(
                ProtocolStep::Reconnect,
                saw,
                RULE_RECONNECT_BACKOFF,
                "wait a second before the first try",
            )
        } else {
            ProtocolFinding::ok(ProtocolStep::Reconnect, saw, RULE_RECONNECT_BACKOFF)
        };
        self.report(at, finding, acts);
    }

    pub(crate) fn check_retry_pause(&mut self, at: Duration, since: Duration, acts: &mut Vec<HubAction>) {
        let pause = at.saturating_sub(since);
        let saw = with_delay("tried again", pause);
        let grows = self.reconnect_pause.is_none_or(|before| pause >= before.mul_f64(1.2));
        let finding = if pause < HAMMERING_PAUSE {
            ProtocolFinding::wrong(
                ProtocolStep::Reconnect,
                saw,
                RULE_RETRY_BACKOFF,
                "wait before trying again, longer each time",
            )
        } else if !grows {
            let mend = "double the pause each time, and reset it when the registration succeeds, not on open";
            ProtocolFinding::warn(
                ProtocolStep::Reconnect,
                format!("{saw}, no longer than before"),
                RULE_RETRY_BACKOFF,
                mend,
            )
        } else {
            ProtocolFinding::ok(ProtocolStep::Reconnect, saw, RULE_RETRY_BACKOFF)
        };
        self.report(at, finding, acts);
    }
}
