//! The pieces of work of one run that are under way at once.

use std::collections::VecDeque;

use futures_core::future::BoxFuture;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

pub(super) struct TaskSet<'a, T> {
    running: FuturesUnordered<BoxFuture<'a, T>>,
    /// Finished while something else was waited for.
    finished: VecDeque<T>,
}

impl<'a, T> TaskSet<'a, T> {
    pub(super) fn new() -> Self {
        Self { running: FuturesUnordered::new(), finished: VecDeque::new() }
    }

    pub(super) fn push(&mut self, piece: BoxFuture<'a, T>) {
        self.running.push(piece);
    }

    /// What the next piece came to; `None` when nothing is under way.
    pub(super) async fn next(&mut self) -> Option<T> {
        match self.finished.pop_front() {
            Some(finished) => Some(finished),
            None => self.running.next().await,
        }
    }

    /// Waits for `step` while the work goes on. A piece may hold what `step` waits for (the log's writer, while a
    /// commit is under way) and lets go of it only when it is polled.
    pub(super) async fn run_alongside<S>(&mut self, step: impl Future<Output = S>) -> S {
        let Self { running, finished: done } = self;
        tokio::pin!(step);
        loop {
            tokio::select! {
                biased;
                outcome = &mut step => return outcome,
                Some(finished) = running.next() => done.push_back(finished),
            }
        }
    }
}

#[cfg(test)]
mod tests;
