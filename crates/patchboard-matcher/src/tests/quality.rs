//! Lower bounds on routing quality, well below the measured values, on the data of `cargo xtask bench routing`.

use super::{app, rank};
use crate::AppProfile;
use crate::{ConfidencePolicy, LabelPolarity, LabelStrength, Matcher, RankingChoice, TrainingData, TrainingExample};

const DATASET: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/routing/desk.json"));

struct Dataset {
    apps: Vec<AppProfile>,
    train: Vec<(String, String)>,
    test: Vec<(String, Option<String>)>,
}

fn dataset() -> Dataset {
    let file: serde_json::Value = serde_json::from_str(DATASET).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let rows = |name: &str| file[name].as_array().unwrap().clone();
    Dataset {
        apps: file["apps"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, description)| app(name, description.as_str().unwrap()))
            .collect(),
        train: rows("train").iter().map(|row| (text(&row[0]), text(&row[1]))).collect(),
        test: rows("test").iter().map(|row| (text(&row[0]), row[1].as_str().map(str::to_owned))).collect(),
    }
}

/// The share of right answers among the rows that have one, and of wrong deliveries among all, after `limit` examples
/// per app.
fn measured(dataset: &Dataset, limit: usize) -> (f32, f32) {
    let mut matcher = Matcher::new();
    for app in &dataset.apps {
        let rows = dataset.train.iter().filter(|(_, name)| **name == *app.name).take(limit);
        let examples: Vec<TrainingExample> = (1..)
            .zip(rows)
            .map(|(number, (text, _))| TrainingExample {
                number,
                text: text.clone(),
                polarity: LabelPolarity::Positive,
                strength: LabelStrength::Weak,
            })
            .collect();
        // In one batch, or the classifier would be retrained for each.
        matcher.model.replace_training_data(&app.name, TrainingData { label_count: examples.len() as u64, examples });
    }
    let (mut right, mut wrong) = (0, 0);
    for (text, expected) in &dataset.test {
        let ranking = rank(&matcher, text, &dataset.apps);
        let best = ranking.candidates.first().map(|best| best.app.to_string());
        right += usize::from(expected.is_some() && best == *expected);
        wrong += usize::from(ranking.choose(ConfidencePolicy::default()) != RankingChoice::Unsure && best != *expected);
    }
    let answerable = dataset.test.iter().filter(|(_, expected)| expected.is_some()).count();
    (right as f32 / answerable as f32, wrong as f32 / dataset.test.len() as f32)
}

#[test]
fn routing_stays_good() {
    let dataset = dataset();
    for (limit, min_right, max_wrong) in FLOORS {
        let (right, wrong) = measured(&dataset, *limit);
        assert!(right >= *min_right && wrong <= *max_wrong, "after {limit}: {right} right, {wrong} wrong");
    }
}

/// Examples per app, the least share of right answers, the largest share of wrong deliveries.
const FLOORS: &[(usize, f32, f32)] = &[(0, 0.55, 0.07), (20, 0.64, 0.085), (100, 0.69, 0.065)];
