//! Generated answers of text and calls, encoded in a dialect and parsed again.

use patchboard_core::model::ModelEvent;
use proptest::collection::vec;
use proptest::prelude::*;

use super::fixture::{assert_chunks, parse};
use crate::event_reader::EventParser;

/// A part of an answer, in the chunks it is sent in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GeneratedPart {
    Text(Vec<String>),
    Call { name: &'static str, chunks: Vec<String> },
}

pub(crate) fn answer() -> impl Strategy<Value = Vec<GeneratedPart>> {
    let chunk = prop_oneof![
        3 => "[{}\\[\\]\"\\\\:, a-z0-9é🦀\n]{0,8}",
        1 => Just("{\"city\": \"Bern\"}".to_owned()),
        1 => Just(String::new()),
    ];
    let chunks = vec(chunk, 0..6);
    let name = proptest::sample::select(vec!["weather", "made_up"]);
    let part = prop_oneof![
        chunks.clone().prop_map(GeneratedPart::Text),
        (name, chunks).prop_map(|(name, chunks)| GeneratedPart::Call { name, chunks }),
    ];
    vec(part, 0..6)
}

/// The parsed events equal the encoded ones, in order, with `no_arguments` as the arguments of a call without any,
/// however the bytes are split.
pub(crate) fn check<P: EventParser>(
    parser: impl Fn() -> P,
    answer: &[GeneratedPart],
    encoded: &str,
    no_arguments: &str,
    cuts: &[usize],
) -> Result<(), TestCaseError> {
    let bytes = encoded.as_bytes();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).chain([0, bytes.len()]).collect();
    cuts.sort_unstable();
    let events = parse(parser(), cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]));
    prop_assert_eq!(&events, &parse(parser(), [bytes]));
    let events = events.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
    assert_chunks(&events);
    let expected = answer.iter().map(|part| match part {
        GeneratedPart::Text(chunks) => ParsedPart::Text(chunks.concat()),
        GeneratedPart::Call { name, chunks } => {
            let whole = chunks.concat();
            ParsedPart::Call((*name).to_owned(), if whole.is_empty() { no_arguments.to_owned() } else { whole })
        }
    });
    prop_assert_eq!(parsed_parts(&events), join(expected));
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum ParsedPart {
    Text(String),
    Call(String, String),
}

fn parsed_parts(events: &[ModelEvent]) -> Vec<ParsedPart> {
    let mut known = None;
    let mut parsed_parts = Vec::new();
    for event in events {
        match event {
            ModelEvent::Text(text) => parsed_parts.push(ParsedPart::Text(text.clone())),
            ModelEvent::ToolCallChunk { index, text, .. } if known == Some(*index) => {
                if let Some(ParsedPart::Call(_, arguments)) = parsed_parts.last_mut() {
                    arguments.push_str(text);
                }
            }
            ModelEvent::ToolCallChunk { index, name, text } => {
                known = Some(*index);
                parsed_parts.push(ParsedPart::Call(name.to_string(), text.clone()));
            }
            ModelEvent::ModelSelected { .. }
            | ModelEvent::Thought(_)
            | ModelEvent::ToolCall { .. }
            | ModelEvent::Usage(_)
            | ModelEvent::Stop(_) => {}
        }
    }
    join(parsed_parts)
}

/// Texts that follow each other are one, and silence is nothing.
fn join(parts: impl IntoIterator<Item = ParsedPart>) -> Vec<ParsedPart> {
    let mut joined: Vec<ParsedPart> = Vec::new();
    for part in parts {
        match (joined.last_mut(), part) {
            (_, ParsedPart::Text(text)) if text.is_empty() => {}
            (Some(ParsedPart::Text(before)), ParsedPart::Text(text)) => before.push_str(&text),
            (_, part) => joined.push(part),
        }
    }
    joined
}
