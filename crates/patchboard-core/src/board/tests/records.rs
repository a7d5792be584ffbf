//! Figures, faults and the audit trail, as the board hands them out.

use std::time::Duration;

use jiff::Timestamp;

use super::*;
use crate::command::{ListFaults, ReadAudit, ReadFigures};
use crate::figures::{Fault, FigureReport, Flow, FlowKind};
use crate::port::ServerMonitor;
use crate::store::AuditFilter;

#[derive(Debug)]
struct Monitor;

impl ServerMonitor for Monitor {
    fn figures(&self, series: &[Arc<str>], _since: Option<Timestamp>) -> Result<FigureReport, Arc<str>> {
        match series.first() {
            Some(unknown) => Err(unknown.clone()),
            None => {
                let (start, step) = (Timestamp::UNIX_EPOCH, Duration::from_secs(10));
                Ok(FigureReport { start, step, series: Vec::new(), flows: Vec::new() })
            }
        }
    }

    fn faults(&self) -> Vec<Fault> {
        Vec::new()
    }
}

#[tokio::test(start_paused = true)]
async fn figures_tell_who_talks_to_what() {
    let bench = bench([call(&[("echo", json!({}))], 5, 5), say(&["Hello"], 2, 1)]);
    let read = || ReadFigures { series: Vec::new(), since: None };
    let refused = bench.ask(&operator(), read()).await.unwrap_err();
    assert_eq!((refused.kind, &*refused.message), (ErrorKind::Unavailable, "this server keeps no figures"));
    bench.board.set_server_monitor(Arc::new(Monitor));
    bench.chat("alice", "go").await;
    let flow = |kind, from: &str, to: &str| Flow { kind, from: from.into(), to: to.into(), recent: 1, total: 1 };
    assert_eq!(
        bench.ask(&operator(), read()).await.unwrap().flows,
        [flow(FlowKind::Run, "gateway", "default"), flow(FlowKind::ToolCall, "default", "builtin")]
    );
    assert_eq!(bench.ask(&operator(), ListFaults).await.unwrap(), []);
    let unknown = ReadFigures { series: vec!["tea".into()], since: None };
    assert_eq!(bench.ask(&operator(), unknown).await.unwrap_err().kind, ErrorKind::Invalid);
    let counts = bench.board.0.run_deps.tool_executor.statistics.tool_counts("echo");
    assert_eq!((counts.calls, counts.failures), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn the_audit_trail_is_read_by_who_may() {
    let bench = bench([call(&[("echo", json!({}))], 5, 5), say(&["Hello"], 2, 1)]);
    bench.chat("alice", "go").await;
    let read = |action: &str| {
        let filter = AuditFilter { action: Some(action.to_owned()), ..AuditFilter::default() };
        ReadAudit { filter, page: PageRequest::new(None, None) }
    };
    assert_eq!(bench.ask(&caller(1), read("tool")).await.unwrap_err().kind, ErrorKind::Forbidden);
    let rows = bench.ask(&operator(), read("tool.call")).await.unwrap().items;
    assert_eq!(rows.iter().map(|row| &*row.subject).collect::<Vec<_>>(), ["echo"]);
    assert_eq!(bench.ask(&operator(), read("plugin")).await.unwrap().items, []);
}
