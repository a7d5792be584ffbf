//! Folding: adjacent records of streamed text become one. Numbers and pieces stay as they are, so that whoever follows
//! the topic from any number is told the same events; only the times of pieces become that of the first.

use std::sync::Arc;

use super::{Envelope, Event, TextChunks};

/// Most pieces in a folded record. Empty pieces have no bytes, so the bound of the text does not bound them.
const MAX_PIECES: usize = 64 * 1024;

/// A record after folding.
#[derive(Debug, Clone, PartialEq)]
pub struct FoldedRecord {
    pub record: Arc<Envelope>,
    /// How many stored records it replaces; with 1 it is unchanged.
    pub parts: usize,
}

/// Takes the records of one topic in order and returns them folded. A text that is longer than one record may be
/// becomes several.
#[derive(Debug, Default)]
pub struct RecordFolder {
    open: Option<FoldedRecord>,
}

impl RecordFolder {
    /// Returns the records before this one, if they are complete.
    pub fn push(&mut self, record: Arc<Envelope>) -> Option<FoldedRecord> {
        if let Some(open) = &mut self.open
            && open.record.is_continued_by(&record)
        {
            Arc::make_mut(&mut open.record).absorb(&record);
            open.parts += 1;
            return None;
        }
        self.open.replace(FoldedRecord { record, parts: 1 })
    }

    /// The last record. The folder can be used again, as after a gap.
    pub fn finish(&mut self) -> Option<FoldedRecord> {
        self.open.take()
    }
}

/// All records of one topic, folded.
pub fn fold(records: impl IntoIterator<Item = Arc<Envelope>>) -> Vec<Arc<Envelope>> {
    let mut folder = RecordFolder::default();
    let mut folded: Vec<_> = records.into_iter().filter_map(|record| folder.push(record)).collect();
    folded.extend(folder.finish());
    folded.into_iter().map(|folded| folded.record).collect()
}

impl Envelope {
    /// Whether `next` can become a part of this record.
    fn is_continued_by(&self, next: &Self) -> bool {
        let is_adjacent = self.topic == next.topic && self.node == next.node && self.last_seq().next() == next.seq;
        let is_same_text = match (&self.event, &next.event) {
            (Event::AnswerText(_), Event::AnswerText(_))
            | (Event::DraftText(_), Event::DraftText(_))
            | (Event::ThoughtText(_), Event::ThoughtText(_)) => true,
            // The first record of a call begins new arguments, even under the same id.
            (
                Event::ToolArguments { call, name, .. },
                Event::ToolArguments { call: next_call, name: next_name, is_first: false, .. },
            )
            | (Event::ToolProgress { call, name, .. }, Event::ToolProgress { call: next_call, name: next_name, .. }) => {
                call == next_call && name == next_name
            }
            _ => false,
        };
        let fits = |pieces: &TextChunks, more: &TextChunks| {
            // A record without pieces takes a number all the same, which the pieces of a folded one could not show.
            !pieces.is_empty()
                && !more.is_empty()
                && pieces.text().len() + more.text().len() <= TextChunks::MAX_BYTES
                && pieces.len() + more.len() <= MAX_PIECES
        };
        is_adjacent && is_same_text && self.event.pieces().zip(next.event.pieces()).is_some_and(|(a, b)| fits(a, b))
    }

    fn absorb(&mut self, next: &Self) {
        if let (Some(pieces), Some(more)) = (self.event.pieces_mut(), next.event.pieces()) {
            pieces.extend(more);
        }
    }

    /// The part of the record from number `from` on, for a reader that starts within it.
    #[must_use]
    pub fn part_from(&self, from: super::Seq) -> Self {
        let skip = usize::try_from(from.0.saturating_sub(self.seq.0)).unwrap_or(usize::MAX);
        if skip == 0 {
            return self.clone();
        }
        let mut part = Self { seq: from, ..self.clone() };
        if let Some(pieces) = part.event.pieces_mut() {
            *pieces = pieces.iter().skip(skip).collect();
        }
        match &mut part.event {
            Event::ToolArguments { is_first, .. } => *is_first = false,
            Event::ModelCallEnded(super::ModelCallOutcome::Completed { calls, .. }) => {
                calls.drain(..skip.min(calls.len()));
            }
            Event::RunStarted { .. }
            | Event::RunResumed
            | Event::RunBriefed(_)
            | Event::NodeEntered { .. }
            | Event::NodeLeft(_)
            | Event::AnswerText(_)
            | Event::DraftText(_)
            | Event::ThoughtText(_)
            | Event::ModelCallEnded(super::ModelCallOutcome::Failed(_))
            | Event::FindingRecorded(_)
            | Event::ToolStarted { .. }
            | Event::ToolRequested(_)
            | Event::ToolProgress { .. }
            | Event::ToolFinished { .. }
            | Event::InputRequested(_)
            | Event::InputProvided { .. }
            | Event::ModelUsage(_)
            | Event::RunFailed { .. }
            | Event::RunEnded { .. }
            | Event::Message(_) => {}
        }
        part
    }
}

impl Event {
    /// The pieces of streamed text, each of which takes a number.
    pub fn pieces(&self) -> Option<&TextChunks> {
        match self {
            Self::AnswerText(pieces)
            | Self::DraftText(pieces)
            | Self::ThoughtText(pieces)
            | Self::ToolArguments { pieces, .. }
            | Self::ToolProgress { pieces, .. } => Some(pieces),
            Self::RunStarted { .. }
            | Self::RunResumed
            | Self::RunBriefed(_)
            | Self::NodeEntered { .. }
            | Self::NodeLeft(_)
            | Self::ModelCallEnded(_)
            | Self::FindingRecorded(_)
            | Self::ToolStarted { .. }
            | Self::ToolRequested(_)
            | Self::ToolFinished { .. }
            | Self::InputRequested(_)
            | Self::InputProvided { .. }
            | Self::ModelUsage(_)
            | Self::RunFailed { .. }
            | Self::RunEnded { .. }
            | Self::Message(_) => None,
        }
    }

    /// The same, to be changed.
    pub fn pieces_mut(&mut self) -> Option<&mut TextChunks> {
        match self {
            Self::AnswerText(pieces)
            | Self::DraftText(pieces)
            | Self::ThoughtText(pieces)
            | Self::ToolArguments { pieces, .. }
            | Self::ToolProgress { pieces, .. } => Some(pieces),
            Self::RunStarted { .. }
            | Self::RunResumed
            | Self::RunBriefed(_)
            | Self::NodeEntered { .. }
            | Self::NodeLeft(_)
            | Self::ModelCallEnded(_)
            | Self::FindingRecorded(_)
            | Self::ToolStarted { .. }
            | Self::ToolRequested(_)
            | Self::ToolFinished { .. }
            | Self::InputRequested(_)
            | Self::InputProvided { .. }
            | Self::ModelUsage(_)
            | Self::RunFailed { .. }
            | Self::RunEnded { .. }
            | Self::Message(_) => None,
        }
    }
}

impl TextChunks {
    fn extend(&mut self, more: &Self) {
        let offset = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        self.text.push_str(&more.text);
        self.ends.extend(more.ends.iter().map(|end| offset.saturating_add(*end)));
    }
}

#[cfg(test)]
mod tests;
