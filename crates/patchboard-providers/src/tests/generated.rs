//! Generated answers of text and calls, encoded in a dialect and parsed again.

use patchboard_core::model::ModelEvent;
use proptest::collection::vec;
use proptest::prelude::*;

use super::fixture::{assert_pieces, hear};
use crate::event_reader::EventParser;

/// A stretch of an answer, in the pieces it is written in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Spoken {
    Text(Vec<String>),
    Call { name: &'static str, pieces: Vec<String> },
}

pub(crate) fn answer() -> impl Strategy<Value = Vec<Spoken>> {
    let piece = prop_oneof![
        3 => "[{}\\[\\]\"\\\\:, a-z0-9é🦀\n]{0,8}",
        1 => Just("{\"city\": \"Bern\"}".to_owned()),
        1 => Just(String::new()),
    ];
    let pieces = vec(piece, 0..6);
    let name = proptest::sample::select(vec!["weather", "made_up"]);
    let stretch = prop_oneof![
        pieces.clone().prop_map(Spoken::Text),
        (name, pieces).prop_map(|(name, pieces)| Spoken::Call { name, pieces }),
    ];
    vec(stretch, 0..6)
}

/// The parsed events equal the encoded ones, in order, with `nothing` as the arguments of a call without any, however
/// the bytes are split.
pub(crate) fn check<P: EventParser>(
    parser: impl Fn() -> P,
    answer: &[Spoken],
    written: &str,
    nothing: &str,
    cuts: &[usize],
) -> Result<(), TestCaseError> {
    let bytes = written.as_bytes();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).chain([0, bytes.len()]).collect();
    cuts.sort_unstable();
    let said = hear(parser(), cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]));
    prop_assert_eq!(&said, &hear(parser(), [bytes]));
    let said = said.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
    assert_pieces(&said);
    let expected = answer.iter().map(|stretch| match stretch {
        Spoken::Text(pieces) => Heard::Text(pieces.concat()),
        Spoken::Call { name, pieces } => {
            let whole = pieces.concat();
            Heard::Call((*name).to_owned(), if whole.is_empty() { nothing.to_owned() } else { whole })
        }
    });
    prop_assert_eq!(heard(&said), join(expected));
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Text(String),
    Call(String, String),
}

fn heard(said: &[ModelEvent]) -> Vec<Heard> {
    let mut known = None;
    let mut heard = Vec::new();
    for event in said {
        match event {
            ModelEvent::Text(text) => heard.push(Heard::Text(text.clone())),
            ModelEvent::ToolCallChunk { index, text, .. } if known == Some(*index) => {
                if let Some(Heard::Call(_, arguments)) = heard.last_mut() {
                    arguments.push_str(text);
                }
            }
            ModelEvent::ToolCallChunk { index, name, text } => {
                known = Some(*index);
                heard.push(Heard::Call(name.to_string(), text.clone()));
            }
            ModelEvent::ModelSelected { .. }
            | ModelEvent::Thought(_)
            | ModelEvent::ToolCall { .. }
            | ModelEvent::Usage(_)
            | ModelEvent::Stop(_) => {}
        }
    }
    join(heard)
}

/// Texts that follow each other are one, and silence is nothing.
fn join(stretches: impl IntoIterator<Item = Heard>) -> Vec<Heard> {
    let mut joined: Vec<Heard> = Vec::new();
    for stretch in stretches {
        match (joined.last_mut(), stretch) {
            (_, Heard::Text(text)) if text.is_empty() => {}
            (Some(Heard::Text(before)), Heard::Text(text)) => before.push_str(&text),
            (_, stretch) => joined.push(stretch),
        }
    }
    joined
}
