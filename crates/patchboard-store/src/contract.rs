//! The contract that every store must fulfil, whatever its backend. Test code: a violation panics.
//!
//! A backend's test calls [`check_everything`] with a function that creates an empty store, or single checks for
//! debugging. See `tests/it/contract.rs` of this crate.
//!
//! The checks rely on these rules in addition to the port's documentation:
//!
//! - Times are kept to the microsecond.
//! - A record that does not follow its predecessor, a run opened twice or closed while not running, and a model call
//!   opened twice or settled while not open cause the whole batch to be refused.
//! - Purging a session lets its running runs end and be counted before they are deleted, with whatever they have stored
//!   since.
//! - A message keeps the submission time of its first row.

use std::sync::Arc;

use patchboard_core::store::Store;

mod audit;
mod common;
mod deliveries;
mod events;
mod facts;
mod fixtures;
mod kv;
mod messages;
mod runs;
mod sessions;
mod usage;

pub use audit::audit_rows_are_filtered;
pub use common::{
    bad_cursors_are_refused, closed_stores_answer_closed, concurrent_commits_are_kept, limits_are_capped,
};
pub use deliveries::deliveries_are_listed;
pub use deliveries::{deliveries_are_stored_once, final_deliveries_are_pruned, open_deliveries_are_listed};
pub use events::{
    batches_are_all_or_nothing, events_are_numbered_without_gaps, events_are_replayed, events_of_nodes_are_replayed,
};
pub use facts::{
    facts_are_found_by_meaning, facts_are_found_by_words, facts_are_paged, facts_of_others_stay_hidden,
    facts_supersede_each_other, facts_take_any_text,
};
pub use kv::{
    kv_keys_are_listed, kv_usage_is_measured, kv_values_are_deleted_with_their_session,
    kv_values_are_replaced_and_deleted,
};
pub use messages::{
    events_of_messages_are_stored_with_them, final_messages_are_pruned, messages_and_runs_share_no_topic,
    messages_are_listed, open_messages_are_listed,
};
pub use runs::{
    events_of_finished_runs_go_before_the_runs, finished_runs_are_pruned, runs_are_found, runs_open_and_close_once,
    unfinished_runs_are_listed,
};
pub use sessions::{
    cleared_sessions_hide, purged_sessions_are_gone, sessions_are_listed, sessions_belong_to_their_creator,
    turns_are_paged,
};
pub use usage::{audit_rows_are_paged, model_calls_are_settled_once, usage_is_reported};

/// Runs every check, each on a store of its own.
pub async fn check_everything(make: impl AsyncFn() -> Arc<dyn Store>) {
    events_are_replayed(make().await).await;
    events_of_nodes_are_replayed(make().await).await;
    events_are_numbered_without_gaps(make().await).await;
    batches_are_all_or_nothing(make().await).await;
    runs_are_found(make().await).await;
    runs_open_and_close_once(make().await).await;
    unfinished_runs_are_listed(make().await).await;
    finished_runs_are_pruned(make().await).await;
    events_of_finished_runs_go_before_the_runs(make().await).await;
    sessions_are_listed(make().await).await;
    sessions_belong_to_their_creator(make().await).await;
    turns_are_paged(make().await).await;
    cleared_sessions_hide(make().await).await;
    purged_sessions_are_gone(make().await).await;
    facts_are_found_by_words(make().await).await;
    facts_are_found_by_meaning(make().await).await;
    facts_supersede_each_other(make().await).await;
    facts_of_others_stay_hidden(make().await).await;
    facts_take_any_text(make().await).await;
    facts_are_paged(make().await).await;
    kv_values_are_replaced_and_deleted(make().await).await;
    kv_values_are_deleted_with_their_session(make().await).await;
    kv_keys_are_listed(make().await).await;
    kv_usage_is_measured(make().await).await;
    deliveries_are_stored_once(make().await).await;
    open_deliveries_are_listed(make().await).await;
    final_deliveries_are_pruned(make().await).await;
    messages_are_listed(make().await).await;
    open_messages_are_listed(make().await).await;
    events_of_messages_are_stored_with_them(make().await).await;
    messages_and_runs_share_no_topic(make().await).await;
    final_messages_are_pruned(make().await).await;
    model_calls_are_settled_once(make().await).await;
    usage_is_reported(make().await).await;
    audit_rows_are_paged(make().await).await;
    audit_rows_are_filtered(make().await).await;
    deliveries_are_listed(make().await).await;
    bad_cursors_are_refused(make().await).await;
    limits_are_capped(make().await).await;
    concurrent_commits_are_kept(make().await).await;
    closed_stores_answer_closed(make().await).await;
}
