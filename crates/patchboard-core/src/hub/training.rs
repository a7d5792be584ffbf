//! What is learned from the outcome of messages, and when it is stored.
//!
//! Routing reads one matcher while a copy of it is trained, so routing never waits for training.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Hub, lock};
use crate::record;
use crate::store::WriteBatch;
use patchboard_matcher::{LabelPolarity, LabelStrength, Matcher, NO_APP, TrainingLabel};

/// How much learning from acknowledgements a crash may lose. Strong labels, from people and rejections, are saved at
/// once.
const SAVE_INTERVAL: Duration = Duration::from_secs(2);
/// Below this many examples training takes under a millisecond and runs inline.
const MAX_INLINE_EXAMPLES: usize = 100;
/// Queued tasks past which weak labels are dropped; strong labels are always taken.
const MAX_WAITING: usize = 1000;

/// Training tasks that wait.
#[derive(Debug, Default)]
pub(super) struct Trainer {
    queue: VecDeque<TrainingTask>,
    /// A trainer is running and will process the queue.
    is_running: bool,
}

#[derive(Debug)]
enum TrainingTask {
    Learn { text: Arc<str>, app: Arc<str>, verdict: LabelPolarity, strength: LabelStrength },
    Forget { app: Arc<str>, done: oneshot::Sender<()> },
}

impl Hub {
    pub(crate) fn learn(&self, text: Arc<str>, app: &Arc<str>, verdict: LabelPolarity, strength: LabelStrength) {
        if strength == LabelStrength::Weak && lock(&self.0.trainer).queue.len() >= MAX_WAITING {
            return;
        }
        self.enqueue_training(TrainingTask::Learn { text, app: app.clone(), verdict, strength });
    }

    /// The user cancelled a message that the hub itself had to find an app for: its text is learned as being for no
    /// app. `sent_to` are the apps that the hub had chosen and sent it to; empty if the message was held.
    pub(crate) fn learn_cancelled(&self, text: &Arc<str>, sent_to: &[Arc<str>]) {
        for app in sent_to {
            self.learn(text.clone(), app, LabelPolarity::Negative, LabelStrength::Strong);
        }
        self.learn(text.clone(), &NO_APP.into(), LabelPolarity::Positive, LabelStrength::Strong);
    }

    /// Returns once the app's training data is removed from memory; the store follows at the next save.
    pub(super) async fn forget_training(&self, app: Arc<str>) {
        let (done, forgotten) = oneshot::channel();
        self.enqueue_training(TrainingTask::Forget { app, done });
        // An error means that the process is ending.
        forgotten.await.unwrap_or(());
    }

    fn enqueue_training(&self, task: TrainingTask) {
        {
            let mut trainer = lock(&self.0.trainer);
            trainer.queue.push_back(task);
            if trainer.is_running {
                return;
            }
            trainer.is_running = true;
        }
        if self.matcher().example_count() < MAX_INLINE_EXAMPLES {
            self.train();
        } else {
            let hub = self.clone();
            self.0.foreground_tasks.spawn_blocking(move || hub.train());
        }
    }

    /// Processes the queue; only one trainer runs at a time.
    fn train(&self) {
        loop {
            let tasks = {
                let mut trainer = lock(&self.0.trainer);
                trainer.is_running = !trainer.queue.is_empty();
                std::mem::take(&mut trainer.queue)
            };
            if tasks.is_empty() {
                return;
            }
            let mut next = (*self.matcher()).clone();
            let mut forgotten = Vec::new();
            let mut labels: Vec<(Arc<str>, Arc<str>, LabelPolarity, LabelStrength)> = Vec::new();
            let mut changed = Vec::new();
            for task in tasks {
                match task {
                    TrainingTask::Learn { text, app, verdict, strength } => {
                        changed.push(app.clone());
                        labels.push((text, app, verdict, strength));
                    }
                    TrainingTask::Forget { app, done } => {
                        labels.retain(|(_, label_app, ..)| !label_app.eq_ignore_ascii_case(&app));
                        next.forget(&app);
                        changed.push(app);
                        forgotten.push(done);
                    }
                }
            }
            let is_urgent = labels.iter().any(|(_, _, _, strength)| *strength == LabelStrength::Strong);
            let labels = labels.iter().map(|(text, app, verdict, strength)| {
                (&**text, TrainingLabel { app, polarity: *verdict, strength: *strength })
            });
            // A panic must not end training for good.
            match std::panic::catch_unwind(AssertUnwindSafe(|| next.learn(labels))) {
                Ok(()) => self.publish_matcher(next),
                Err(_panic) => tracing::error!("internal error in training; these messages are not learned from"),
            }
            lock(&self.0.unsaved_apps).extend(changed);
            if is_urgent {
                self.0.save_requested.notify_one();
            }
            for done in forgotten {
                // The caller may have stopped waiting.
                done.send(()).unwrap_or(());
            }
        }
    }

    pub(super) async fn run_training_saver(&self, stop: CancellationToken) {
        let mut pause = tokio::time::interval(SAVE_INTERVAL);
        pause.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = pause.tick() => self.save_training().await,
                () = self.0.save_requested.notified() => self.save_training().await,
                () = stop.cancelled() => return,
            }
        }
    }

    pub(super) async fn save_training(&self) {
        let unsaved = std::mem::take(&mut *lock(&self.0.unsaved_apps));
        if unsaved.is_empty() {
            return;
        }
        let matcher = self.matcher();
        let stored = |app| matcher.export_training(app).map(|data| record::encode_training_data(&data));
        let writes = unsaved.iter().map(|app| self.training_write(app, stored(app))).collect();
        if let Err(error) = self.0.store.commit(WriteBatch::delta(writes)).await {
            tracing::warn!(%error, "training data could not be stored; trying again");
            lock(&self.0.unsaved_apps).extend(unsaved);
        }
    }

    pub(super) fn matcher(&self) -> Arc<Matcher> {
        self.0.matcher.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes this the matcher that routing uses.
    pub(super) fn publish_matcher(&self, matcher: Matcher) {
        *self.0.matcher.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(matcher);
    }
}
