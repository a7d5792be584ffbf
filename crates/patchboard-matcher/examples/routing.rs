//! The measuring half of `cargo xtask bench routing`: replays the training rows of a file as acknowledged deliveries and
//! prints what the matcher then decides about its test rows, and how long each decision takes.
//!
//!     routing FILE (EXAMPLES[/DRAW])… [--signals]
//!
//! Draw 0 takes the first rows of each app, every other draw a different selection. `--signals` prints the numbers that
//! decisions are made from, to which `bench/routing/fit.py` fits their weights.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::time::Instant;

use patchboard_matcher::AppProfile;
use patchboard_matcher::{ConfidencePolicy, LabelPolarity, LabelStrength, Matcher, RankingChoice, TrainingLabel};
use serde_json::{Map, Value, json};

/// How often each decision is timed; the fastest counts, because other processes on the machine disturb the rest.
const REPEATS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("the file is missing")?;
    let file: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    let apps: Vec<AppProfile> = objects(&file, "apps").map(|(name, description)| profile(name, description)).collect();
    let texts: Vec<&str> =
        rows(&file, "test").chain(rows(&file, "several")).filter_map(|row| row[0].as_str()).collect();
    let mut stages = Vec::new();
    let (flags, stages_requested): (Vec<String>, Vec<String>) = arguments.partition(|word| word.starts_with("--"));
    for stage in stages_requested {
        let (limit, draw) = stage.split_once('/').unwrap_or((&stage, "0"));
        let (limit, draw): (usize, u64) = (limit.parse()?, draw.parse()?);
        let matcher = trained(&file, limit, draw);
        let rows = if flags.iter().any(|flag| flag == "--signals") {
            signals(&matcher, &apps, &texts)
        } else {
            decide(&matcher, &apps, &texts)
        };
        stages.push(json!({ "examples": limit, "draw": draw, "decisions": rows }));
    }
    writeln!(std::io::stdout(), "{}", Value::Array(stages))?;
    Ok(())
}

fn objects<'a>(file: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    file[name].as_object().into_iter().flat_map(Map::iter)
}

fn rows<'a>(file: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    file[name].as_array().into_iter().flatten()
}

/// A description alone, or an object that also has capabilities.
fn profile(name: &str, entry: &Value) -> AppProfile {
    let description = entry.as_str().or_else(|| entry["description"].as_str()).unwrap_or_default();
    let capabilities = entry["capabilities"].as_array().into_iter().flatten().filter_map(Value::as_str);
    AppProfile {
        name: name.into(),
        description: description.into(),
        version: None,
        capabilities: capabilities.map(Into::into).collect(),
    }
}

/// Taught with some rows of each app.
fn trained(file: &Value, limit: usize, draw: u64) -> Matcher {
    let mut by_app: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (text, app) in rows(file, "train").filter_map(|row| Some((row[0].as_str()?, row[1].as_str()?))) {
        by_app.entry(app).or_default().push(text);
    }
    let mut seed = draw.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let labels = by_app.into_iter().flat_map(|(app, mut texts)| {
        if draw > 0 {
            for at in (1..texts.len()).rev() {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                texts.swap(at, (seed % (at as u64 + 1)) as usize);
            }
        }
        let label =
            move |text| (text, TrainingLabel { app, polarity: LabelPolarity::Positive, strength: LabelStrength::Weak });
        texts.into_iter().take(limit).map(label)
    });
    let mut matcher = Matcher::new();
    matcher.learn(labels.collect::<Vec<_>>());
    matcher
}

fn signals(matcher: &Matcher, apps: &[AppProfile], texts: &[&str]) -> Vec<Value> {
    let apps: Vec<&AppProfile> = apps.iter().collect();
    let of = |text: &&str| {
        let (app_signals, none_signals) = matcher.signals(text, &apps);
        json!({ "apps": app_signals, "none": none_signals })
    };
    texts.iter().map(of).collect()
}

fn decide(matcher: &Matcher, apps: &[AppProfile], texts: &[&str]) -> Vec<Value> {
    let apps: Vec<&AppProfile> = apps.iter().collect();
    // The first decision also makes the descriptions ready.
    matcher.rank("", &apps, None);
    let decision = |text: &str| {
        let mut fastest = u128::MAX;
        let mut ranking = None;
        for _ in 0..REPEATS {
            let started = Instant::now();
            ranking = Some(matcher.rank(text, &apps, None));
            fastest = fastest.min(started.elapsed().as_nanos());
        }
        let ranking = ranking.unwrap_or_default();
        let delivered: Vec<&str> = match ranking.choose(ConfidencePolicy::default()) {
            RankingChoice::Deliver(indexes) => {
                indexes.iter().filter_map(|index| ranking.candidates.get(*index)).map(|one| &*one.app).collect()
            }
            RankingChoice::Unsure => Vec::new(),
        };
        let best = ranking.candidates.first();
        json!({
            "best": best.map(|best| &*best.app),
            "confidence": best.map_or(0.0, |best| best.confidence),
            "delivered": delivered,
            "nanoseconds": u64::try_from(fastest).unwrap_or(u64::MAX),
        })
    };
    texts.iter().map(|text| decision(text)).collect()
}
