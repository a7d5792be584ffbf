use super::reasons;
use crate::app::AppProfile;
use crate::app::matcher::learned::Evidence;
use crate::app::matcher::profile::Profile;
use crate::app::matcher::query::Query;
use crate::app::matcher::words::words;

fn check(text: &str, evidence: Evidence, expected: &[&str]) {
    let profile = Profile::new(&AppProfile {
        name: "lamplighter".into(),
        description: "Switches the lights.".into(),
        version: None,
        capabilities: vec!["dimming".into()],
    });
    let found = reasons(&Query::new(&words(text)), &profile, &evidence);
    assert_eq!(found.iter().map(|one| &**one).collect::<Vec<_>>(), expected, "{text}");
}

#[test]
fn reasons_name_the_words_and_the_examples() {
    let none = Evidence::default();
    check("lights", none, &["`lights` is in its description"]);
    check("dimming", none, &["`dimming` is among its capabilities"]);
    check("lamplighter", none, &["`lamplighter` is in its name"]);
    check("bulb", none, &["`bulb` is close to its word `lights`"]);
    check("quasar", none, &[]);
    check("xyzzy", Evidence { alike: 4, near: 0.8, ..none }, &["like 4 messages it took"]);
    check("xyzzy", Evidence { alike: 1, near: 0.6, ..none }, &["like a message it took"]);
    check("xyzzy", Evidence { near_wrong: 0.9, ..none }, &["like a message that was not for it"]);
    check("xyzzy", Evidence { linear: 2.0, ..none }, &["in the words of messages it took"]);
}
