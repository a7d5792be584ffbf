//! From an answer's bytes to what the model said. Pure: `http` brings the bytes, a dialect's parser knows the meaning.

use std::collections::VecDeque;

use patchboard_core::model::{ModelError, ModelEvent};

use crate::sse::{Decoder, Event, TooLarge};

/// The meaning of one dialect's events.
pub(crate) trait Parser: Send + Unpin + 'static {
    fn event(&mut self, event: &Event<'_>, out: &mut VecDeque<ModelEvent>) -> Result<Progress, ModelError>;

    /// The stream is over without `Progress::Done`: is what came a whole answer?
    fn end(&mut self, out: &mut VecDeque<ModelEvent>) -> Result<(), ModelError>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    More,
    /// Nothing is missing, but figures may follow.
    Complete,
    /// Nothing follows.
    Done,
}

#[derive(Debug)]
pub(crate) struct Reader<P> {
    decoder: Decoder,
    parser: P,
    progress: Progress,
    out: VecDeque<ModelEvent>,
    failed: Option<ModelError>,
}

impl<P: Parser> Reader<P> {
    pub(crate) fn new(parser: P, answering: ModelEvent) -> Self {
        Self {
            decoder: Decoder::default(),
            parser,
            progress: Progress::More,
            out: VecDeque::from([answering]),
            failed: None,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.decoder.push(bytes);
    }

    /// The next thing the model said. `None` with less than `Progress::Done`: more bytes are needed.
    pub(crate) fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if let Some(event) = self.out.pop_front() {
                return Some(Ok(event));
            }
            if let Some(error) = self.failed.take() {
                return Some(Err(error));
            }
            if self.progress == Progress::Done {
                return None;
            }
            let parsed = match self.decoder.next_event() {
                Ok(None) => return None,
                Ok(Some(event)) => self.parser.event(&event, &mut self.out),
                Err(error) => Err(too_large(error)),
            };
            match parsed {
                Ok(progress) => self.progress = progress,
                Err(error) => self.fail(error),
            }
        }
    }

    /// No more bytes come, for whatever reason.
    pub(crate) fn end(&mut self) {
        let parsed = match self.decoder.finish() {
            Ok(Some(event)) => self.parser.event(&event, &mut self.out),
            Ok(None) => Ok(self.progress),
            Err(error) => Err(too_large(error)),
        };
        let ended = match parsed {
            Ok(Progress::Done) => Ok(()),
            Ok(Progress::More | Progress::Complete) => self.parser.end(&mut self.out),
            // A last event cut in the middle is no news: the end tells what is missing.
            Err(error) if error == unreadable() => self.parser.end(&mut self.out),
            Err(error) => Err(error),
        };
        self.progress = Progress::Done;
        self.failed = ended.err();
    }

    pub(crate) fn fail(&mut self, error: ModelError) {
        self.progress = Progress::Done;
        self.failed = Some(error);
    }

    pub(crate) fn progress(&self) -> Progress {
        self.progress
    }
}

/// An event that is not what the dialect says it should be.
pub(crate) fn unreadable() -> ModelError {
    ModelError::Unavailable("provider sent an event that cannot be read".to_owned())
}

fn too_large(error: TooLarge) -> ModelError {
    ModelError::Unavailable(format!("provider stream cannot be read: {error}"))
}
