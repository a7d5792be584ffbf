use super::{CompiledProfile, TermMatch, TermSource, is_similar_spelling};
use crate::AppProfile;
use crate::query::Query;
use crate::tokenizer::tokenize;

fn profile(name: &str, description: &str, capabilities: &[&str]) -> CompiledProfile {
    CompiledProfile::new(&AppProfile {
        name: name.into(),
        description: description.into(),
        version: None,
        capabilities: capabilities.iter().map(|one| (*one).into()).collect(),
    })
}

fn overlap(profile: &CompiledProfile, text: &str) -> f32 {
    profile.overlap(&Query::new(&tokenize(text)))
}

#[test]
fn a_word_is_found_where_it_is_said() {
    let profile = profile("day-planner", "I water houseplants and the garden.", &["soil.moisture"]);
    let matched = |text: &str| {
        Query::new(&tokenize(text)).terms.first().and_then(|term| profile.best_match(term)).map(|(_, matched)| matched)
    };
    assert_eq!(matched("planner"), Some(TermMatch::Word(TermSource::Name)));
    assert_eq!(matched("moisture"), Some(TermMatch::Word(TermSource::Capability)));
    assert_eq!(matched("houseplant"), Some(TermMatch::Word(TermSource::Description)));
    assert_eq!(matched("mosture"), Some(TermMatch::Spelling));
    assert!(matches!(matched("irrigation"), Some(TermMatch::Concept(_) | TermMatch::Topic(_))));
    assert_eq!(matched("quasar"), None);
}

#[test]
fn closer_matches_overlap_more() {
    let music = profile("dj", "Plays songs.", &[]);
    let same = overlap(&music, "songs");
    let concept = overlap(&music, "melody");
    let topic = overlap(&music, "documentary");
    assert!(same > concept && concept > topic && topic > 0.0, "{same} {concept} {topic}");
    assert_eq!(overlap(&music, "mortgage"), 0.0);
}

#[test]
fn what_it_is_not_for_does_not_count() {
    let both = profile("a", "Handles calendar events and email.", &[]);
    let without = profile("a", "Handles calendar events. Not for email.", &[]);
    assert!(overlap(&both, "email") > 0.5);
    assert!(overlap(&without, "email") < 0.2);
    assert!(overlap(&without, "calendar") > 0.5);
}

#[test]
fn common_prefixes_and_misspellings_are_similar() {
    for (one, other, expected) in [
        ("einkauf", "einkaufslist", true),
        ("weather", "wether", true),
        ("calendar", "calender", true),
        ("light", "night", true),
        ("banana", "band", false),
        ("timer", "tiger", true),
        ("meeting", "message", false),
        ("", "", false),
        ("été", "étage", false),
    ] {
        assert_eq!(is_similar_spelling(one, other), expected, "{one} {other}");
        assert_eq!(is_similar_spelling(other, one), expected, "{other} {one}");
    }
}

#[test]
fn any_description_will_do() {
    for description in ["", " ", "not", "never, not, except.", "🎉🎉", "明日の天気を教えます", &"x ".repeat(1024)]
    {
        let profile = profile("a", description, &["", "--"]);
        assert!(overlap(&profile, "what is the weather tomorrow").is_finite());
    }
}
