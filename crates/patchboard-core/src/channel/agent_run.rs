//! Runs the agent for a delivery, or reads the result of a run that an earlier process started.

use std::sync::Arc;

use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use super::delivery::origin;
use super::error_text;
use super::service::STORE_RETRY_PAUSES;
use super::task::{AgentResult, DeliveryTask, TaskStep};
use crate::command::{FolderChoice, RunKind, StartRun};
use crate::error::{BoardError, ErrorKind};
use crate::event::{Event, RunOutcome};
use crate::id::{RunId, Seq, SessionKey};
use crate::store::{RunRow, RunState};

impl DeliveryTask {
    /// The agent's answer: from a new run, or from the run of an earlier process.
    pub(super) async fn agent_result(&mut self) -> TaskStep<AgentResult> {
        let earlier = match self.is_recovered {
            true => self.find_earlier_run().await,
            false => TaskStep::Done(Ok(None)),
        };
        let (run, transcript) = match earlier {
            TaskStep::Suspend => return TaskStep::Suspend,
            TaskStep::Done(Err(error)) => return TaskStep::Done(Err(error)),
            TaskStep::Done(Ok(Some((row, outcome)))) => {
                let transcript = self.follow_run(row.run).await;
                (
                    row.run,
                    // Its events may be pruned; its outcome is known all the same.
                    transcript.map(|transcript| RunTranscript {
                        outcome: outcome.unwrap_or(transcript.outcome),
                        session: Some(row.session),
                        ..transcript
                    }),
                )
            }
            TaskStep::Done(Ok(None)) => match self.start_run().await {
                Ok(run) => (run, self.follow_run(run).await),
                // The run did not start; the next process starts it.
                Err(_) if self.runs.is_draining() => return TaskStep::Suspend,
                Err(error) => return TaskStep::Done(Err(error_text::start_failure(error))),
            },
        };
        let transcript = match transcript {
            Ok(transcript) => transcript,
            Err(_) if self.runs.is_draining() => return TaskStep::Suspend,
            Err(error) => return TaskStep::Done(Err(error)),
        };
        match transcript.outcome {
            RunOutcome::Completed => TaskStep::Done(Ok(self.final_text(run, transcript).await)),
            RunOutcome::Failed => {
                TaskStep::Done(Err(error_text::run_failure(transcript.failure.as_deref().unwrap_or_default())))
            }
            // Interrupted by the shutdown of this process: the next one asks again.
            RunOutcome::Cancelled | RunOutcome::Interrupted if self.closing.is_cancelled() => TaskStep::Suspend,
            RunOutcome::Cancelled => TaskStep::Done(Err(BoardError::cancelled())),
            RunOutcome::Interrupted => TaskStep::Done(Err(BoardError::new(ErrorKind::Internal, "the run was dropped"))),
        }
    }

    /// The run of an earlier process, if it completed or failed by itself, or goes on now.
    async fn find_earlier_run(&mut self) -> TaskStep<Result<Option<(RunRow, Option<RunOutcome>)>, BoardError>> {
        let name = self.delivery.run_name();
        let found = match self
            .service
            .with_store_retry(|| self.service.store.latest_run_by_client_id(&self.caller.principal.text(), &name))
            .await
        {
            Ok(found) => found,
            Err(error) => {
                self.note_unrecorded(&error);
                return TaskStep::Suspend;
            }
        };
        match found {
            None => return TaskStep::Done(Ok(None)),
            Some(row) => match row.state {
                RunState::Ended(outcome @ (RunOutcome::Completed | RunOutcome::Failed)) => {
                    return TaskStep::Done(Ok(Some((row, Some(outcome)))));
                }
                // Unfinished runs were taken over before unfinished deliveries: this one goes on.
                RunState::Running => {
                    if self.delivery.payload.interrupted_runs == 0 {
                        self.delivery.payload.interrupted_runs = 1;
                        // Recorded before the run is waited for, like the next one that is started.
                        if let Err(error) = self.service.save_with_retry(&self.delivery).await {
                            self.note_unrecorded(&error);
                            return TaskStep::Suspend;
                        }
                    }
                    return TaskStep::Done(Ok(Some((row, None))));
                }
                RunState::Ended(RunOutcome::Cancelled | RunOutcome::Interrupted) => {}
            },
        }
        if self.delivery.payload.interrupted_runs > 0 {
            return TaskStep::Done(Err(error_text::interrupted()));
        }
        self.delivery.payload.interrupted_runs += 1;
        self.delivery.payload.earlier_runs = self.delivery.payload.earlier_runs.saturating_add(1);
        // Recorded before the run starts, or a message that crashes the process would do so at every start.
        match self.service.save_with_retry(&self.delivery).await {
            Ok(()) => TaskStep::Done(Ok(None)),
            Err(error) => {
                self.note_unrecorded(&error);
                TaskStep::Suspend
            }
        }
    }

    async fn start_run(&self) -> Result<RunId, BoardError> {
        if self.service.is_abandoned(self.delivery.id) {
            return Err(BoardError::cancelled());
        }
        let message = &self.delivery.payload.message;
        let start = StartRun {
            folder: FolderChoice::Configured,
            origin: origin(&self.delivery.channel.name, message),
            content: message.content.as_str().into(),
            client_id: self.delivery.run_name(),
            model: None,
            client_tools: Vec::new(),
            kind: RunKind::Chat { agent: None },
        };
        let stop = CancellationToken::new();
        let starting = self.runs.start(&self.caller, start, stop.clone(), self.trace.as_deref());
        tokio::select! {
            biased;
            started = starting => started,
            // The run is still queued.
            () = self.service.draining().cancelled() => {
                stop.cancel();
                Err(BoardError::shutting_down())
            }
        }
    }

    /// Follows a run to its end. A followed run keeps going.
    async fn follow_run(&self, run: RunId) -> Result<RunTranscript, BoardError> {
        let mut transcript = RunTranscript::default();
        let mut next = Seq::FIRST;
        let mut pauses = STORE_RETRY_PAUSES.retries();
        loop {
            let error = match self.runs.follow(&self.caller, run, next).await {
                Err(error) => error,
                Ok(mut events) => loop {
                    match events.next().await {
                        Some(Ok(record)) => {
                            next = record.last_seq().next();
                            if transcript.apply(&record.event) {
                                return Ok(transcript);
                            }
                        }
                        Some(Err(error)) => break error,
                        None => return Ok(transcript),
                    }
                },
            };
            let Some(pause) = pauses.next() else { return Err(error) };
            tokio::time::sleep(pause).await;
        }
    }

    async fn final_text(&self, run: RunId, transcript: RunTranscript) -> String {
        let Some(session) = transcript.session else { return transcript.text };
        // The conversation may have been cleared or continued by now.
        self.runs.final_answer(session, run).await.unwrap_or(transcript.text)
    }
}

/// What was received of a run's events.
#[derive(Debug)]
struct RunTranscript {
    outcome: RunOutcome,
    session: Option<SessionKey>,
    failure: Option<Arc<str>>,
    /// The text since the last tool call.
    text: String,
}

impl Default for RunTranscript {
    fn default() -> Self {
        Self { outcome: RunOutcome::Interrupted, session: None, failure: None, text: String::new() }
    }
}

impl RunTranscript {
    /// Applies an event; `true` if it ends the run.
    fn apply(&mut self, event: &Event) -> bool {
        match event {
            Event::RunStarted { session, .. } => self.session = Some(session.clone()),
            Event::AnswerText(pieces) => self.text.push_str(pieces.text()),
            Event::ToolRequested(_) | Event::ToolStarted { .. } => self.text.clear(),
            Event::RunFailed { message } => self.failure = Some(message.clone()),
            Event::RunEnded { outcome } => {
                self.outcome = *outcome;
                return true;
            }
            // The text so far belongs to an answer that is complete: a turn resumes between two.
            Event::RunResumed
            | Event::RunBriefed(_)
            | Event::NodeEntered { .. }
            | Event::NodeLeft(_)
            | Event::DraftText(_)
            | Event::ThoughtText(_)
            | Event::ToolArguments { .. }
            | Event::ModelCallEnded(_)
            | Event::FindingRecorded(_)
            | Event::ToolProgress { .. }
            | Event::ToolFinished { .. }
            | Event::InputRequested(_)
            | Event::InputProvided { .. }
            | Event::ModelUsage(_)
            | Event::Message(_) => {}
        }
        false
    }
}
