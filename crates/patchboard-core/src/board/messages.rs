//! The text messages of a thread, paged by message number.

use std::sync::Arc;

use crate::error::BoardError;
use crate::id::SessionKey;
use crate::model::ContentPart;
use crate::reply::{ThreadMessage, ThreadPage};
use crate::store::{PageCursor, Store, TurnQuery, TurnRow};

/// Message number = turn × this + index within the turn. Further messages of a turn are left out.
const NUMBERS_PER_TURN: u64 = 1000;
/// Turns read at a time.
const TURNS_PER_READ: usize = 100;

/// The newest `limit` messages numbered below `before`, oldest first.
pub(super) async fn read_messages(
    store: &Arc<dyn Store>,
    session: SessionKey,
    before: Option<u64>,
    limit: usize,
) -> Result<ThreadPage, BoardError> {
    let before = before.unwrap_or(u64::MAX);
    // The turn that contains number `before` may hold older messages too, so the cursor starts at the turn after it.
    let mut cursor = before.checked_div(NUMBERS_PER_TURN).and_then(|turn| turn.checked_add(1));
    cursor = cursor.filter(|turn| i64::try_from(*turn).is_ok_and(|turn| turn < 1 << 30));
    // Newest first.
    let mut found: Vec<ThreadMessage> = Vec::new();
    loop {
        let before_turn = cursor.map(|turn| PageCursor(turn.to_string()));
        let page =
            store.turns(TurnQuery { session: session.clone(), limit: TURNS_PER_READ, before: before_turn }).await?;
        for turn in page.items.iter().rev() {
            found.extend(stored_messages(turn).into_iter().rev().filter(|message| message.seq < before));
        }
        let oldest = page.items.first().map(|turn| turn.number);
        match oldest {
            // One more than `limit` shows whether there are more.
            Some(oldest) if found.len() <= limit && page.next.is_some() => cursor = Some(oldest),
            Some(_) | None => break,
        }
    }
    let has_more = found.len() > limit;
    found.truncate(limit);
    found.reverse();
    Ok(ThreadPage { messages: found, has_more })
}

/// Messages with text; tool results are left out.
fn stored_messages(turn: &TurnRow) -> Vec<ThreadMessage> {
    let with_text =
        turn.messages.iter().filter(|message| message.parts.iter().any(|part| matches!(part, ContentPart::Text(_))));
    (0..NUMBERS_PER_TURN)
        .zip(with_text)
        .map(|(index, message)| ThreadMessage {
            seq: turn.number * NUMBERS_PER_TURN + index,
            role: message.role,
            text: message.text(),
        })
        .collect()
}
