//! Message reports, from running actors or from the store.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Hub, unknown_message};
use crate::app::message::{MessageReport, MessageState};
use crate::command::PageRequest;
use crate::error::BoardError;
use crate::event::{Event, Topic};
use crate::id::{MessageId, Seq};
use crate::store::{MessageQuery, ResultPage, Store, StoreError};

/// Records read at a time; a store may return fewer.
const READ_BATCH: usize = 500;

impl Hub {
    /// The current report; with `newer_than`, waits until there is a newer version or `stop` is cancelled.
    pub(crate) async fn read(
        &self,
        message: MessageId,
        newer_than: Option<Seq>,
        stop: &CancellationToken,
    ) -> Result<Arc<MessageReport>, BoardError> {
        /// How often a message without a running actor is read again.
        const POLL_INTERVAL: Duration = Duration::from_millis(250);
        let is_news = |report: &MessageReport| newer_than.is_none_or(|known| report.version > known);
        loop {
            let live = self.actors().by_message.get(&message).map(|handle| handle.report.clone());
            let Some(mut live) = live else {
                let stored = load_report(&*self.0.store, message).await?.ok_or_else(unknown_message)?;
                if is_news(&stored) || stop.is_cancelled() || self.0.shutdown.is_cancelled() {
                    return Ok(Arc::new(stored));
                }
                tokio::select! {
                    () = tokio::time::sleep(POLL_INTERVAL) => continue,
                    () = stop.cancelled() => return Ok(Arc::new(stored)),
                }
            };
            let now = live.borrow_and_update().clone();
            let is_enough = stop.is_cancelled() || self.0.shutdown.is_cancelled();
            match now {
                Some(report) if is_news(&report) || is_enough => return Ok(report),
                None if is_enough => {
                    let stored = load_report(&*self.0.store, message).await?;
                    return stored.map(Arc::new).ok_or_else(unknown_message);
                }
                Some(_) | None => {}
            }
            tokio::select! {
                // An error means that the actor has stopped; the store has the newer state then.
                changed = live.changed() => if changed.is_err() {
                    tokio::task::yield_now().await;
                },
                () = stop.cancelled() => {}
            }
        }
    }

    pub(crate) async fn list(
        &self,
        state: Option<MessageState>,
        page: PageRequest,
    ) -> Result<ResultPage<Arc<MessageReport>>, BoardError> {
        let query = MessageQuery { state, limit: page.limit, cursor: page.cursor };
        let rows = self.0.store.messages(query).await?;
        let mut items = Vec::with_capacity(rows.items.len());
        for row in rows.items {
            let live = self.actors().by_message.get(&row.message).and_then(|handle| handle.report.borrow().clone());
            match live {
                Some(report) => items.push(report),
                // May have been pruned since the rows were read; then it is left out.
                None => items.extend(load_report(&*self.0.store, row.message).await?.map(Arc::new)),
            }
        }
        Ok(ResultPage { items, next: rows.next })
    }
}

/// Reads the message's report from all its records.
pub(in crate::hub) async fn load_report(
    store: &dyn Store,
    message: MessageId,
) -> Result<Option<MessageReport>, StoreError> {
    let topic = Topic::Message(message);
    let mut report: Option<MessageReport> = None;
    let mut next = Seq::FIRST;
    loop {
        let records = store.events(&topic, next, READ_BATCH).await?;
        let Some(last) = records.last() else { return Ok(report) };
        next = last.last_seq().next();
        let is_whole = records.len() < READ_BATCH;
        let mut events = records.iter().filter_map(|record| {
            let Event::Message(event) = &record.event else { return None };
            Some((record.seq, record.at, event))
        });
        match &mut report {
            Some(report) => events.for_each(|(seq, at, event)| report.apply(seq, at, event)),
            None => report = MessageReport::replay(message, events.by_ref()),
        }
        if is_whole || report.is_none() {
            return Ok(report);
        }
    }
}
