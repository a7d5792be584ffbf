//! Test doubles without I/O: a model that follows a script, a clock that is set by hand, ids that count.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_core::future::BoxFuture;
use futures_util::StreamExt;
use futures_util::stream;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::model::{ModelError, ModelEvent, ModelRequest, StopReason, TokenCount, ToolCall, ToolInput};
use crate::port::ToolScope;
use crate::port::{
    BoxStream, Clock, FolderDocuments, FolderGrant, GrantedFolder, IdGenerator, ModelProvider, SchemaValidator,
    SchemaViolation, SoulSource, ToolHost, WorkingFolders,
};
use crate::tool::{ToolKind, ToolOutput, ToolSpec};

/// Answers each call with the next script; without one with `ok`.
#[derive(Debug, Default)]
pub struct ScriptedModel {
    scripts: Mutex<VecDeque<Script>>,
    requests: Mutex<Vec<ModelRequest>>,
}

/// The steps of one call, in order.
pub type Script = Vec<ScriptStep>;

#[derive(Debug, Clone)]
pub enum ScriptStep {
    Emit(ModelEvent),
    Fail(ModelError),
    /// Blocks the stream until a permit is available.
    Wait(Arc<Semaphore>),
}

impl ScriptedModel {
    pub fn new(scripts: impl IntoIterator<Item = Script>) -> Arc<Self> {
        Arc::new(Self { scripts: Mutex::new(scripts.into_iter().collect()), requests: Mutex::default() })
    }

    pub fn push(&self, script: Script) {
        self.scripts.lock().unwrap_or_else(PoisonError::into_inner).push_back(script);
    }

    /// Every request so far, as the model received it.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// An answer of text chunks, with usage.
pub fn say(pieces: &[&str], input: u64, output: u64) -> Script {
    let mut script = vec![answering()];
    script.extend(pieces.iter().map(|piece| ScriptStep::Emit(ModelEvent::Text((*piece).to_owned()))));
    script.push(ScriptStep::Emit(ModelEvent::Usage(TokenCount { input, output })));
    script.push(ScriptStep::Emit(ModelEvent::Stop(StopReason::EndOfTurn)));
    script
}

/// An answer that calls tools.
pub fn call(calls: &[(&str, Value)], input: u64, output: u64) -> Script {
    let mut script = vec![answering()];
    script.extend(calls.iter().enumerate().map(|(index, (name, arguments))| {
        let input = ToolInput::Json(Arc::new(arguments.clone()));
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        ScriptStep::Emit(ModelEvent::ToolCall {
            index,
            id: format!("provider-{index}").into(),
            name: (*name).into(),
            input,
        })
    }));
    script.push(ScriptStep::Emit(ModelEvent::Usage(TokenCount { input, output })));
    script.push(ScriptStep::Emit(ModelEvent::Stop(StopReason::ToolCalls)));
    script
}

pub fn answering() -> ScriptStep {
    ScriptStep::Emit(ModelEvent::ModelSelected { provider: "scripted".into(), model: "script-1".into() })
}

impl ModelProvider for ScriptedModel {
    fn name(&self) -> &str {
        "scripted"
    }

    fn check(&self) -> Result<(), ModelError> {
        Ok(())
    }

    fn stream(
        &self,
        request: ModelRequest,
        _stop: CancellationToken,
    ) -> BoxFuture<'_, Result<BoxStream<Result<ModelEvent, ModelError>>, ModelError>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        let script = self.scripts.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let script = script.unwrap_or_else(|| say(&["ok"], 1, 1));
        let steps = stream::iter(script).filter_map(|step| async move {
            match step {
                ScriptStep::Emit(event) => Some(Ok(event)),
                ScriptStep::Fail(error) => Some(Err(error)),
                ScriptStep::Wait(gate) => {
                    // A closed semaphore never blocks again.
                    if let Ok(permit) = gate.acquire().await {
                        permit.forget();
                    }
                    None
                }
            }
        });
        let stream: BoxStream<_> = Box::pin(steps);
        Box::pin(std::future::ready(Ok(stream)))
    }
}

/// Starts at a fixed time and changes only by `advance_seconds`.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl Default for ManualClock {
    fn default() -> Self {
        // 2026-11-15T12:00:00Z
        Self(AtomicI64::new(1_794_744_000))
    }
}

impl ManualClock {
    pub fn advance_seconds(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.0.load(Ordering::SeqCst)).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

/// 1, 2, 3 … as UUIDs.
#[derive(Debug, Default)]
pub struct CountingIds(AtomicU64);

impl CountingIds {
    /// For a second process on the same store.
    pub fn starting_at(first: u64) -> Self {
        Self(AtomicU64::new(first))
    }
}

impl IdGenerator for CountingIds {
    fn next(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.0.fetch_add(1, Ordering::SeqCst) + 1))
    }
}

/// Accepts all arguments.
#[derive(Debug)]
pub struct AcceptAnyArguments;

impl SchemaValidator for AcceptAnyArguments {
    fn check(&self, _schema: &Arc<Value>, _arguments: &Value) -> Result<(), SchemaViolation> {
        Ok(())
    }
}

/// The same soul for every agent, or none.
#[derive(Debug, Default)]
pub struct FixedSoul(pub Option<Arc<str>>);

impl SoulSource for FixedSoul {
    fn soul(&self, _agent: &str) -> Option<Arc<str>> {
        self.0.clone()
    }
}

/// Accepts every folder name.
#[derive(Debug)]
pub struct AcceptAnyFolder;

impl WorkingFolders for AcceptAnyFolder {
    fn grant<'a>(&'a self, named: &'a str) -> BoxFuture<'a, Result<GrantedFolder, String>> {
        let path = Arc::from(Path::new(named));
        Box::pin(std::future::ready(Ok(GrantedFolder { path, grant: Some(FolderGrant::new((), false)) })))
    }

    fn resolve<'a>(&'a self, named: Option<&'a str>) -> BoxFuture<'a, Result<Arc<Path>, String>> {
        Box::pin(std::future::ready(Ok(Arc::from(Path::new(named.unwrap_or("/work"))))))
    }

    fn documents<'a>(&'a self, _folder: &'a Path) -> BoxFuture<'a, FolderDocuments> {
        Box::pin(std::future::ready(FolderDocuments::default()))
    }
}

/// Tools whose output is a function of their arguments.
#[derive(Debug)]
pub struct ScriptedTools {
    pub specs: Arc<[ToolSpec]>,
    pub answer: fn(&str, &Value) -> ToolOutput,
}

impl ToolHost for ScriptedTools {
    fn kind(&self) -> ToolKind {
        ToolKind::BuiltIn
    }

    fn tools(&self, _folder: Option<&std::path::Path>) -> Arc<[ToolSpec]> {
        self.specs.clone()
    }

    fn call<'a>(
        &'a self,
        _scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        _stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(std::future::ready((self.answer)(&call.name, arguments)))
    }
}
