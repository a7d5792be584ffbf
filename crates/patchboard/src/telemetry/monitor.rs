//! What the process measures about itself, as the board asks for it.

use std::sync::Arc;

use jiff::Timestamp;
use metrics_exporter_prometheus::PrometheusHandle;
use patchboard_core::figures::{Fault, FigureReport};
use patchboard_core::port::{Clock, ServerMonitor};
use tokio_util::sync::CancellationToken;

use super::faults::FaultLog;
use super::figures::FigureRecorder;

#[derive(Debug)]
pub(crate) struct ProcessMonitor {
    figures: FigureRecorder,
    faults: FaultLog,
    clock: Arc<dyn Clock>,
}

impl ProcessMonitor {
    pub(crate) fn new(faults: FaultLog, clock: Arc<dyn Clock>) -> Self {
        Self { figures: FigureRecorder::new(), faults, clock }
    }

    /// Takes the metrics every ten seconds.
    pub(crate) async fn watch(self: Arc<Self>, metrics: PrometheusHandle, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(FigureRecorder::until_next(self.clock.now())) => {}
                () = stop.cancelled() => return,
            }
            self.figures.sample(&metrics.render(), self.faults.counts(), self.clock.now());
        }
    }
}

impl ServerMonitor for ProcessMonitor {
    fn figures(&self, series: &[Arc<str>], since: Option<Timestamp>) -> Result<FigureReport, Arc<str>> {
        self.figures.read(series, since, self.clock.now())
    }

    fn faults(&self) -> Vec<Fault> {
        self.faults.list()
    }
}
