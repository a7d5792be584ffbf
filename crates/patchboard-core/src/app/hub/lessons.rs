//! What is learned from what happens to messages, and when it is stored.
//!
//! Routing reads one matcher while the next one is taught: nobody waits for learning.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Hub, lock};
use crate::app::matcher::{Label, Matcher, NO_APP, Strength, Verdict};
use crate::port::{Batch, Durability};

/// How much learning from acknowledgements a crash may cost. What people say is stored at once.
const SAVE_EVERY: Duration = Duration::from_secs(2);
/// With so few examples learning takes less than a millisecond and is done at once.
const FEW_EXAMPLES: usize = 100;
/// Lessons that wait while earlier ones are learned. More acknowledgements teach nothing; what people say always does.
const MAX_WAITING: usize = 1000;

/// What is still to be learned.
#[derive(Debug, Default)]
pub(super) struct School {
    waiting: VecDeque<Task>,
    /// Somebody teaches and will see to whatever waits.
    is_open: bool,
}

#[derive(Debug)]
enum Task {
    Learn { text: Arc<str>, app: Arc<str>, verdict: Verdict, strength: Strength },
    Forget { app: Arc<str>, done: oneshot::Sender<()> },
}

impl Hub {
    pub(crate) fn learn(&self, text: Arc<str>, app: &Arc<str>, verdict: Verdict, strength: Strength) {
        if strength == Strength::Weak && lock(&self.0.school).waiting.len() >= MAX_WAITING {
            return;
        }
        self.enrol(Task::Learn { text, app: app.clone(), verdict, strength });
    }

    /// The user gave a message up that the hub itself had to find an app for: its words are for none of them. `had` are
    /// the apps that the hub chose and that were given it; none when it was held.
    pub(crate) fn learn_given_up(&self, text: &Arc<str>, had: &[Arc<str>]) {
        for app in had {
            self.learn(text.clone(), app, Verdict::Wrong, Strength::Strong);
        }
        self.learn(text.clone(), &NO_APP.into(), Verdict::Right, Strength::Strong);
    }

    /// Returns when nothing that was learned about the app is left, in memory and, but for the next save, in the store.
    pub(super) async fn unlearn(&self, app: Arc<str>) {
        let (done, forgotten) = oneshot::channel();
        self.enrol(Task::Forget { app, done });
        // An error is the end of the process.
        forgotten.await.unwrap_or(());
    }

    fn enrol(&self, task: Task) {
        {
            let mut school = lock(&self.0.school);
            school.waiting.push_back(task);
            if school.is_open {
                return;
            }
            school.is_open = true;
        }
        if self.matcher().examples() < FEW_EXAMPLES {
            self.teach();
        } else {
            let hub = self.clone();
            self.0.tracker.spawn_blocking(move || hub.teach());
        }
    }

    /// Learns whatever waits; one at a time.
    fn teach(&self) {
        loop {
            let tasks = {
                let mut school = lock(&self.0.school);
                school.is_open = !school.waiting.is_empty();
                std::mem::take(&mut school.waiting)
            };
            if tasks.is_empty() {
                return;
            }
            let mut next = (*self.matcher()).clone();
            let mut forgotten = Vec::new();
            let mut labels: Vec<(Arc<str>, Arc<str>, Verdict, Strength)> = Vec::new();
            let mut changed = Vec::new();
            for task in tasks {
                match task {
                    Task::Learn { text, app, verdict, strength } => {
                        changed.push(app.clone());
                        labels.push((text, app, verdict, strength));
                    }
                    Task::Forget { app, done } => {
                        labels.retain(|(_, taught, ..)| !taught.eq_ignore_ascii_case(&app));
                        next.forget(&app);
                        changed.push(app);
                        forgotten.push(done);
                    }
                }
            }
            let is_urgent = labels.iter().any(|(_, _, _, strength)| *strength == Strength::Strong);
            let labels = labels
                .iter()
                .map(|(text, app, verdict, strength)| (&**text, Label { app, verdict: *verdict, strength: *strength }));
            // A lesson that cannot be learned must not be the last one.
            match std::panic::catch_unwind(AssertUnwindSafe(|| next.learn(labels))) {
                Ok(()) => self.publish(next),
                Err(_panic) => tracing::error!("learning from messages failed inside; these are not learned from"),
            }
            lock(&self.0.unsaved).extend(changed);
            if is_urgent {
                self.0.taught.notify_one();
            }
            for done in forgotten {
                // Whoever asked may be gone.
                done.send(()).unwrap_or(());
            }
        }
    }

    pub(super) async fn keep_lessons(&self, stop: CancellationToken) {
        let mut pause = tokio::time::interval(SAVE_EVERY);
        pause.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = pause.tick() => self.save_lessons().await,
                () = self.0.taught.notified() => self.save_lessons().await,
                () = stop.cancelled() => return,
            }
        }
    }

    pub(super) async fn save_lessons(&self) {
        let unsaved = std::mem::take(&mut *lock(&self.0.unsaved));
        if unsaved.is_empty() {
            return;
        }
        let matcher = self.matcher();
        let writes = unsaved.iter().map(|app| self.keep_learned(app, matcher.learned(app))).collect();
        if let Err(error) = self.0.store.commit(Batch { durability: Durability::Delta, writes }).await {
            tracing::warn!(%error, "what was learned about apps could not be stored; trying again");
            lock(&self.0.unsaved).extend(unsaved);
        }
    }

    pub(super) fn matcher(&self) -> Arc<Matcher> {
        self.0.matcher.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Routing goes by this one from now on.
    pub(super) fn publish(&self, matcher: Matcher) {
        *self.0.matcher.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(matcher);
    }
}
