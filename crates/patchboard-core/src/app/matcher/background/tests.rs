use std::sync::Arc;

use super::{LINES, likeness};
use crate::app::AppProfile;
use crate::app::matcher::profile::Profile;
use crate::app::matcher::query::Query;
use crate::app::matcher::words::words;

fn app(description: &str) -> Arc<Profile> {
    Arc::new(Profile::new(&AppProfile {
        name: "app".into(),
        description: description.into(),
        version: None,
        capabilities: Vec::new(),
    }))
}

fn whole(text: &str, apps: &[Arc<Profile>]) -> f32 {
    likeness(&Query::new(&words(text)), apps).whole
}

#[test]
fn it_is_about_what_the_apps_are_not() {
    let text = "what will the weather be tomorrow, does it rain";
    let without = whole(text, &[app("Reads and writes email.")]);
    let with = whole(text, &[app("The weather forecast: rain, snow, wind and temperature outside.")]);
    assert!(without > with + 0.1, "{without} {with}");
}

#[test]
fn every_line_says_something() {
    assert!(LINES.len() > 60);
    assert!(LINES.iter().all(|line| line.similarity(line) > 0.9));
}
