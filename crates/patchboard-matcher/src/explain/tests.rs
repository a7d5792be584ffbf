use super::reasons;
use crate::AppProfile;
use crate::profile::CompiledProfile;
use crate::query::Query;
use crate::tokenizer::tokenize;
use crate::trained_model::AppEvidence;

fn check(text: &str, evidence: AppEvidence, expected: &[&str]) {
    let profile = CompiledProfile::new(&AppProfile {
        name: "lamplighter".into(),
        description: "Switches the lights.".into(),
        version: None,
        capabilities: vec!["dimming".into()],
    });
    let found = reasons(&Query::new(&tokenize(text)), &profile, &evidence);
    assert_eq!(found.iter().map(|one| &**one).collect::<Vec<_>>(), expected, "{text}");
}

#[test]
fn reasons_name_the_words_and_the_examples() {
    let none = AppEvidence::default();
    check("lights", none, &["`lights` is in its description"]);
    check("dimming", none, &["`dimming` is among its capabilities"]);
    check("lamplighter", none, &["`lamplighter` is in its name"]);
    check("bulb", none, &["`bulb` is close to its word `lights`"]);
    check("quasar", none, &[]);
    check("xyzzy", AppEvidence { similar_count: 4, nearest_accepted: 0.8, ..none }, &["like 4 messages it took"]);
    check("xyzzy", AppEvidence { similar_count: 1, nearest_accepted: 0.6, ..none }, &["like a message it took"]);
    check("xyzzy", AppEvidence { nearest_refused: 0.9, ..none }, &["like a message that was not for it"]);
    check("xyzzy", AppEvidence { classifier_score: 2.0, ..none }, &["in the words of messages it took"]);
}
