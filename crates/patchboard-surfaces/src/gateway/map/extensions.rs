//! Methods about tools in full, MCP servers, workers, and what waits for approval.

use patchboard_core::approval::policy::ApprovalMode;
use patchboard_core::command::{
    DescribeTools, ListMcpServers, ListToolChanges, PageRequest, ReadWorkerLines, RestartWorkers,
};
use patchboard_core::command::{ListChannels, ListDeliveries};
use patchboard_core::deliveries::{ChannelReport, DeliveryReport};
use patchboard_core::extensions::{McpServerReport, ToolChangeReport, ToolDecision, ToolReport, ToolText, WorkerLine};
use patchboard_core::store::PageCursor;
use patchboard_core::tool::ToolEffect;
use patchboard_core::webhook::DeliveryState;
use serde_json::{Value, json};

use super::{GatewayRequest, call, list, parse_optional_params, parse_params};
use crate::gateway::wire;

/// `None` for a method that is not of this file.
pub(super) fn request(method: &str, params: &str) -> Option<GatewayRequest> {
    Some(match method {
        "tool.describe" => parse_optional_params(method, params, |about: wire::ToolDescribe| {
            let page = PageRequest::new(about.limit, about.cursor.map(PageCursor));
            let command = DescribeTools { name: about.name.map(Into::into), page };
            Ok(call(command, |page| list(page, |tool| tool_item(&tool))))
        }),
        "tool.pending" => call(ListToolChanges, |changes| whole_list(&changes, change_item)),
        "mcp.list" => call(ListMcpServers, |servers| whole_list(&servers, server_item)),
        "channel.list" => call(ListChannels, |channels| whole_list(&channels, channel_item)),
        "delivery.list" => parse_optional_params(method, params, |query: wire::DeliveryList| {
            let state = query.state.as_deref().map(delivery_state).transpose()?;
            let page = PageRequest::new(query.limit, query.cursor.map(PageCursor));
            let command = ListDeliveries { channel: query.channel.map(Into::into), state, page };
            Ok(call(command, |page| list(page, |delivery| delivery_item(&delivery))))
        }),
        "worker.restart" => parse_params(method, params, |restart: wire::WorkerRestart| {
            let command = RestartWorkers { pool: restart.pool.into(), worker: restart.worker.map(Into::into) };
            Ok(call(
                command,
                |workers| json!({ "restarting": workers.iter().map(|worker| &**worker).collect::<Vec<_>>() }),
            ))
        }),
        "worker.lines" => parse_params(method, params, |read: wire::WorkerLines| {
            let command = ReadWorkerLines { worker: read.worker.into(), after: read.after.unwrap_or(0) };
            Ok(call(command, |lines| whole_list(&lines, line_item)))
        }),
        _ => return None,
    })
}

fn whole_list<T>(items: &[T], item: fn(&T) -> Value) -> Value {
    json!({ "items": items.iter().map(item).collect::<Vec<Value>>(), "next_cursor": null })
}

fn tool_item(tool: &ToolReport) -> Value {
    let ToolReport { spec, host, timeout, decisions, counts } = tool;
    json!({
        "name": &*spec.name, "description": &*spec.description, "input_schema": &*spec.input_schema,
        "kind": spec.kind.name(), "host": &**host,
        "effect": match spec.effect {
            ToolEffect::ReadOnly => "read_only",
            ToolEffect::Writes => "writes",
        },
        "timeout_ms": u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        "decisions": decisions.iter().map(decision_item).collect::<Vec<Value>>(),
        "calls": counts.calls, "failures": counts.failures,
    })
}

fn decision_item(decision: &ToolDecision) -> Value {
    let mode = match decision.mode {
        ApprovalMode::Allow => "allow",
        ApprovalMode::Ask => "ask",
        ApprovalMode::Deny => "deny",
    };
    json!({ "surface": decision.surface.name(), "decision": mode, "rule": decision.rule.as_deref() })
}

fn change_item(change: &ToolChangeReport) -> Value {
    let shown = |text: &ToolText| json!({ "description": text.description, "input_schema": text.input_schema });
    json!({
        "server": &*change.server, "tool": &*change.tool, "changed": change.changed,
        "before": change.before.as_ref().map(shown), "now": shown(&change.now),
    })
}

fn server_item(server: &McpServerReport) -> Value {
    let McpServerReport { state, since } = server;
    json!({
        "name": &*state.name, "state": state.stage.name(), "since": since.to_string(),
        "trouble": state.last_error.as_deref(),
        "tools": state.tools.iter().map(|tool| &**tool).collect::<Vec<_>>(),
    })
}

fn delivery_state(name: &str) -> Result<DeliveryState, String> {
    let found = DeliveryState::ALL.into_iter().find(|state| state.name() == name);
    found.ok_or_else(|| format!("`state` is one of received, answered, sent, failed; not {name}"))
}

fn channel_item(channel: &ChannelReport) -> Value {
    json!({
        "name": &*channel.name, "plugin": &*channel.plugin,
        "wait_ms": channel.wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        "unanswered": channel.unanswered, "max_unanswered": channel.max_unanswered,
    })
}

fn delivery_item(delivery: &DeliveryReport) -> Value {
    json!({
        "id": delivery.id.0.to_string(), "channel": &*delivery.channel, "state": delivery.state.name(),
        "received_at": delivery.received_at.to_string(), "changed_at": delivery.changed_at.to_string(),
        "requests": delivery.requests, "sent_requests": delivery.sent_requests, "problem": delivery.problem,
    })
}

fn line_item(line: &WorkerLine) -> Value {
    json!({ "number": line.number, "text": line.text })
}
