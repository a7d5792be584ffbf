//! Converts response bytes to model events. Pure: `http` supplies the bytes, a dialect's parser interprets the events.

use std::collections::VecDeque;

use patchboard_core::model::{ModelError, ModelEvent};

use crate::sse::{EventDecoder, EventTooLarge, ServerSentEvent};

/// Interprets the events of one dialect.
pub(crate) trait EventParser: Send + Unpin + 'static {
    fn event(
        &mut self,
        event: &ServerSentEvent<'_>,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<ParseProgress, ModelError>;

    /// The stream ended without `ParseProgress::Done`; returns an error unless the response is complete.
    fn end(&mut self, out: &mut VecDeque<ModelEvent>) -> Result<(), ModelError>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParseProgress {
    More,
    /// The response is complete, but usage figures may follow.
    Complete,
    /// Nothing follows.
    Done,
}

#[derive(Debug)]
pub(crate) struct ModelEventReader<P> {
    decoder: EventDecoder,
    parser: P,
    progress: ParseProgress,
    pending: VecDeque<ModelEvent>,
    error: Option<ModelError>,
}

impl<P: EventParser> ModelEventReader<P> {
    pub(crate) fn new(parser: P, model_selected: ModelEvent) -> Self {
        Self {
            decoder: EventDecoder::default(),
            parser,
            progress: ParseProgress::More,
            pending: VecDeque::from([model_selected]),
            error: None,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.decoder.push(bytes);
    }

    /// The next model event. `None` before `ParseProgress::Done` means that more bytes are needed.
    pub(crate) fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some(Ok(event));
            }
            if let Some(error) = self.error.take() {
                return Some(Err(error));
            }
            if self.progress == ParseProgress::Done {
                return None;
            }
            let parsed = match self.decoder.next_event() {
                Ok(None) => return None,
                Ok(Some(event)) => self.parser.event(&event, &mut self.pending),
                Err(error) => Err(too_large(error)),
            };
            match parsed {
                Ok(progress) => self.progress = progress,
                Err(error) => self.fail(error),
            }
        }
    }

    /// Must be called when no more bytes will arrive, for whatever reason.
    pub(crate) fn end(&mut self) {
        let parsed = match self.decoder.finish() {
            Ok(Some(event)) => self.parser.event(&event, &mut self.pending),
            Ok(None) => Ok(self.progress),
            Err(error) => Err(too_large(error)),
        };
        let result = match parsed {
            Ok(ParseProgress::Done) => Ok(()),
            Ok(ParseProgress::More | ParseProgress::Complete) => self.parser.end(&mut self.pending),
            // A truncated last event is not an error of its own: `end` reports what is missing.
            Err(error) if error == unreadable() => self.parser.end(&mut self.pending),
            Err(error) => Err(error),
        };
        self.progress = ParseProgress::Done;
        self.error = result.err();
    }

    pub(crate) fn fail(&mut self, error: ModelError) {
        self.progress = ParseProgress::Done;
        self.error = Some(error);
    }

    pub(crate) fn progress(&self) -> ParseProgress {
        self.progress
    }
}

/// An event that violates the dialect.
pub(crate) fn unreadable() -> ModelError {
    ModelError::Unavailable("provider sent an event that cannot be read".to_owned())
}

fn too_large(error: EventTooLarge) -> ModelError {
    ModelError::Unavailable(format!("provider stream cannot be read: {error}"))
}
