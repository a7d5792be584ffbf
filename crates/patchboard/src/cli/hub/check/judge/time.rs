//! What time brings about: answers that do not come, and pauses that are too short.

use std::time::Duration;

use super::{
    ANSWER, ANSWERED, ANSWERED_AGAIN, AT_ONCE, Act, Awaited, BACK_OFF, COME_BACK, Judge, NOT_HAMMERED, PINGED, Phase,
    REGISTER_LATEST, waited,
};
use crate::cli::hub::check::verdict::{Finding, Step};

/// A pause below the first is hammering; below the second it is short of the second that is asked for.
const HAMMERING: Duration = Duration::from_millis(500);
const FIRST_PAUSE: Duration = Duration::from_millis(900);

impl Judge {
    /// What time alone brings about.
    pub(super) fn watch(&mut self, at: Duration, acts: &mut Vec<Act>) {
        if self.phase == Phase::Over {
            return;
        }
        self.give_up_answers(at, acts);
        if self.phase != Phase::Over && at >= self.plan.timeout {
            let saw = format!("the time is up while {}", self.doing());
            let rule = "the whole scenario fits into --timeout";
            self.say(at, Finding::wrong(Step::Scenario, saw, rule, "start the client, or allow more time"), acts);
            acts.push(Act::Drop);
            return self.finish(acts);
        }
        if at < self.until {
            return;
        }
        match self.phase {
            Phase::Registering { since, remarked: false } => {
                let mend = "send `registration` in the handler of the open event";
                let saw = waited("not registered", at - since);
                self.say(at, Finding::warn(Step::Registration, saw, AT_ONCE, mend), acts);
                self.enter(Phase::Registering { since, remarked: true }, since + REGISTER_LATEST);
            }
            Phase::Registering { .. } | Phase::Returning { .. } | Phase::Admitted { .. } => {
                let saw = "no registration within 30 s; the hub drops such connections";
                let mend = "send `registration` in the handler of the open event";
                self.say(at, Finding::wrong(Step::Registration, saw, AT_ONCE, mend), acts);
                acts.push(Act::Drop);
                self.finish(acts);
            }
            Phase::Pinged { .. } => {
                let mend = "use a WebSocket library that answers pings, and let it read all the time";
                self.say(at, Finding::wrong(Step::Heartbeat, "no pong within 10 s", PINGED, mend), acts);
                self.go_on(at, acts);
            }
            Phase::Leaving => {
                let mend = "answer a close frame with one, as WebSocket libraries do";
                let saw = "the connection stays open after the hub closed it";
                self.say(at, Finding::warn(Step::Reconnect, saw, BACK_OFF, mend), acts);
                acts.push(Act::Drop);
                self.enter(Phase::Away { since: at }, at + COME_BACK);
            }
            Phase::Away { since } => {
                let saw = waited("not back", at - since);
                let mend = "reconnect by itself after the connection was lost";
                self.say(at, Finding::wrong(Step::Reconnect, saw, BACK_OFF, mend), acts);
                self.finish(acts);
            }
            Phase::Barred { since } => {
                let saw = waited("no further registration after the refusal", at - since);
                let mend = "try again after a pause: the name may be free by then";
                self.say(at, Finding::warn(Step::Reconnect, saw, NOT_HAMMERED, mend), acts);
                acts.push(Act::Drop);
                self.finish(acts);
            }
            Phase::Listening | Phase::First | Phase::Together | Phase::Again | Phase::Strange | Phase::Over => {}
        }
    }

    fn give_up_answers(&mut self, at: Duration, acts: &mut Vec<Act>) {
        let is_late = |awaited: &Awaited| at >= awaited.sent + ANSWER;
        let late: Vec<Awaited> = self.awaited.extract_if(.., |awaited| is_late(awaited)).collect();
        for awaited in &late {
            self.late.push(awaited.message);
            let rule = if awaited.is_again { ANSWERED_AGAIN } else { ANSWERED };
            let word = awaited.message.word();
            let finding = if awaited.is_noticed {
                let saw = format!("{word} got a notification and no ack; the hub takes it as accepted");
                Finding::warn(Step::Response, saw, rule, "send an ack before the notification")
            } else {
                let saw = format!("no answer to {word} within 30 s");
                let mend = match awaited.is_again {
                    true => "acknowledge it again; remember ids so that nothing is done twice",
                    false => "send an ack when the app takes it, a reject when it does not want it",
                };
                Finding::wrong(Step::Response, saw, rule, mend)
            };
            self.say(at, finding, acts);
        }
        if !late.is_empty() && self.awaited.is_empty() {
            self.go_on(at, acts);
        }
    }

    pub(super) fn came_back(&mut self, at: Duration, since: Duration, acts: &mut Vec<Act>) {
        let pause = at.saturating_sub(since);
        self.pause = Some(pause);
        let saw = waited("back", pause);
        let finding = if pause < HAMMERING {
            Finding::wrong(Step::Reconnect, saw, BACK_OFF, "wait a second before the first try")
        } else if pause < FIRST_PAUSE {
            Finding::warn(Step::Reconnect, saw, BACK_OFF, "wait a second before the first try")
        } else {
            Finding::ok(Step::Reconnect, saw, BACK_OFF)
        };
        self.say(at, finding, acts);
    }

    pub(super) fn tried_again(&mut self, at: Duration, since: Duration, acts: &mut Vec<Act>) {
        let pause = at.saturating_sub(since);
        let saw = waited("tried again", pause);
        let grows = self.pause.is_none_or(|before| pause >= before.mul_f64(1.2));
        let finding = if pause < HAMMERING {
            Finding::wrong(Step::Reconnect, saw, NOT_HAMMERED, "wait before trying again, longer each time")
        } else if !grows {
            let mend = "double the pause each time, and reset it when the registration succeeds, not on open";
            Finding::warn(Step::Reconnect, format!("{saw}, no longer than before"), NOT_HAMMERED, mend)
        } else {
            Finding::ok(Step::Reconnect, saw, NOT_HAMMERED)
        };
        self.say(at, finding, acts);
    }
}
