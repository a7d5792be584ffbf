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

mod accounts;
mod audit;
mod common;
mod conversations;
mod deliveries;
mod events;
mod facts;
mod fixtures;
mod folding;
mod kv;
mod messages;
mod run_list;
mod runs;
mod sessions;
mod usage;

pub use accounts::{
    accounts_are_exported_whole, accounts_are_forgotten, accounts_are_listed, facts_are_forgotten_with_their_past,
    facts_are_listed_with_their_past, forgetting_waits_for_running_runs,
};
pub use audit::audit_rows_are_filtered;
pub use common::{
    bad_cursors_are_refused, closed_stores_answer_closed, concurrent_commits_are_kept, limits_are_capped,
};
pub use conversations::{sessions_are_forked, sessions_are_named_and_hidden, turns_are_found_by_words};
pub use deliveries::{
    deliveries_are_listed, deliveries_are_stored_once, deliveries_are_taken_once,
    deliveries_without_an_owner_are_adopted, final_deliveries_are_pruned, open_deliveries_are_listed,
};
pub use events::{
    batches_are_all_or_nothing, events_are_numbered_without_gaps, events_are_replayed, events_of_nodes_are_replayed,
};
pub use facts::{
    facts_are_found_by_meaning, facts_are_found_by_words, facts_are_paged, facts_of_others_stay_hidden,
    facts_supersede_each_other, facts_take_any_text,
};
pub use folding::{long_runs_are_folded_step_by_step, old_events_are_folded};
pub use kv::{
    kv_keys_are_listed, kv_usage_is_measured, kv_values_are_deleted_with_their_session,
    kv_values_are_replaced_and_deleted, kv_values_have_versions,
};
pub use messages::{
    events_of_messages_are_stored_with_them, final_messages_are_pruned, messages_and_runs_share_no_topic,
    messages_are_listed, open_messages_are_listed,
};
pub use run_list::{listed_runs_show_what_they_took, lists_of_runs_are_paged, lists_of_runs_are_restricted};
pub use runs::{
    batches_of_another_tenure_are_fenced, finished_runs_are_pruned, requests_of_running_runs_are_stored,
    runs_are_found, runs_open_and_close_once, runs_without_an_owner_are_adopted, unfinished_runs_are_listed,
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
    runs_without_an_owner_are_adopted(make().await).await;
    requests_of_running_runs_are_stored(make().await).await;
    batches_of_another_tenure_are_fenced(make().await).await;
    listed_runs_show_what_they_took(make().await).await;
    lists_of_runs_are_restricted(make().await).await;
    lists_of_runs_are_paged(make().await).await;
    old_events_are_folded(make().await).await;
    long_runs_are_folded_step_by_step(make().await).await;
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
    kv_values_have_versions(make().await).await;
    deliveries_are_stored_once(make().await).await;
    deliveries_are_taken_once(make().await).await;
    deliveries_without_an_owner_are_adopted(make().await).await;
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
    accounts_are_listed(make().await).await;
    facts_are_listed_with_their_past(make().await).await;
    facts_are_forgotten_with_their_past(make().await).await;
    accounts_are_exported_whole(make().await).await;
    accounts_are_forgotten(make().await).await;
    forgetting_waits_for_running_runs(make().await).await;
    sessions_are_named_and_hidden(make().await).await;
    sessions_are_forked(make().await).await;
    turns_are_found_by_words(make().await).await;
    audit_rows_are_filtered(make().await).await;
    deliveries_are_listed(make().await).await;
    bad_cursors_are_refused(make().await).await;
    limits_are_capped(make().await).await;
    concurrent_commits_are_kept(make().await).await;
    closed_stores_answer_closed(make().await).await;
}
