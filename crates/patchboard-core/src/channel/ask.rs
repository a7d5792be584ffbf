//! Asks the agent for a delivery, or finds out what it said when an earlier process asked.

use std::sync::Arc;

use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use super::deliver::{Courier, Said, Step};
use super::delivery::origin;
use super::desk::TRY_AGAIN;
use super::words;
use crate::command::{Command, FolderChoice, StartRun};
use crate::error::{BoardError, ErrorKind};
use crate::event::{Event, RunOutcome, Topic};
use crate::id::{RunId, Seq, SessionKey};
use crate::log::Pace;
use crate::port::{RunRow, RunState};
use crate::reply::Reply;
use crate::trace;

impl Courier {
    /// Asks the agent, or listens to what it said when an earlier process asked.
    pub(super) async fn hear(&mut self) -> Step<Said> {
        let asked = match self.is_left_over {
            true => self.look_back().await,
            false => Step::Done(Ok(None)),
        };
        let (run, heard) = match asked {
            Step::Leave => return Step::Leave,
            Step::Done(Err(error)) => return Step::Done(Err(error)),
            // Its events may be gone; how it ended is known all the same.
            Step::Done(Ok(Some((row, outcome)))) => {
                let heard = self.listen(row.run).await;
                (row.run, heard.map(|heard| Heard { outcome, session: Some(row.session), ..heard }))
            }
            Step::Done(Ok(None)) => match self.ask().await {
                Ok(run) => (run, self.listen(run).await),
                // It did not begin; the next process asks.
                Err(_) if self.board.is_draining() => return Step::Leave,
                Err(error) => return Step::Done(Err(words::refusal(error))),
            },
        };
        let heard = match heard {
            Ok(heard) => heard,
            Err(_) if self.board.is_draining() => return Step::Leave,
            Err(error) => return Step::Done(Err(error)),
        };
        match heard.outcome {
            RunOutcome::Completed => Step::Done(Ok(self.last_words(run, heard).await)),
            RunOutcome::Failed => Step::Done(Err(words::failure(heard.failure.as_deref().unwrap_or_default()))),
            // Cut off by the end of this process: it is asked again.
            RunOutcome::Cancelled | RunOutcome::Interrupted if self.closing.is_cancelled() => Step::Leave,
            RunOutcome::Cancelled => Step::Done(Err(BoardError::cancelled())),
            RunOutcome::Interrupted => Step::Done(Err(BoardError::new(ErrorKind::Internal, "the run was dropped"))),
        }
    }

    /// The run of an earlier process, if it came to an end of its own.
    async fn look_back(&mut self) -> Step<Result<Option<(RunRow, RunOutcome)>, BoardError>> {
        let name = self.delivery.run_name();
        let found = match self.desk.surely(|| self.desk.store.run_by_client_id(&self.caller.principal, &name)).await {
            Ok(found) => found,
            Err(error) => {
                self.unrecorded(&error);
                return Step::Leave;
            }
        };
        match found {
            None => return Step::Done(Ok(None)),
            Some(row) => match row.state {
                RunState::Ended(outcome @ (RunOutcome::Completed | RunOutcome::Failed)) => {
                    return Step::Done(Ok(Some((row, outcome))));
                }
                RunState::Ended(RunOutcome::Cancelled | RunOutcome::Interrupted) | RunState::Running => {}
            },
        }
        if self.delivery.letter.cut_off > 0 {
            return Step::Done(Err(words::cut_off()));
        }
        self.delivery.letter.cut_off += 1;
        self.delivery.letter.asked_before = self.delivery.letter.asked_before.saturating_add(1);
        // Counted before it is asked, or a message that kills its process would do so at every start.
        match self.desk.change_surely(&self.delivery).await {
            Ok(()) => Step::Done(Ok(None)),
            Err(error) => {
                self.unrecorded(&error);
                Step::Leave
            }
        }
    }

    async fn ask(&self) -> Result<RunId, BoardError> {
        let message = &self.delivery.letter.message;
        let start = StartRun {
            folder: FolderChoice::Configured,
            origin: origin(&self.delivery.channel.name, message),
            content: message.content.as_str().into(),
            client_id: self.delivery.run_name(),
            model: None,
            agent: None,
            plan: None,
        };
        let stop = CancellationToken::new();
        let asked =
            trace::ask(&self.board, &self.caller, Command::StartRun(start), stop.clone(), self.trace.as_deref());
        tokio::select! {
            biased;
            started = asked => {
                let Reply::RunStarted(run) = started? else {
                    return Err(BoardError::new(ErrorKind::Internal, "the run failed to begin"));
                };
                Ok(run)
            }
            // It waits behind others.
            () = self.desk.leaving().cancelled() => {
                stop.cancel();
                Err(BoardError::shutting_down())
            }
        }
    }

    /// Listens to a run to its end. As long as somebody listens it goes on.
    async fn listen(&self, run: RunId) -> Result<Heard, BoardError> {
        let mut heard = Heard::default();
        let mut next = Seq::FIRST;
        let mut pauses = TRY_AGAIN.into_iter();
        loop {
            let failed = match self.board.follow(&self.caller, Topic::Run(run), next, Pace::Free).await {
                Err(error) => error,
                Ok(mut events) => loop {
                    match events.next().await {
                        Some(Ok(record)) => {
                            next = record.last_seq().next();
                            if heard.take(&record.event) {
                                return Ok(heard);
                            }
                        }
                        Some(Err(error)) => break error,
                        None => return Ok(heard),
                    }
                },
            };
            let Some(pause) = pauses.next() else { return Err(failed) };
            tokio::time::sleep(pause).await;
        }
    }

    async fn last_words(&self, run: RunId, heard: Heard) -> String {
        let Some(session) = heard.session else { return heard.text };
        // The conversation may be cleared, or have gone on, by now.
        self.board.last_words(session, run).await.unwrap_or(heard.text)
    }
}

/// What a run has told.
#[derive(Debug)]
struct Heard {
    outcome: RunOutcome,
    session: Option<SessionKey>,
    failure: Option<Arc<str>>,
    /// Since the last tool call.
    text: String,
}

impl Default for Heard {
    fn default() -> Self {
        Self { outcome: RunOutcome::Interrupted, session: None, failure: None, text: String::new() }
    }
}

impl Heard {
    /// Is that the end?
    fn take(&mut self, event: &Event) -> bool {
        match event {
            Event::RunStarted { session, .. } => self.session = Some(session.clone()),
            Event::Text(pieces) => self.text.push_str(pieces.text()),
            Event::ToolRequested(_) | Event::ToolStarted { .. } => self.text.clear(),
            Event::RunFailed { message } => self.failure = Some(message.clone()),
            Event::RunEnded { outcome } => {
                self.outcome = *outcome;
                return true;
            }
            Event::Briefed(_)
            | Event::NodeEntered { .. }
            | Event::NodeLeft(_)
            | Event::Draft(_)
            | Event::Thought(_)
            | Event::Arguments { .. }
            | Event::Answered(_)
            | Event::Found(_)
            | Event::ToolSaid { .. }
            | Event::ToolFinished { .. }
            | Event::ApprovalWanted(_)
            | Event::ApprovalSettled { .. }
            | Event::Usage(_)
            | Event::Message(_) => {}
        }
        false
    }
}
