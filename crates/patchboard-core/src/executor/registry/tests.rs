//! Which tool a name resolves to.

use futures_core::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::model::ToolCall;
use crate::port::ToolScope;
use crate::tool::{ToolEffect, ToolOutput, UnknownOutcomePolicy};

#[derive(Debug)]
struct Host {
    kind: ToolKind,
    pool: Option<&'static str>,
    tools: Arc<[ToolSpec]>,
}

impl ToolHost for Host {
    fn kind(&self) -> ToolKind {
        self.kind
    }

    fn tools(&self, _folder: Option<&Path>) -> Arc<[ToolSpec]> {
        self.tools.clone()
    }

    fn qualifier(&self) -> Option<&str> {
        self.pool
    }

    fn call<'a>(
        &'a self,
        _scope: &'a ToolScope,
        _call: &'a ToolCall,
        _arguments: &'a Value,
        _stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(std::future::ready(ToolOutput::ok("")))
    }
}

fn host(kind: ToolKind, pool: Option<&'static str>, names: &[&str]) -> RegisteredHost {
    let spec = |name: &&str| ToolSpec {
        name: (*name).into(),
        description: "".into(),
        input_schema: json!({}).into(),
        effect: ToolEffect::ReadOnly,
        timeout: None,
        unknown_outcome: UnknownOutcomePolicy::Retry,
        kind,
        traits: None,
    };
    RegisteredHost::Plain(Arc::new(Host { kind, pool, tools: names.iter().map(spec).collect() }))
}

/// Names and kinds of what is offered.
fn offered(hosts: Vec<RegisteredHost>, allowed: Option<&[&str]>) -> Vec<String> {
    let allowed: Option<Vec<Glob>> = allowed.map(|globs| globs.iter().map(|glob| Glob::new(*glob)).collect());
    let tool_set = ToolRegistry::new(hosts).tool_set(allowed.as_deref(), None);
    for spec in tool_set.specs.iter() {
        let (found, host) = tool_set.find(&spec.name).unwrap();
        assert_eq!((found, host.kind()), (spec, spec.kind));
    }
    tool_set.specs.iter().map(|spec| format!("{} {}", spec.name, spec.kind.name())).collect()
}

#[test]
fn taken_and_reserved_names_are_not_shadowed() {
    let hosts = || {
        vec![
            host(ToolKind::BuiltIn, None, &["read", "grep"]),
            host(ToolKind::Mcp, None, &["read", "docs.find"]),
            host(ToolKind::Worker, Some("py"), &["py.read", "read", "resize"]),
            host(ToolKind::Worker, Some("two"), &["read", "resize"]),
        ]
    };
    let all = [
        "docs.find mcp",
        "grep builtin",
        "py.read worker",
        "read builtin",
        "resize worker",
        "two.read worker",
        "two.resize worker",
    ];
    assert_eq!(offered(hosts(), None), all);
    // A list uses the same names as callers do, and selects no other tools.
    assert_eq!(offered(hosts(), Some(&["read"])), ["read builtin"]);
    assert_eq!(offered(hosts(), Some(&["two.*"])), ["two.read worker", "two.resize worker"]);
}

#[test]
fn names_of_apps_and_agents_are_theirs_even_when_they_are_not_there() {
    let names = ["agent.helper", "app.notes", "apps", "application.x"];
    for (hosts, expected) in [
        (
            vec![host(ToolKind::Worker, Some("py"), &names)],
            vec!["application.x worker", "apps worker", "py.agent.helper worker", "py.app.notes worker"],
        ),
        (
            vec![
                host(ToolKind::App, None, &["app.notes"]),
                host(ToolKind::Agent, None, &["agent.helper"]),
                host(ToolKind::Worker, Some("py"), &names),
            ],
            vec![
                "agent.helper agent",
                "app.notes app",
                "application.x worker",
                "apps worker",
                "py.agent.helper worker",
                "py.app.notes worker",
            ],
        ),
        (vec![host(ToolKind::Mcp, None, &names)], vec!["application.x mcp", "apps mcp"]),
        (vec![host(ToolKind::Agent, None, &["app.notes"])], vec![]),
        // Not by way of its pool either.
        (vec![host(ToolKind::BuiltIn, None, &["x"]), host(ToolKind::Worker, Some("app"), &["x"])], vec!["x builtin"]),
    ] {
        assert_eq!(offered(hosts, None), expected);
    }
}

#[test]
fn a_tool_set_is_rebuilt_only_when_something_changed() {
    let registry = ToolRegistry::new(vec![host(ToolKind::BuiltIn, None, &["read", "write"])]);
    let first = registry.tool_set(None, None);
    assert!(first.is_same(&registry.tool_set(None, None)));
    assert!(!first.is_same(&registry.tool_set(Some(&[Glob::new("read")]), None)));
    assert!(first.is_same(&registry.tool_set(None, None)));
    let narrowed = first.filter(|spec| &*spec.name == "write");
    assert!(narrowed.find("read").is_none() && narrowed.find("write").is_some());
    assert!(narrowed.tokens < first.tokens);
}

#[test]
fn tools_made_for_programs_reach_agents_only_if_they_list_them() {
    let store = Arc::new(crate::in_memory::InMemoryStore::default());
    let variables =
        crate::bridge::variables::VariableStore::new(store, Arc::new(crate::scripted::ManualClock::default()));
    let registry = ToolRegistry::new(vec![RegisteredHost::Plain(Arc::new(crate::bridge::VariableToolHost(variables)))]);
    let count = |tool_set: ToolSet| tool_set.specs.len();
    assert_eq!(count(registry.tool_set_for_agent(None, None)), 0);
    assert_eq!(count(registry.tool_set(None, None)), 5);
    assert_eq!(count(registry.tool_set_for_agent(Some(&[Glob::new("variable_get")]), None)), 1);
    assert_eq!(count(registry.tool_set_for_agent(Some(&[Glob::new("*")]), None)), 5);
}
