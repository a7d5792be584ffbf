//! Tools in full.

use super::*;
use crate::approval::policy::ApprovalMode;
use crate::command::{DescribeTools, ListMcpServers, ListToolChanges, ReadWorkerLines, RestartWorkers};
use crate::tool::Glob;

#[tokio::test(start_paused = true)]
async fn a_tool_tells_its_host_and_what_is_decided() {
    let bench = bench_with([call(&[("echo", json!({}))], 5, 5), say(&["Hello"], 2, 1)], |setup| {
        setup.policy.rules.push((Glob::new("ech*"), ApprovalMode::Allow));
    });
    bench.chat("alice", "go").await;
    let describe =
        |name: Option<&str>| DescribeTools { name: name.map(Into::into), page: PageRequest::new(None, None) };
    let tools = bench.ask(&caller(1), describe(Some("echo"))).await.unwrap().items;
    let [tool] = tools.as_slice() else { panic!("{tools:?}") };
    assert_eq!((&*tool.host, tool.counts.calls, tool.counts.failures), ("builtin", 1, 0));
    assert_eq!(tool.decisions.len(), 7);
    for decision in &tool.decisions {
        assert_eq!((decision.mode, decision.rule.as_deref()), (ApprovalMode::Allow, Some("ech*")), "{decision:?}");
    }
    let all = bench.ask(&caller(1), describe(None)).await.unwrap().items;
    let remember = all.iter().find(|tool| &*tool.spec.name == "remember").unwrap();
    let decided = |surface| remember.decisions.iter().find(|decision| decision.surface == surface).unwrap().mode;
    assert_eq!((decided(Surface::Gateway), decided(Surface::Webhook)), (ApprovalMode::Ask, ApprovalMode::Deny));
    assert_eq!(bench.ask(&caller(1), describe(Some("nope"))).await.unwrap().items, []);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_said() {
    let bench = bench([]);
    assert_eq!(bench.ask(&operator(), ListToolChanges).await.unwrap(), []);
    assert_eq!(bench.ask(&operator(), ListMcpServers).await.unwrap(), []);
    let restart = bench.ask(&operator(), RestartWorkers { pool: "py".into(), worker: None }).await.unwrap_err();
    assert_eq!(restart.message, "no pool of workers is called `py`; `patchboard workers` lists them");
    let lines = bench.ask(&operator(), ReadWorkerLines { worker: "w".into(), after: 0 }).await.unwrap_err();
    assert_eq!(lines.kind, ErrorKind::NotFound);
    assert_eq!(bench.audit().await, []);
}
