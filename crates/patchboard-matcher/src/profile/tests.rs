use super::{CompiledProfile, TermMatch, TermSource, is_alike};
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

fn common(profile: &CompiledProfile, text: &str) -> f32 {
    profile.overlap(&Query::new(&tokenize(text)))
}

#[test]
fn a_word_is_found_where_it_is_said() {
    let profile = profile("day-planner", "I water houseplants and the garden.", &["soil.moisture"]);
    let bond = |text: &str| {
        Query::new(&tokenize(text)).terms.first().and_then(|cue| profile.best_match(cue)).map(|(_, bond)| bond)
    };
    assert_eq!(bond("planner"), Some(TermMatch::Word(TermSource::Name)));
    assert_eq!(bond("moisture"), Some(TermMatch::Word(TermSource::Capability)));
    assert_eq!(bond("houseplant"), Some(TermMatch::Word(TermSource::Description)));
    assert_eq!(bond("mosture"), Some(TermMatch::Spelling));
    assert!(matches!(bond("irrigation"), Some(TermMatch::Concept(_) | TermMatch::Topic(_))));
    assert_eq!(bond("quasar"), None);
}

#[test]
fn the_nearer_the_bond_the_more_in_common() {
    let music = profile("dj", "Plays songs.", &[]);
    let same = common(&music, "songs");
    let concept = common(&music, "melody");
    let topic = common(&music, "documentary");
    assert!(same > concept && concept > topic && topic > 0.0, "{same} {concept} {topic}");
    assert_eq!(common(&music, "mortgage"), 0.0);
}

#[test]
fn what_it_is_not_for_does_not_count() {
    let both = profile("a", "Handles calendar events and email.", &[]);
    let without = profile("a", "Handles calendar events. Not for email.", &[]);
    assert!(common(&both, "email") > 0.5);
    assert!(common(&without, "email") < 0.2);
    assert!(common(&without, "calendar") > 0.5);
}

#[test]
fn likeness_is_of_beginnings_and_slips() {
    for (one, other, alike) in [
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
        assert_eq!(is_alike(one, other), alike, "{one} {other}");
        assert_eq!(is_alike(other, one), alike, "{other} {one}");
    }
}

#[test]
fn any_description_will_do() {
    for description in ["", " ", "not", "never, not, except.", "🎉🎉", "明日の天気を教えます", &"x ".repeat(1024)]
    {
        let profile = profile("a", description, &["", "--"]);
        assert!(common(&profile, "what is the weather tomorrow").is_finite());
    }
}
