use jiff::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::event::{ModelCallOutcome, NodeOutcome, Topic};
use crate::id::{CallId, NodeId, RunId, Seq};
use crate::model::{StopReason, ToolCall, ToolInput};
use crate::tool::ToolOutput;

fn topic() -> Topic {
    Topic::Run(RunId(Uuid::from_u128(1)))
}

/// Numbered as a log would; each a second after the one before.
fn records(events: Vec<(Option<u32>, Event)>) -> Vec<Arc<Envelope>> {
    let mut seq = Seq::FIRST;
    let mut records = Vec::new();
    for ((node, event), second) in events.into_iter().zip(0..) {
        let at = Timestamp::from_second(second).unwrap();
        let record = Envelope { topic: topic(), seq, at, node: node.map(NodeId), event };
        seq = record.last_seq().next();
        records.push(Arc::new(record));
    }
    records
}

fn chunks(pieces: &[&str]) -> TextChunks {
    pieces.iter().copied().collect()
}

fn answer(pieces: &[&str]) -> Event {
    Event::AnswerText(chunks(pieces))
}

fn arguments(call: &str, is_first: bool, pieces: &[&str]) -> Event {
    Event::ToolArguments { call: CallId(call.into()), name: "read".into(), is_first, pieces: chunks(pieces) }
}

fn progress(call: &str, pieces: &[&str]) -> Event {
    Event::ToolProgress { call: CallId(call.into()), name: "read".into(), pieces: chunks(pieces) }
}

/// What each number stands for, whatever record it is in.
fn told(records: &[Arc<Envelope>]) -> Vec<(Seq, Option<NodeId>, Event)> {
    let mut told = Vec::new();
    for record in records {
        let Some(pieces) = record.event.pieces().filter(|pieces| !pieces.is_empty()) else {
            told.push((record.seq, record.node, record.event.clone()));
            continue;
        };
        for (piece, offset) in pieces.iter().zip(0..) {
            let Envelope { seq, node, mut event, .. } = record.part_from(Seq(record.seq.0 + offset));
            *event.pieces_mut().unwrap() = TextChunks::of_single(piece);
            told.push((seq, node, event));
        }
    }
    told
}

/// How a store reads from `from` on.
fn read_from(records: &[Arc<Envelope>], from: Seq) -> Vec<Arc<Envelope>> {
    let found = records.iter().filter(|record| record.last_seq() >= from);
    found.map(|record| Arc::new(record.part_from(from.max(record.seq)))).collect()
}

fn check(events: Vec<(Option<u32>, Event)>, expected: usize) {
    let records = records(events);
    let folded = fold(records.clone());
    assert_eq!(folded.len(), expected, "{folded:?}");
    assert_eq!(told(&folded), told(&records));
}

#[test]
fn adjacent_text_of_one_kind_becomes_one_record() {
    let records = records(vec![
        (None, answer(&["It ", ""])),
        (None, answer(&["is 雨"])),
        (None, answer(&[" today", "."])),
        (None, Event::ThoughtText(chunks(&["hm"]))),
    ]);
    let folded = fold(records.clone());
    let expected = Envelope { event: answer(&["It ", "", "is 雨", " today", "."]), ..(*records[0]).clone() };
    assert_eq!(folded, [Arc::new(expected), records[3].clone()], "under the number and the time of the first");
}

#[test]
fn what_does_not_belong_together_stays_apart() {
    let text = || answer(&["a"]);
    let finished = || Event::ToolFinished { call: CallId("x".into()), output: ToolOutput::ok("done") };
    for (events, expected) in [
        (vec![(None, text()), (None, Event::DraftText(chunks(&["b"])))], 2),
        (vec![(Some(0), text()), (Some(1), text())], 2),
        (vec![(Some(0), text()), (Some(1), text()), (Some(0), text())], 3),
        (vec![(None, text()), (None, finished()), (None, text())], 3),
        (vec![(None, text()), (None, answer(&[])), (None, text())], 3),
        (vec![(None, progress("x", &["1"])), (None, progress("x", &["2"])), (None, progress("y", &["3"]))], 2),
        (
            vec![
                (None, arguments("x", true, &["{"])),
                (None, arguments("x", false, &["}"])),
                (None, arguments("x", true, &["{"])),
                (None, arguments("y", false, &["}"])),
            ],
            3,
        ),
        (vec![(None, finished()), (None, finished())], 2),
    ] {
        check(events, expected);
    }
}

#[test]
fn no_record_is_longer_than_records_may_be() {
    let long = "é".repeat(TextChunks::MAX_BYTES / 2 / 4);
    check(vec![(None, answer(&[&long])); 9], 3);
    let many: Vec<&str> = vec![""; MAX_PIECES / 2];
    let folded = fold(records(vec![(None, answer(&many)); 5]));
    let counts: Vec<_> = folded.iter().map(|record| record.event.seq_count()).collect();
    assert_eq!(counts, [MAX_PIECES, MAX_PIECES, MAX_PIECES / 2].map(|count| count as u64));
    let too_long = "x".repeat(TextChunks::MAX_BYTES + 1);
    check(vec![(None, answer(&[&too_long])), (None, answer(&["more"]))], 2);
}

#[test]
fn a_gap_is_not_closed() {
    let all = records(vec![(None, answer(&["a"])), (None, answer(&["b"])), (None, answer(&["c"]))]);
    let with_gap = [all[0].clone(), all[2].clone()];
    assert_eq!(fold(with_gap.clone()), with_gap);
}

#[test]
fn a_part_of_a_record_begins_at_its_number() {
    let call =
        |id: &str| ToolCall { id: CallId(id.into()), name: "read".into(), input: ToolInput::Malformed("".into()) };
    let ended = |calls: &[&str]| {
        let calls = calls.iter().map(|id| call(id)).collect();
        Event::ModelCallEnded(ModelCallOutcome::Completed { stop: StopReason::ToolCalls, calls })
    };
    for (event, from, expected) in [
        (answer(&["a", "b", "c"]), 1, answer(&["a", "b", "c"])),
        (answer(&["a", "b", "c"]), 2, answer(&["b", "c"])),
        (arguments("x", true, &["a", "b"]), 2, arguments("x", false, &["b"])),
        (progress("x", &["a", "b"]), 2, progress("x", &["b"])),
        (ended(&["x", "y"]), 2, ended(&["y"])),
    ] {
        let record = records(vec![(None, event)]).remove(0);
        let part = record.part_from(Seq(from));
        assert_eq!((part.seq, &part.event, part.last_seq()), (Seq(from), &expected, record.last_seq()));
    }
}

fn any_event() -> impl Strategy<Value = (Option<u32>, Event)> {
    let pieces = || vec("\\PC{0,3}", 0..4).prop_map(|pieces| pieces.iter().map(String::as_str).collect::<TextChunks>());
    let call = || prop::sample::select(vec![CallId("x".into()), CallId("y".into())]);
    let event = prop_oneof![
        3 => pieces().prop_map(Event::AnswerText),
        2 => pieces().prop_map(Event::DraftText),
        1 => pieces().prop_map(Event::ThoughtText),
        2 => (call(), any::<bool>(), pieces()).prop_map(|(call, is_first, pieces)| Event::ToolArguments {
            call,
            name: "read".into(),
            is_first,
            pieces
        }),
        2 => (call(), pieces())
            .prop_map(|(call, pieces)| Event::ToolProgress { call, name: "read".into(), pieces }),
        1 => Just(Event::NodeLeft(NodeOutcome::Done)),
    ];
    (prop::sample::select(vec![None, Some(0), Some(1)]), event)
}

proptest! {
    #[test]
    fn any_sequence_is_replayed_from_any_number(events in vec(any_event(), 0..40)) {
        let records = records(events);
        let folded = fold(records.clone());
        let last = records.last().map_or(0, |record| record.last_seq().0);
        for from in 1..=last + 1 {
            prop_assert_eq!(told(&read_from(&folded, Seq(from))), told(&read_from(&records, Seq(from))), "from {}", from);
        }
        prop_assert_eq!(&fold(folded.clone()), &folded, "folded once, it is folded");
        for pair in folded.windows(2) {
            prop_assert_eq!(pair[0].last_seq().next(), pair[1].seq);
        }
    }
}
