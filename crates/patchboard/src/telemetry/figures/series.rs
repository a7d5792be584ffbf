//! The series, and the metrics they are made from.

use patchboard_core::figures::FigureUnit;

#[derive(Debug)]
pub(super) struct Series {
    pub(super) name: &'static str,
    pub(super) source: Source,
}

/// A metric with a piece of its labels, or an empty one for the sum over all labels.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source {
    Counted(&'static str, &'static str),
    Level(&'static str, &'static str),
    Quantile(&'static str, f64),
    Faults(FaultKind),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum FaultKind {
    Warning,
    Error,
}

impl Series {
    pub(super) fn unit(&self) -> FigureUnit {
        match self.source {
            Source::Counted(..) | Source::Faults(_) => FigureUnit::Count,
            Source::Level(..) => FigureUnit::Level,
            Source::Quantile(..) => FigureUnit::Seconds,
        }
    }
}

const fn counted(name: &'static str, metric: &'static str, label: &'static str) -> Series {
    Series { name, source: Source::Counted(metric, label) }
}

const fn level(name: &'static str, metric: &'static str, label: &'static str) -> Series {
    Series { name, source: Source::Level(metric, label) }
}

const fn quantile(name: &'static str, metric: &'static str, share: f64) -> Series {
    Series { name, source: Source::Quantile(metric, share) }
}

const RUN_SECONDS: &str = "patchboard_run_duration_seconds";
const CALL_SECONDS: &str = "patchboard_model_call_duration_seconds";
const PIECE_SECONDS: &str = "patchboard_model_first_piece_seconds";
const TOOL_SECONDS: &str = "patchboard_tool_call_duration_seconds";
const COMMIT_SECONDS: &str = "patchboard_store_commit_duration_seconds";

/// Each costs 4 KB.
pub(super) const SERIES: &[Series] = &[
    level("runs.live", "patchboard_runs_live", ""),
    counted("runs.started", "patchboard_runs_started_total", ""),
    counted("runs.completed", "patchboard_runs_ended_total", "outcome=\"completed\""),
    counted("runs.failed", "patchboard_runs_ended_total", "outcome=\"failed\""),
    counted("runs.cancelled", "patchboard_runs_ended_total", "outcome=\"cancelled\""),
    quantile("runs.p50", RUN_SECONDS, 0.5),
    quantile("runs.p95", RUN_SECONDS, 0.95),
    quantile("runs.p99", RUN_SECONDS, 0.99),
    counted("models.calls", "patchboard_model_calls_total", ""),
    counted("models.failed", "patchboard_model_calls_total", "result=\"failed\""),
    counted("models.fallbacks", "patchboard_model_fallbacks_total", ""),
    counted("models.input_tokens", "patchboard_model_tokens_total", "direction=\"input\""),
    counted("models.output_tokens", "patchboard_model_tokens_total", "direction=\"output\""),
    quantile("models.p50", CALL_SECONDS, 0.5),
    quantile("models.p95", CALL_SECONDS, 0.95),
    quantile("models.p99", CALL_SECONDS, 0.99),
    quantile("models.first_piece.p50", PIECE_SECONDS, 0.5),
    quantile("models.first_piece.p95", PIECE_SECONDS, 0.95),
    quantile("models.first_piece.p99", PIECE_SECONDS, 0.99),
    counted("tools.calls", "patchboard_tool_calls_total", ""),
    counted("tools.failed", "patchboard_tool_calls_total", "outcome=\"error\""),
    quantile("tools.p50", TOOL_SECONDS, 0.5),
    quantile("tools.p95", TOOL_SECONDS, 0.95),
    quantile("tools.p99", TOOL_SECONDS, 0.99),
    counted("budgets.refusals", "patchboard_budget_refusals_total", ""),
    counted("hub.messages", "patchboard_hub_messages_routed_total", ""),
    counted("webhooks.received", "patchboard_webhooks_total", ""),
    level("deliveries.open", "patchboard_deliveries_open", ""),
    counted("deliveries.failed", "patchboard_deliveries_ended_total", "state=\"failed\""),
    level("connections.open", "patchboard_connections_open", ""),
    counted("connections.refused", "patchboard_refusals_total", ""),
    counted("bridge.calls", "patchboard_bridge_rpcs_total", ""),
    level("workers.ready", "patchboard_workers_ready", ""),
    level("workers.queued", "patchboard_worker_queue_length", ""),
    counted("workers.replaced", "patchboard_workers_replaced_total", ""),
    counted("plugins.calls", "patchboard_plugin_calls_total", ""),
    counted("store.batches", "patchboard_store_batches_total", ""),
    counted("store.failures", "patchboard_store_commit_failures_total", ""),
    quantile("store.p50", COMMIT_SECONDS, 0.5),
    quantile("store.p95", COMMIT_SECONDS, 0.95),
    quantile("store.p99", COMMIT_SECONDS, 0.99),
    Series { name: "faults.warnings", source: Source::Faults(FaultKind::Warning) },
    Series { name: "faults.errors", source: Source::Faults(FaultKind::Error) },
];
