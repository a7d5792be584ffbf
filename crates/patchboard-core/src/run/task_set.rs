//! The concurrent tasks of one run.

use std::collections::VecDeque;

use futures_core::future::BoxFuture;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

pub(super) struct TaskSet<'a, T> {
    running: FuturesUnordered<BoxFuture<'a, T>>,
    /// Tasks that finished while `run_alongside` waited for something else.
    finished: VecDeque<T>,
}

impl<'a, T> TaskSet<'a, T> {
    pub(super) fn new() -> Self {
        Self { running: FuturesUnordered::new(), finished: VecDeque::new() }
    }

    pub(super) fn push(&mut self, task: BoxFuture<'a, T>) {
        self.running.push(task);
    }

    /// The result of the next finished task; `None` if no task is left.
    pub(super) async fn next(&mut self) -> Option<T> {
        match self.finished.pop_front() {
            Some(finished) => Some(finished),
            None => self.running.next().await,
        }
    }

    /// Waits for `step` while the tasks are polled too. A task may hold what `step` waits for, such as the log's writer
    /// during a commit, and releases it only when it is polled.
    pub(super) async fn run_alongside<S>(&mut self, step: impl Future<Output = S>) -> S {
        let Self { running, finished } = self;
        tokio::pin!(step);
        loop {
            tokio::select! {
                biased;
                outcome = &mut step => return outcome,
                Some(result) = running.next() => finished.push_back(result),
            }
        }
    }
}

#[cfg(test)]
mod tests;
