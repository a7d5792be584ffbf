//! The stages in order, each decided by something other than the words themselves where possible.

use super::*;
use crate::hub::routing::model_prompt::AppPick;
use crate::hub::tests::test_hub::{GIBBERISH, profile};

fn apps(names: &[&str]) -> Vec<Arc<AppProfile>> {
    let described = |name: &&str| match *name {
        "heating" => profile(name, "I control the thermostat and the heating at home"),
        "recipes" => profile(name, "I find recipes and plan what to cook"),
        name => profile(name, "I take notes"),
    };
    names.iter().map(|name| Arc::new(described(name))).collect()
}

/// An app that refused the message.
fn gone() -> Vec<Arc<AppProfile>> {
    vec![Arc::new(profile("gone", ""))]
}

struct Case {
    pipeline: LocalRouter,
    open: Vec<Arc<AppProfile>>,
    absent: Vec<Arc<AppProfile>>,
    away: Vec<Arc<AppProfile>>,
    follow_up: Option<&'static str>,
    refused: Vec<Arc<AppProfile>>,
    words: Option<&'static str>,
}

fn case(open: &[&str], absent: &[&str]) -> Case {
    let pipeline = LocalRouter {
        rules: HubRules {
            aliases: vec![("nb".into(), "notebook".into()), ("x".into(), "unseen".into())],
            rules: vec![
                RoutingRule::new(["play *"], "music"),
                RoutingRule::new(["note *", "write down *"], "notebook"),
            ],
        },
        catch_all: Some("inbox".into()),
        policy: ConfidencePolicy::default(),
    };
    let (open, absent) = (apps(open), apps(absent));
    Case { pipeline, open, away: absent.clone(), absent, follow_up: None, refused: Vec::new(), words: None }
}

impl Case {
    fn question<'a>(&'a self, text: &'a str) -> RoutingRequest<'a> {
        RoutingRequest {
            text,
            stripped_text: self.words,
            untried: &self.open,
            expected_back: &self.absent,
            disconnected: &self.away,
            follow_up: self.follow_up,
            refused: &self.refused,
            similarity: None,
        }
    }

    fn check(&self, text: &str, expected: &str) {
        let question = self.question(text);
        let found = match self.pipeline.route(&question, &Matcher::new()) {
            LocalOutcome::Deliver(decision) => shown(&decision),
            LocalOutcome::WaitFor(app, decision) => format!("wait for {app}: {}", shown(&decision)),
            LocalOutcome::Unsure(closest) => match self.pipeline.fallback(&question, &closest) {
                Some(decision) => shown(&decision),
                None => "nobody".to_owned(),
            },
        };
        assert_eq!(found, expected, "{text}");
    }
}

fn shown(decision: &RoutingDecision) -> String {
    let text = decision.text.as_ref().map_or_else(String::new, |text| format!(" `{text}`"));
    format!("{} {}{text}", decision.stage.name(), decision.apps.join("+"))
}

#[test]
fn a_name_at_the_beginning() {
    let case = case(&["notebook", "so"], &["lamp"]);
    case.check("notebook: buy milk", "direct notebook `buy milk`");
    case.check("NoteBook, buy milk", "direct notebook `buy milk`");
    case.check("lamp: off", "wait for lamp: direct lamp `off`");
    case.check("stranger: zxqv", "nobody");
}

#[test]
fn apps_long_disconnected_are_waited_for_only_when_named() {
    let case = Case { absent: Vec::new(), ..case(&["recipes"], &["heating"]) };
    case.check("heating: off", "wait for heating: direct heating `off`");
    case.check("turn up the thermostat", "nobody");
}

#[test]
fn follow_ups_come_before_rules_and_after_names() {
    let case = Case { follow_up: Some("lamp"), ..case(&["notebook", "lamp", "music"], &[]) };
    case.check("play it", "follow-up lamp");
    case.check("notebook: yes", "direct notebook `yes`");
    let gone = Case { follow_up: Some("gone"), ..case };
    gone.check("play it", "rule music");
}

#[test]
fn aliases_and_rules() {
    let case = case(&["notebook"], &["music"]);
    case.check("nb: buy milk", "alias notebook `buy milk`");
    case.check("Write down the milk", "rule notebook");
    case.check("play something", "wait for music: rule music");
    case.check("x: hello", "wait for unseen: alias unseen `hello`");
}

#[test]
fn a_refused_message_waits_for_nobody_but_goes_to_whom_it_names() {
    let case = Case { refused: gone(), ..case(&["lamp"], &["music", "desk"]) };
    case.check("play zxqv", "nobody");
    case.check("desk: zxqv", "nobody");
    case.check("lamp: zxqv", "direct lamp `zxqv`");
}

#[test]
fn a_refused_message_goes_only_to_one_that_fits_as_well_as_a_first_one() {
    let fitting = Case { refused: gone(), ..case(&["recipes", "heating"], &[]) };
    fitting.check("turn up the thermostat", "matcher heating");
    fitting.check(GIBBERISH, "nobody");
    // A single app is chosen at a low confidence, unless others refused before.
    let pipeline = LocalRouter {
        policy: ConfidencePolicy {
            min_single_app: 0.0,
            margin: 0.0,
            min_untrained: 1.1,
            min_trained: 1.1,
            min_each_of_several: 1.1,
        },
        ..case(&[], &[]).pipeline
    };
    let alone = Case { pipeline, ..case(&["heating"], &[]) };
    alone.check("turn up the thermostat", "matcher heating");
    let left = Case { refused: gone(), ..alone };
    left.check("turn up the thermostat", "nobody");
    let caught = Case { refused: gone(), ..case(&["lamp", "inbox"], &[]) };
    caught.check(GIBBERISH, "catch-all inbox");
}

#[test]
fn unmatched_messages_go_to_the_catch_all() {
    case(&["notebook", "inbox"], &[]).check(GIBBERISH, "catch-all inbox");
    case(&["notebook"], &["inbox"]).check(GIBBERISH, "nobody");
    case(&[], &[]).check(GIBBERISH, "nobody");
}

#[test]
fn others_get_the_words_without_the_name_they_were_addressed_to() {
    let case = Case { refused: gone(), words: Some("zxqv"), ..case(&["lamp", "inbox"], &[]) };
    case.check("notebook: zxqv", "catch-all inbox `zxqv`");
    let choice = ModelPicks { picks: vec![AppPick { app: "lamp".into(), reason: None }] };
    let decision = case.pipeline.decision_from_model(&case.question("notebook: zxqv"), &choice, &[]).unwrap();
    assert_eq!((shown(&decision).as_str(), &*decision.reason), ("model lamp `zxqv`", "chosen by the model"));
    // A comma alone does not make an address: the text stays as it is.
    let plain = Case { words: None, ..case };
    plain.check("Well, zxqv", "catch-all inbox");
}

#[test]
fn the_matcher_decides_by_words() {
    let both = case(&["recipes", "heating"], &[]);
    both.check("turn up the thermostat", "matcher heating");
    let absent = case(&["recipes"], &["heating"]);
    absent.check("turn up the thermostat", "wait for heating: matcher heating");
    let refused = Case { refused: gone(), ..absent };
    refused.check("turn up the thermostat", "nobody");
}

#[test]
fn a_model_that_names_nobody_decides_nothing() {
    let case = case(&["notebook"], &[]);
    assert_eq!(case.pipeline.decision_from_model(&case.question("x"), &ModelPicks::default(), &[]), None);
    let picks = ["a", "b"].map(|app| AppPick { app: app.into(), reason: Some("both".into()) }).to_vec();
    let decision = case.pipeline.decision_from_model(&case.question("x"), &ModelPicks { picks }, &[]).unwrap();
    assert_eq!((shown(&decision).as_str(), &*decision.reason), ("model a+b", "both"));
}
