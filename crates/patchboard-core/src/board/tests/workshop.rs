//! Tools for the tests, named after what they do.

use std::sync::Mutex;

use serde_json::Value;

use super::*;
use crate::model::ToolCall;
use crate::port::ToolHost;
use crate::port::ToolScope;
use crate::tool::{ToolEffect, ToolKind, ToolOutput, ToolSpec, UnknownOutcomePolicy};

#[derive(Debug)]
pub(super) struct Workshop {
    store: Arc<FaultyStore>,
    /// Opens the tool `waits`.
    pub(super) gate: Semaphore,
    /// Every call that was really executed: its name, and the run's stored events at that moment.
    executed: Mutex<Vec<(String, Vec<String>)>>,
    /// What `hangs` was told when nobody waited for it any more.
    pub(super) hang_stop: Mutex<Option<CancellationToken>>,
}

impl Workshop {
    pub(super) fn new(store: Arc<FaultyStore>) -> Self {
        Self { store, gate: Semaphore::new(0), executed: Mutex::default(), hang_stop: Mutex::default() }
    }

    pub(super) fn executed(&self) -> Vec<String> {
        self.executed.lock().unwrap().iter().map(|(name, _)| name.clone()).collect()
    }

    /// What was on record when the first call began.
    pub(super) fn record_at_first_call(&self) -> Vec<String> {
        self.executed.lock().unwrap()[0].1.clone()
    }

    async fn note(&self, session: &SessionKey, name: &str) {
        let row = self.store.latest_run_of_session(session).await.unwrap().expect("a stored run");
        let records = self.store.events(&Topic::Run(row.run), Seq::FIRST, 1000).await.unwrap();
        let events = records.iter().map(|record| short(record)).collect();
        self.executed.lock().unwrap().push((name.to_owned(), events));
    }
}

impl ToolHost for Workshop {
    fn kind(&self) -> ToolKind {
        ToolKind::BuiltIn
    }

    fn tools(&self, _folder: Option<&std::path::Path>) -> Arc<[ToolSpec]> {
        let spec = |name: &str, effect| ToolSpec {
            name: name.into(),
            description: "does what its name says".into(),
            input_schema: json!({"type": "object"}).into(),
            effect,
            timeout: None,
            unknown_outcome: UnknownOutcomePolicy::Fail,
            kind: ToolKind::BuiltIn,
            traits: None,
        };
        let harmless = ["echo", "fails", "hangs", "huge", "panics", "panics_later", "waits"];
        let mut specs: Vec<ToolSpec> = harmless.iter().map(|name| spec(name, ToolEffect::ReadOnly)).collect();
        specs.push(spec("write", ToolEffect::Writes));
        specs.push(ToolSpec { unknown_outcome: UnknownOutcomePolicy::Retry, ..spec("slow_write", ToolEffect::Writes) });
        specs.push(ToolSpec { unknown_outcome: UnknownOutcomePolicy::Fail, ..spec("once", ToolEffect::Writes) });
        specs.push(ToolSpec { unknown_outcome: UnknownOutcomePolicy::Ask, ..spec("unsure", ToolEffect::Writes) });
        specs.push(spec("talks", ToolEffect::ReadOnly));
        specs.into()
    }

    fn approve<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Option<Result<Vec<Arc<str>>, String>>> {
        Box::pin(std::future::ready(match server {
            "workshop" => Some(Ok(vec!["write".into(), "once".into()])),
            "silent" => Some(Err("the server `silent` does not answer".to_owned())),
            _ => None,
        }))
    }

    fn call<'a>(
        &'a self,
        scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        assert!(&*call.name != "panics", "a tool that panics before it begins");
        Box::pin(async move {
            self.note(&scope.session, &call.name).await;
            match &*call.name {
                "echo" | "write" => ToolOutput::ok(arguments.to_string()),
                "fails" => ToolOutput::error("no such file"),
                "huge" => ToolOutput::ok("é".repeat(100_000)),
                "panics_later" => {
                    tokio::task::yield_now().await;
                    panic!("a tool that panics")
                }
                "talks" => {
                    scope.progress.send_text("half way").await;
                    tokio::task::yield_now().await;
                    scope.progress.send_text("nearly there").await;
                    ToolOutput::ok("talked")
                }
                "waits" | "slow_write" | "once" | "unsure" => {
                    self.gate.acquire().await.unwrap().forget();
                    ToolOutput::ok("waited")
                }
                _ => {
                    *self.hang_stop.lock().unwrap() = Some(stop);
                    std::future::pending().await
                }
            }
        })
    }
}
