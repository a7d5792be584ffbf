//! All metrics of the core. Labels come from closed sets; sessions and users are never labels.

use std::sync::Arc;
use std::time::Duration;

use metrics::{counter, gauge, histogram};

use crate::event::RunOutcome;
use crate::model::TokenCount;
use crate::webhook::DeliveryState;

pub(crate) fn run_started(surface: &'static str) {
    gauge!("patchboard_runs_live").increment(1.0);
    counter!("patchboard_runs_started_total", "surface" => surface).increment(1);
}

pub(crate) fn run_ended(outcome: RunOutcome, took: Duration) {
    let outcome = match outcome {
        RunOutcome::Completed => "completed",
        RunOutcome::Failed => "failed",
        RunOutcome::Cancelled => "cancelled",
        RunOutcome::Interrupted => "interrupted",
    };
    gauge!("patchboard_runs_live").decrement(1.0);
    counter!("patchboard_runs_ended_total", "outcome" => outcome).increment(1);
    histogram!("patchboard_run_duration_seconds").record(took.as_secs_f64());
}

pub(crate) fn model_call(result: &'static str, tokens: TokenCount, took: Duration) {
    counter!("patchboard_model_calls_total", "result" => result).increment(1);
    counter!("patchboard_model_tokens_total", "direction" => "input").increment(tokens.input);
    counter!("patchboard_model_tokens_total", "direction" => "output").increment(tokens.output);
    histogram!("patchboard_model_call_duration_seconds").record(took.as_secs_f64());
}

/// From the request to the first piece of the answer: text, a thought or a tool call.
pub(crate) fn model_first_piece(took: Duration) {
    histogram!("patchboard_model_first_piece_seconds").record(took.as_secs_f64());
}

pub(crate) fn tool_call(kind: &'static str, outcome: &'static str, took: Duration) {
    counter!("patchboard_tool_calls_total", "kind" => kind, "outcome" => outcome).increment(1);
    histogram!("patchboard_tool_call_duration_seconds").record(took.as_secs_f64());
}

pub(crate) fn budget_refused() {
    counter!("patchboard_budget_refusals_total").increment(1);
}

pub(crate) fn message_routed(stage: &'static str) {
    counter!("patchboard_hub_messages_routed_total", "stage" => stage).increment(1);
}

/// The channels are those of the configuration, so the label is bounded.
pub(crate) fn webhook(channel: &Arc<str>, outcome: &'static str) {
    counter!("patchboard_webhooks_total", "channel" => channel.clone(), "outcome" => outcome).increment(1);
}

/// Updates the gauges when a delivery is opened, changes its state or is closed.
pub(crate) fn delivery_state_changed(from: Option<DeliveryState>, to: Option<DeliveryState>) {
    if let Some(from) = from {
        gauge!("patchboard_deliveries_open", "state" => state_label(from)).decrement(1.0);
    }
    if let Some(to) = to {
        gauge!("patchboard_deliveries_open", "state" => state_label(to)).increment(1.0);
    }
}

pub(crate) fn delivery_ended(state: DeliveryState) {
    counter!("patchboard_deliveries_ended_total", "state" => state_label(state)).increment(1);
}

fn state_label(state: DeliveryState) -> &'static str {
    match state {
        DeliveryState::Received => "received",
        DeliveryState::Answered => "answered",
        DeliveryState::Sent => "sent",
        DeliveryState::Failed => "failed",
    }
}
