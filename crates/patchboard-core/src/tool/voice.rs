//! What a tool says while it works, on its way into the log.

use tokio::sync::mpsc;

use super::desk::{CallContext, Record};
use super::policy::is_agent;
use super::{ToolScope, ToolSpec, ToolVoice};
use crate::error::BoardError;
use crate::event::{Entry, Event, Pieces};
use crate::model::ToolCall;
use crate::port::Durability;

/// Pieces a tool may be ahead of the log; then it waits.
const AHEAD: usize = 64;
/// What one call may say; the rest is not told. Its output is not touched by this.
const MAX_BYTES: usize = 1024 * 1024;

/// The listening end of one call.
pub(super) struct Listening<'a> {
    context: &'a CallContext,
    call: &'a ToolCall,
    heard: Option<mpsc::Receiver<String>>,
    asked: Option<mpsc::Receiver<Event>>,
    told: usize,
}

/// One thing that came from a tool at work.
pub(super) enum Heard {
    Said(String),
    /// What a run it waits for asks people, or how that was settled.
    Asked(Event),
}

impl<'a> Listening<'a> {
    /// Listens where the run tells of such things; elsewhere a tool speaks to nobody.
    pub(super) fn to(context: &'a CallContext, call: &'a ToolCall, spec: &ToolSpec) -> (Self, ToolScope) {
        let mut scope = context.scope.clone();
        let heard = match context.record {
            Record::Run { told: true, .. } => {
                let (voice, heard) = mpsc::channel(AHEAD);
                scope.voice = ToolVoice::new(voice);
                Some(heard)
            }
            Record::Run { told: false, .. } | Record::Audit(_) | Record::Behind(_) => None,
        };
        let asked = match context.record {
            Record::Run { .. } if is_agent(spec) => {
                let (asks, asked) = mpsc::channel(AHEAD);
                scope.voice = scope.voice.asking(asks);
                Some(asked)
            }
            Record::Run { .. } | Record::Audit(_) | Record::Behind(_) => None,
        };
        (Self { context, call, heard, asked, told: 0 }, scope)
    }

    /// The next thing heard; never, when nobody will say anything any more.
    pub(super) async fn next(&mut self) -> Heard {
        tokio::select! {
            biased;
            event = hear(&mut self.asked) => Heard::Asked(event),
            said = hear(&mut self.heard) => Heard::Said(said),
        }
    }

    pub(super) async fn tell(&mut self, heard: Heard) -> Result<(), BoardError> {
        let Record::Run { writer, .. } = &self.context.record else { return Ok(()) };
        let first = match heard {
            Heard::Said(said) => said,
            Heard::Asked(event) => {
                let entry = Entry { node: self.context.node, event };
                return writer.append(vec![entry], vec![], Durability::Boundary).await;
            }
        };
        let mut pieces = Pieces::default();
        let mut said = Some(first);
        while let Some(piece) = said {
            let piece = &piece[..piece.floor_char_boundary(MAX_BYTES - self.told)];
            if !piece.is_empty() {
                self.told += piece.len();
                pieces.push(piece);
            }
            said = match &mut self.heard {
                Some(heard) if !pieces.is_full() => heard.try_recv().ok(),
                Some(_) | None => None,
            };
        }
        if pieces.is_empty() {
            return Ok(());
        }
        let event = Event::ToolSaid { call: self.call.id.clone(), name: self.call.name.clone(), pieces };
        writer.append(vec![Entry { node: self.context.node, event }], vec![], Durability::Delta).await
    }

    /// What was said and not yet told when the call ended. Whatever is said from now on, nobody hears.
    pub(super) async fn rest(&mut self) -> Result<(), BoardError> {
        if let Some(heard) = &mut self.heard {
            heard.close();
        }
        if let Some(asked) = &mut self.asked {
            asked.close();
        }
        while let Some(said) = self.heard.as_mut().and_then(|heard| heard.try_recv().ok()) {
            self.tell(Heard::Said(said)).await?;
        }
        while let Some(event) = self.asked.as_mut().and_then(|asked| asked.try_recv().ok()) {
            self.tell(Heard::Asked(event)).await?;
        }
        Ok(())
    }
}

async fn hear<T>(from: &mut Option<mpsc::Receiver<T>>) -> T {
    if let Some(listening) = from
        && let Some(heard) = listening.recv().await
    {
        return heard;
    }
    *from = None;
    std::future::pending().await
}
