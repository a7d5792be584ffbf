//! What every store must do, whatever it keeps its rows in. Test code: a broken promise panics.
//!
//! A backend's test calls [`check_everything`] with a function that makes an empty store, or single checks to look
//! closer. See `tests/it/contract.rs` of this crate.
//!
//! What the checks rely on beside the port's own words: times survive to the microsecond; a record that does not
//! follow the one before it, a run opened twice or closed while not running, and a model call opened twice or
//! settled while not open are refused with the whole batch; purging a session lets its running runs end and be
//! counted before they disappear, with whatever they kept meanwhile; a message stays submitted when its first row says
//! it was.

use std::sync::Arc;

use patchboard_core::port::Store;

mod deliveries;
mod events;
mod facts;
mod kept;
mod messages;
mod runs;
mod sample;
mod sessions;
mod shared;
mod usage;

pub use deliveries::{deliveries_are_taken_once, final_deliveries_are_pruned, open_deliveries_are_listed};
pub use events::{
    batches_are_all_or_nothing, events_are_replayed, events_follow_each_other, events_of_nodes_are_replayed,
};
pub use facts::{
    facts_are_found_by_meaning, facts_are_found_by_words, facts_are_paged, facts_of_others_stay_hidden,
    facts_supersede_each_other, facts_take_any_text,
};
pub use kept::{
    kept_keys_are_listed, kept_things_are_measured, kept_things_are_replaced_and_deleted,
    kept_things_go_with_their_session,
};
pub use messages::{
    events_of_messages_are_stored_with_them, final_messages_are_pruned, messages_and_runs_do_not_meet,
    messages_are_listed, open_messages_are_listed,
};
pub use runs::{
    events_of_finished_runs_go_before_the_runs, finished_runs_are_pruned, runs_are_found, runs_open_and_close_once,
    unfinished_runs_are_listed,
};
pub use sessions::{
    cleared_sessions_hide, purged_sessions_are_gone, sessions_are_listed, sessions_belong_to_whoever_made_them,
    turns_are_paged,
};
pub use shared::{
    bad_cursors_are_refused, closed_stores_answer_closed, concurrent_commits_are_kept, limits_are_capped,
};
pub use usage::{audit_rows_are_paged, model_calls_are_settled_once, usage_is_reported};

/// Runs every check on a store of its own.
pub async fn check_everything(make: impl AsyncFn() -> Arc<dyn Store>) {
    events_are_replayed(make().await).await;
    events_of_nodes_are_replayed(make().await).await;
    events_follow_each_other(make().await).await;
    batches_are_all_or_nothing(make().await).await;
    runs_are_found(make().await).await;
    runs_open_and_close_once(make().await).await;
    unfinished_runs_are_listed(make().await).await;
    finished_runs_are_pruned(make().await).await;
    events_of_finished_runs_go_before_the_runs(make().await).await;
    sessions_are_listed(make().await).await;
    sessions_belong_to_whoever_made_them(make().await).await;
    turns_are_paged(make().await).await;
    cleared_sessions_hide(make().await).await;
    purged_sessions_are_gone(make().await).await;
    facts_are_found_by_words(make().await).await;
    facts_are_found_by_meaning(make().await).await;
    facts_supersede_each_other(make().await).await;
    facts_of_others_stay_hidden(make().await).await;
    facts_take_any_text(make().await).await;
    facts_are_paged(make().await).await;
    kept_things_are_replaced_and_deleted(make().await).await;
    kept_things_go_with_their_session(make().await).await;
    kept_keys_are_listed(make().await).await;
    kept_things_are_measured(make().await).await;
    deliveries_are_taken_once(make().await).await;
    open_deliveries_are_listed(make().await).await;
    final_deliveries_are_pruned(make().await).await;
    messages_are_listed(make().await).await;
    open_messages_are_listed(make().await).await;
    events_of_messages_are_stored_with_them(make().await).await;
    messages_and_runs_do_not_meet(make().await).await;
    final_messages_are_pruned(make().await).await;
    model_calls_are_settled_once(make().await).await;
    usage_is_reported(make().await).await;
    audit_rows_are_paged(make().await).await;
    bad_cursors_are_refused(make().await).await;
    limits_are_capped(make().await).await;
    concurrent_commits_are_kept(make().await).await;
    closed_stores_answer_closed(make().await).await;
}
