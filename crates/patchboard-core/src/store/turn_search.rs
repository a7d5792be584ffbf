//! Full-text search over turns. The index is filled behind the turns, so that a turn costs no more because of it.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use jiff::Timestamp;

use super::{PageCursor, ResultPage, StoreError};
use crate::id::{RunId, SessionKey};

/// The part of the store port that finds turns by their words.
pub trait TurnSearch: Send + Sync {
    /// Indexes turns that are not indexed yet. Bounded work per call; `true` if more are left.
    fn index_turns(&self) -> BoxFuture<'_, Result<bool, StoreError>>;
    /// Indexed turns that contain every word of the text, newest first within what was last used.
    fn search_turns(&self, query: TurnSearchQuery) -> BoxFuture<'_, Result<ResultPage<FoundTurn>, StoreError>>;
}

#[derive(Debug, Clone)]
pub struct TurnSearchQuery {
    /// Any text: only its words are used, so it cannot contain query syntax.
    pub text: String,
    /// Restricts to sessions created by one of these principals.
    pub owners: Option<Vec<Arc<str>>>,
    pub limit: usize,
    pub cursor: Option<PageCursor>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FoundTurn {
    pub session: SessionKey,
    pub title: Option<Arc<str>>,
    pub turn: u64,
    pub run: RunId,
    pub at: Timestamp,
    /// The passage around the first word found.
    pub excerpt: String,
}
