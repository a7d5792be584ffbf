//! What the hub's matcher learned about one app: the examples, from which everything else is made again.

use serde::{Deserialize, Serialize};

use super::{RecordError, v1};
use crate::app::matcher;

/// One variant for each version; frozen like the versions of other records.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Lessons {
    V1 { count: u64, examples: Vec<Example> },
}

#[derive(Serialize, Deserialize)]
struct Example {
    n: u64,
    text: String,
    verdict: Verdict,
    strength: Strength,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Right,
    Wrong,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Strength {
    Weak,
    Strong,
}

pub(crate) fn encode_lessons(lessons: &matcher::Lessons) -> Vec<u8> {
    let examples = lessons.examples.iter().map(Example::from).collect();
    v1::encode(&Lessons::V1 { count: lessons.count, examples })
}

pub(crate) fn decode_lessons(bytes: &[u8]) -> Result<matcher::Lessons, RecordError> {
    let Lessons::V1 { count, examples } =
        v1::decode(bytes).map_err(|source| RecordError::Malformed { version: 1, source })?;
    Ok(matcher::Lessons { count, examples: examples.into_iter().map(matcher::Example::from).collect() })
}

impl From<&matcher::Example> for Example {
    fn from(example: &matcher::Example) -> Self {
        Self {
            n: example.number,
            text: example.text.clone(),
            verdict: match example.verdict {
                matcher::Verdict::Right => Verdict::Right,
                matcher::Verdict::Wrong => Verdict::Wrong,
            },
            strength: match example.strength {
                matcher::Strength::Weak => Strength::Weak,
                matcher::Strength::Strong => Strength::Strong,
            },
        }
    }
}

impl From<Example> for matcher::Example {
    fn from(stored: Example) -> Self {
        Self {
            number: stored.n,
            text: stored.text,
            verdict: match stored.verdict {
                Verdict::Right => matcher::Verdict::Right,
                Verdict::Wrong => matcher::Verdict::Wrong,
            },
            strength: match stored.strength {
                Strength::Weak => matcher::Strength::Weak,
                Strength::Strong => matcher::Strength::Strong,
            },
        }
    }
}

#[cfg(test)]
mod tests;
