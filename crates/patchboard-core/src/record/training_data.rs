//! The stored form of the matcher's training data of one app: the examples, from which everything else is derived.

use serde::{Deserialize, Serialize};

use super::{RecordError, model_messages};

/// One variant per version.
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

pub(crate) fn encode_training_data(training_data: &patchboard_matcher::TrainingData) -> Vec<u8> {
    let examples = training_data.examples.iter().map(StoredExample::from).collect();
    model_messages::encode(&VersionedTrainingData::V1 { count: training_data.label_count, examples })
}

pub(crate) fn decode_training_data(bytes: &[u8]) -> Result<patchboard_matcher::TrainingData, RecordError> {
    let VersionedTrainingData::V1 { count, examples } =
        model_messages::decode(bytes).map_err(|source| RecordError::Malformed { version: 1, source })?;
    Ok(patchboard_matcher::TrainingData {
        label_count: count,
        examples: examples.into_iter().map(patchboard_matcher::TrainingExample::from).collect(),
    })
}

impl From<&patchboard_matcher::TrainingExample> for StoredExample {
    fn from(example: &patchboard_matcher::TrainingExample) -> Self {
        Self {
            n: example.number,
            text: example.text.clone(),
            verdict: match example.polarity {
                patchboard_matcher::LabelPolarity::Positive => StoredVerdict::Right,
                patchboard_matcher::LabelPolarity::Negative => StoredVerdict::Wrong,
            },
            strength: match example.strength {
                patchboard_matcher::LabelStrength::Weak => StoredStrength::Weak,
                patchboard_matcher::LabelStrength::Strong => StoredStrength::Strong,
            },
        }
    }
}

impl From<StoredExample> for patchboard_matcher::TrainingExample {
    fn from(stored: StoredExample) -> Self {
        Self {
            number: stored.n,
            text: stored.text,
            polarity: match stored.verdict {
                StoredVerdict::Right => patchboard_matcher::LabelPolarity::Positive,
                StoredVerdict::Wrong => patchboard_matcher::LabelPolarity::Negative,
            },
            strength: match stored.strength {
                StoredStrength::Weak => patchboard_matcher::LabelStrength::Weak,
                StoredStrength::Strong => patchboard_matcher::LabelStrength::Strong,
            },
        }
    }
}

#[cfg(test)]
mod tests;
