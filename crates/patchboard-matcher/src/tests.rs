use std::sync::Arc;

use proptest::prelude::*;

use super::{
    AppRanking, ConfidencePolicy, EmbeddingSimilarity, LabelPolarity, LabelStrength, Matcher, RankingChoice,
    TrainingLabel,
};
use crate::AppProfile;

mod learning;
mod quality;

fn app(name: &str, description: &str) -> AppProfile {
    AppProfile { name: name.into(), description: description.into(), version: None, capabilities: Vec::new() }
}

fn household() -> Vec<AppProfile> {
    vec![
        app("notebook", "I take notes and remember things for you."),
        app("lamps", "Switches the lights and plugs in every room."),
        app("jukebox", "Plays music, podcasts and radio."),
        app("chef", "Finds recipes and plans meals."),
        app("mailman", "Reads and writes email."),
    ]
}

fn rank(matcher: &Matcher, text: &str, apps: &[AppProfile]) -> AppRanking {
    matcher.rank(text, &apps.iter().collect::<Vec<_>>(), None)
}

fn chosen(matcher: &Matcher, text: &str, apps: &[AppProfile]) -> Vec<String> {
    let ranking = rank(matcher, text, apps);
    match ranking.choose(ConfidencePolicy::default()) {
        RankingChoice::Deliver(indexes) => {
            indexes.iter().map(|index| ranking.candidates[*index].app.to_string()).collect()
        }
        RankingChoice::Unsure => Vec::new(),
    }
}

fn confidence(matcher: &Matcher, text: &str, apps: &[AppProfile], name: &str) -> f32 {
    let ranking = rank(matcher, text, apps);
    ranking.candidates.iter().find(|one| &*one.app == name).map_or(0.0, |one| one.confidence)
}

fn train(matcher: &mut Matcher, text: &str, app: &str, polarity: LabelPolarity, strength: LabelStrength) {
    matcher.learn([(text, TrainingLabel { app, polarity, strength })]);
}

#[test]
fn descriptions_are_enough_for_the_obvious() {
    let matcher = Matcher::new();
    for (text, expected) in [
        ("switch off the lights in the bedroom", "lamps"),
        ("it is too dark, turn on the lamp", "lamps"),
        ("play some jazz", "jukebox"),
        ("what can I cook with chicken and rice?", "chef"),
        ("any new emails from Anna?", "mailman"),
        ("note that the meter shows 4711", "notebook"),
        ("Licht im Wohnzimmer an", "lamps"),
        ("pon una canción", "jukebox"),
    ] {
        assert_eq!(chosen(&matcher, text, &household()), [expected], "{text}");
    }
}

#[test]
fn what_is_for_nobody_is_held() {
    let matcher = Matcher::new();
    for text in ["", "zxqv blorp wub", "who won the battle of Waterloo", "…", "42", "the of and", "🤷"] {
        assert_eq!(chosen(&matcher, text, &household()), [""; 0], "{text}");
    }
}

#[test]
fn a_lone_app_gets_what_is_somehow_its_own() {
    let matcher = Matcher::new();
    let notebook = [app("notebook", "I take notes and remember things for you")];
    assert_eq!(chosen(&matcher, "Remember to buy groceries tomorrow", &notebook), ["notebook"]);
    for text in ["zxqv blorp wub", "what is the weather in Paris", "", "play some jazz"] {
        assert_eq!(chosen(&matcher, text, &notebook), [""; 0], "{text}");
    }
    let mut client = app("my-client", "I handle task management and to-do lists.");
    client.capabilities = vec!["tasks".into(), "reminders".into()];
    for text in ["add a task to call the bank", "remind me to water the plants", "what is on my todo list"] {
        assert_eq!(chosen(&matcher, text, std::slice::from_ref(&client)), ["my-client"], "{text}");
    }
}

#[test]
fn equal_descriptions_leave_the_choice_to_the_user() {
    let matcher = Matcher::new();
    let twins = [app("one", "Plays music."), app("two", "Plays music.")];
    let ranking = rank(&matcher, "play music", &twins);
    assert_eq!(ranking.candidates[0].confidence, ranking.candidates[1].confidence);
    assert_eq!(ranking.choose(ConfidencePolicy::EAGER), RankingChoice::Unsure);
}

#[test]
fn two_requests_have_two_recipients() {
    let matcher = Matcher::new();
    let mut both = chosen(&matcher, "write an email to Anna and turn off the lights", &household());
    both.sort();
    assert_eq!(both, ["lamps", "mailman"]);
    assert_eq!(chosen(&matcher, "find a recipe with chicken and rice", &household()), ["chef"]);
}

#[test]
fn there_may_be_no_app_at_all() {
    let ranking = Matcher::new().rank("play music", &[], None);
    assert_eq!(ranking, AppRanking::default());
    assert_eq!(ranking.choose(ConfidencePolicy::EAGER), RankingChoice::Unsure);
}

#[test]
fn long_texts_and_other_scripts_are_ranked_too() {
    let matcher = Matcher::new();
    let apps = household();
    for text in ["lights ".repeat(10_000), "明".repeat(20_000), "\u{0}\u{fffd}".repeat(9_000), "'".repeat(65_536)] {
        let ranking = rank(&matcher, &text, &apps);
        assert_eq!(ranking.candidates.len(), apps.len());
        assert!(ranking.candidates.iter().all(|one| (0.0..=1.0).contains(&one.confidence)));
    }
    let weather = [app("wetter", "天気を教えます"), app("musik", "音楽を再生します")];
    assert_eq!(rank(&matcher, "明日の天気は？", &weather).candidates[0].app, Arc::from("wetter"));
}

#[test]
fn meaning_decides_where_words_do_not() {
    let matcher = Matcher::new();
    let apps = household();
    let apps: Vec<&AppProfile> = apps.iter().collect();
    let text = "brighten up this gloomy place";
    let near =
        |similarity: &[f32]| matcher.rank(text, &apps, Some(&EmbeddingSimilarity { by_app: similarity.to_vec() }));
    let without = matcher.rank(text, &apps, None);
    let lamps = |ranking: &AppRanking| {
        ranking.candidates.iter().find(|one| &*one.app == "lamps").map_or(0.0, |one| one.confidence)
    };
    let with = near(&[0.1, 0.62, 0.12, 0.1, 0.08]);
    assert!(lamps(&with) > lamps(&without));
    assert_eq!(with.candidates[0].app, Arc::from("lamps"));
    // Invalid similarities are ignored.
    assert_eq!(near(&[0.9]), without);
    assert_eq!(near(&[f32::NAN, 0.1, 0.1, 0.1, 0.1]), without);
}

#[test]
fn evidence_is_given_for_the_best() {
    let ranking = rank(&Matcher::new(), "switch off the lights", &household());
    let why: Vec<&str> = ranking.candidates[0].reasons.iter().map(|one| &**one).collect();
    assert!(why.contains(&"`lights` is in its description"), "{why:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_text_gives_the_same_ranking_in_any_order_of_apps(text in ".{0,200}", first in 0usize..5) {
        let mut matcher = Matcher::new();
        train(&mut matcher, "play some jazz", "jukebox", LabelPolarity::Positive, LabelStrength::Weak);
        train(&mut matcher, &text, "chef", LabelPolarity::Positive, LabelStrength::Strong);
        let mut apps = household();
        let straight = rank(&matcher, &text, &apps);
        apps.rotate_left(first);
        let turned = rank(&matcher, &text, &apps);
        prop_assert_eq!(straight.candidates.len(), turned.candidates.len());
        for (one, other) in straight.candidates.iter().zip(&turned.candidates) {
            prop_assert_eq!(&one.app, &other.app);
            prop_assert!((one.confidence - other.confidence).abs() < 1e-5);
        }
    }

    #[test]
    fn what_is_restored_ranks_the_same(
        labels in proptest::collection::vec(("[a-e ]{1,24}", 0usize..5, any::<bool>(), any::<bool>()), 0..40),
        text in "[a-e ]{1,24}",
    ) {
        let apps = household();
        let mut matcher = Matcher::new();
        for (text, app, right, strong) in labels {
            let polarity = if right { LabelPolarity::Positive } else { LabelPolarity::Negative };
            let strength = if strong { LabelStrength::Strong } else { LabelStrength::Weak };
            train(&mut matcher, &text, &apps[app].name, polarity, strength);
        }
        let mut again = Matcher::new();
        for app in apps.iter().rev() {
            if let Some(data) = matcher.export_training(&app.name) {
                again.import_training(&app.name, data);
            }
        }
        prop_assert_eq!(rank(&matcher, &text, &apps), rank(&again, &text, &apps));
    }
}

#[test]
fn what_a_person_said_once_need_not_be_said_again() {
    let apps = [app("agenda", "Manages appointments and meetings."), app("jukebox", "Plays songs.")];
    let apps: Vec<&AppProfile> = apps.iter().collect();
    let mut matcher = Matcher::new();
    let label = |app, polarity| TrainingLabel { app, polarity, strength: LabelStrength::Strong };
    matcher.learn([("Flooble the gnarp!", label("agenda", LabelPolarity::Positive))]);
    let ranking = matcher.rank("flooble the gnarp", &apps, None);
    assert_eq!(ranking.choose(ConfidencePolicy::default()), RankingChoice::Deliver(vec![0]), "{ranking:?}");
    assert_eq!(&*ranking.candidates[0].app, "agenda");
    // The label can be reversed.
    matcher.learn([
        ("flooble the gnarp", label("agenda", LabelPolarity::Negative)),
        ("flooble the gnarp", label("jukebox", LabelPolarity::Positive)),
    ]);
    let ranking = matcher.rank("flooble the gnarp", &apps, None);
    assert_eq!(&*ranking.candidates[0].app, "jukebox");
    assert_eq!(ranking.choose(ConfidencePolicy::default()), RankingChoice::Deliver(vec![0]), "{ranking:?}");
}

#[test]
fn what_is_said_not_to_be_meant_does_not_count() {
    let matcher = Matcher::new();
    for text in ["not the lights, play some music", "don't read my email, just play some jazz"] {
        assert_eq!(chosen(&matcher, text, &household()), ["jukebox"], "{text}");
    }
    // No alternative follows: the negation is part of the content.
    assert_eq!(rank(&matcher, "the lights do not turn off", &household()).candidates[0].app, "lamps".into());
}

#[test]
fn what_shall_be_kept_in_mind_is_not_what_it_is_about() {
    let matcher = Matcher::new();
    for text in ["remember that Anna likes jazz", "take a note: email Anna about the recipe"] {
        assert_eq!(rank(&matcher, text, &household()).candidates[0].app, "notebook".into(), "{text}");
    }
}
