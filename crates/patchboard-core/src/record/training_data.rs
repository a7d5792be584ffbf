//! The stored form of the matcher's training data of one app: the examples, from which everything else is derived.

use serde::{Deserialize, Serialize};

use super::{RecordError, chat_run_events};
use crate::app::matcher;

/// One variant per version; frozen like the versions of other records.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum VersionedTrainingData {
    V1 { count: u64, examples: Vec<StoredExample> },
}

#[derive(Serialize, Deserialize)]
struct StoredExample {
    n: u64,
    text: String,
    verdict: StoredVerdict,
    strength: StoredStrength,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredVerdict {
    Right,
    Wrong,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredStrength {
    Weak,
    Strong,
}

pub(crate) fn encode_training_data(lessons: &matcher::TrainingData) -> Vec<u8> {
    let examples = lessons.examples.iter().map(StoredExample::from).collect();
    chat_run_events::encode(&VersionedTrainingData::V1 { count: lessons.label_count, examples })
}

pub(crate) fn decode_training_data(bytes: &[u8]) -> Result<matcher::TrainingData, RecordError> {
    let VersionedTrainingData::V1 { count, examples } =
        chat_run_events::decode(bytes).map_err(|source| RecordError::Malformed { version: 1, source })?;
    Ok(matcher::TrainingData {
        label_count: count,
        examples: examples.into_iter().map(matcher::TrainingExample::from).collect(),
    })
}

impl From<&matcher::TrainingExample> for StoredExample {
    fn from(example: &matcher::TrainingExample) -> Self {
        Self {
            n: example.number,
            text: example.text.clone(),
            verdict: match example.polarity {
                matcher::LabelPolarity::Positive => StoredVerdict::Right,
                matcher::LabelPolarity::Negative => StoredVerdict::Wrong,
            },
            strength: match example.strength {
                matcher::LabelStrength::Weak => StoredStrength::Weak,
                matcher::LabelStrength::Strong => StoredStrength::Strong,
            },
        }
    }
}

impl From<StoredExample> for matcher::TrainingExample {
    fn from(stored: StoredExample) -> Self {
        Self {
            number: stored.n,
            text: stored.text,
            polarity: match stored.verdict {
                StoredVerdict::Right => matcher::LabelPolarity::Positive,
                StoredVerdict::Wrong => matcher::LabelPolarity::Negative,
            },
            strength: match stored.strength {
                StoredStrength::Weak => matcher::LabelStrength::Weak,
                StoredStrength::Strong => matcher::LabelStrength::Strong,
            },
        }
    }
}

#[cfg(test)]
mod tests;
