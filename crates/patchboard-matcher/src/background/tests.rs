use std::sync::Arc;

use super::{LINES, similarity};
use crate::AppProfile;
use crate::profile::CompiledProfile;
use crate::query::Query;
use crate::tokenizer::tokenize;

fn app(description: &str) -> Arc<CompiledProfile> {
    Arc::new(CompiledProfile::new(&AppProfile {
        name: "app".into(),
        description: description.into(),
        version: None,
        capabilities: Vec::new(),
    }))
}

fn whole(text: &str, apps: &[Arc<CompiledProfile>]) -> f32 {
    similarity(&Query::new(&tokenize(text)), apps).whole_text
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
    assert!(LINES.iter().all(|line| line.similarity_to_profile(line) > 0.9));
}
