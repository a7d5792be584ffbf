//! Methods about what the server recorded about its own work.

use patchboard_core::command::{ListFaults, PageRequest, ReadAudit, ReadFigures};
use patchboard_core::figures::{Fault, FigureReport, FigureSeries, Flow};
use patchboard_core::id::RunId;
use patchboard_core::store::{AuditFilter, AuditRow, PageCursor};
use serde_json::{Value, json};

use super::{GatewayRequest, call, list, parse_optional_params};
use crate::gateway::wire;

/// `None` for a method that is not of this file.
pub(super) fn request(method: &str, params: &str) -> Option<GatewayRequest> {
    Some(match method {
        "audit.read" => parse_optional_params(method, params, audit),
        "figure.read" => parse_optional_params(method, params, |read: wire::FiguresRead| {
            let series = read.series.into_iter().map(Into::into).collect();
            Ok(call(ReadFigures { series, since: time("since", read.since)? }, |report| figures(&report)))
        }),
        "fault.list" => call(
            ListFaults,
            |faults| json!({ "items": faults.iter().map(fault_item).collect::<Vec<Value>>(), "next_cursor": null }),
        ),
        _ => return None,
    })
}

fn audit(read: wire::AuditRead) -> Result<GatewayRequest, String> {
    let wire::AuditRead { since, until, who, surface, action, subject, run, limit, cursor } = read;
    let filter = AuditFilter {
        since: time("since", since)?,
        until: time("until", until)?,
        principal: who,
        surface,
        action,
        subject,
        run: match run {
            Some(text) => Some(RunId(text.parse().map_err(|_| format!("`run` is not a run's id: {text}"))?)),
            None => None,
        },
    };
    let page = PageRequest::new(limit, cursor.map(PageCursor));
    Ok(call(ReadAudit { filter, page }, |page| list(page, |row| audit_item(&row))))
}

fn time(name: &str, text: Option<String>) -> Result<Option<jiff::Timestamp>, String> {
    let parse = |text: String| text.parse().map_err(|_| format!("`{name}` is not an RFC 3339 time: {text}"));
    text.map(parse).transpose()
}

fn audit_item(row: &AuditRow) -> Value {
    json!({
        "at": row.at.to_string(), "who": &*row.principal, "surface": &*row.surface, "action": &*row.action,
        "subject": &*row.subject, "run": row.run.map(|run| run.to_string()), "detail": &*row.detail,
    })
}

fn figures(report: &FigureReport) -> Value {
    let series =
        |series: &FigureSeries| json!({ "name": series.name, "unit": series.unit.name(), "values": series.values });
    let flow = |flow: &Flow| {
        json!({
            "kind": flow.kind.name(), "from": &*flow.from, "to": &*flow.to, "recent": flow.recent, "total": flow.total,
        })
    };
    json!({
        "start": report.start.to_string(), "step_seconds": report.step.as_secs(),
        "series": report.series.iter().map(series).collect::<Vec<Value>>(),
        "flows": report.flows.iter().map(flow).collect::<Vec<Value>>(),
    })
}

fn fault_item(fault: &Fault) -> Value {
    let fields = fault.fields.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    json!({
        "number": fault.number, "at": fault.at.to_string(), "level": fault.level.name(), "source": fault.source,
        "message": fault.message, "fields": fields.collect::<serde_json::Map<String, Value>>(),
    })
}
