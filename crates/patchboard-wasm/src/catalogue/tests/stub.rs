//! Stub plugins without WebAssembly: a file is JSON that describes the plugin. And a directory for a server's plugins.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use patchboard_core::in_memory::InMemoryStore;
use patchboard_core::plugin::PluginState;
use patchboard_core::scripted::ManualClock;
use patchboard_core::tool::{ToolEffect, ToolKind, UnknownOutcomePolicy};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::super::*;
use crate::testing::{self, NoFunctions};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Script {
    imports: BTreeSet<Arc<str>>,
    /// Names and descriptions.
    tools: BTreeMap<String, String>,
    channel: bool,
    /// The file is refused.
    broken: Option<String>,
    /// Only to be another file.
    edition: u32,
}

#[derive(Debug)]
struct StubVersion {
    sha256: Arc<str>,
    script: Script,
    tools: Arc<[ToolSpec]>,
    /// Calls of `slow` wait for it.
    gate: Arc<Semaphore>,
    calls: AtomicU64,
    failures: AtomicU64,
}

/// Loads scripts, as many at once as it is let.
#[derive(Debug)]
pub(in super::super) struct StubLoader {
    /// Loads of scripts with an import `gate` wait for it.
    pub(in super::super) gate: Arc<Semaphore>,
    pub(in super::super) loads: AtomicUsize,
    at_once: AtomicUsize,
    pub(in super::super) most_at_once: AtomicUsize,
}

pub(in super::super) fn spec(name: &str, description: &str, effect: ToolEffect) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: description.into(),
        input_schema: Arc::new(json!({"type": "object"})),
        effect,
        unknown_outcome: UnknownOutcomePolicy::Ask,
        timeout: None,
        kind: ToolKind::Plugin,
        traits: None,
    }
}

pub(in super::super) fn version(content: &str, grants: &[PluginGrant]) -> Arc<dyn PluginVersion> {
    made(content.as_bytes(), grants, &Arc::new(Semaphore::new(0))).unwrap()
}

fn made(content: &[u8], grants: &[PluginGrant], gate: &Arc<Semaphore>) -> Result<Arc<dyn PluginVersion>, String> {
    let script: Script = serde_json::from_slice(content).map_err(|error| format!("it is no component: {error}"))?;
    if let Some(problem) = script.broken {
        return Err(problem);
    }
    let effect = if grants.is_empty() { ToolEffect::ReadOnly } else { ToolEffect::Writes };
    let tools = script.tools.iter().map(|(name, description)| spec(name, description, effect)).collect();
    let sha256 = hex::encode(Sha256::digest(content)).into();
    Ok(Arc::new(StubVersion {
        sha256,
        script,
        tools,
        gate: gate.clone(),
        calls: AtomicU64::new(0),
        failures: AtomicU64::new(0),
    }))
}

impl VersionLoader for StubLoader {
    fn load(&self, options: PluginOptions, bytes: Bytes) -> BoxFuture<'_, Result<Arc<dyn PluginVersion>, String>> {
        Box::pin(async move {
            self.loads.fetch_add(1, Ordering::SeqCst);
            let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_at_once.fetch_max(now, Ordering::SeqCst);
            let made = made(&bytes, &options.grants, &self.gate);
            if made.as_ref().is_ok_and(|version| version.imports().contains("gate")) {
                self.gate.acquire().await.unwrap().forget();
            }
            self.at_once.fetch_sub(1, Ordering::SeqCst);
            made
        })
    }
}

impl PluginVersion for StubVersion {
    fn sha256(&self) -> &Arc<str> {
        &self.sha256
    }

    fn imports(&self) -> &BTreeSet<Arc<str>> {
        &self.script.imports
    }

    fn tools(&self) -> &Arc<[ToolSpec]> {
        &self.tools
    }

    fn has_tools(&self) -> bool {
        !self.tools.is_empty()
    }

    fn has_channel(&self) -> bool {
        self.script.channel
    }

    fn counts(&self) -> (u64, u64) {
        (self.calls.load(Ordering::SeqCst), self.failures.load(Ordering::SeqCst))
    }

    fn call(
        self: Arc<Self>,
        tool: Arc<str>,
        call: PluginCall,
        _stop: CancellationToken,
    ) -> BoxFuture<'static, ToolOutput> {
        Box::pin(async move {
            if &*tool == "slow" {
                self.gate.acquire().await.unwrap().forget();
            }
            self.calls.fetch_add(1, Ordering::SeqCst);
            match &*tool {
                "fail" => {
                    self.failures.fetch_add(1, Ordering::SeqCst);
                    ToolOutput::error("it failed")
                }
                _ => ToolOutput::ok(format!("{tool} {} of edition {}", call.arguments, self.script.edition)),
            }
        })
    }

    fn parse_incoming(
        self: Arc<Self>,
        webhook: Webhook,
        _stop: CancellationToken,
    ) -> BoxFuture<'static, Result<ParsedWebhook, ChannelError>> {
        Box::pin(async move { Ok(ParsedWebhook::Ignore(webhook.query)) })
    }

    fn format_outgoing(
        self: Arc<Self>,
        reply: ChannelReply,
        _stop: CancellationToken,
    ) -> BoxFuture<'static, Result<FormattedReply, ChannelError>> {
        Box::pin(async move { Err(ChannelError::Failed(reply.content)) })
    }

    fn send(
        self: Arc<Self>,
        request: ChannelRequest,
        _stop: CancellationToken,
    ) -> BoxFuture<'static, Result<FetchResponse, FetchError>> {
        Box::pin(async move {
            Ok(FetchResponse {
                status: 200,
                url: request.url,
                headers: Vec::new(),
                body: Vec::new(),
                is_truncated: false,
            })
        })
    }
}

/// A server's files and store, which outlive the server.
pub(in super::super) struct Bench {
    pub(in super::super) root: tempfile::TempDir,
    pub(in super::super) store: Arc<InMemoryStore>,
    pub(in super::super) loader: Arc<StubLoader>,
    pub(in super::super) plugins: Vec<PluginOptions>,
    pub(in super::super) watch: bool,
    pub(in super::super) admit: FileAdmission,
}

impl Bench {
    pub(in super::super) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("plugins")).unwrap();
        let loader = StubLoader {
            gate: Arc::new(Semaphore::new(0)),
            loads: AtomicUsize::new(0),
            at_once: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
        };
        Self {
            root,
            store: Arc::default(),
            loader: Arc::new(loader),
            plugins: Vec::new(),
            watch: false,
            admit: Arc::new(|_, _| Ok(())),
        }
    }

    pub(in super::super) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Replaces a file atomically.
    pub(in super::super) fn put(&self, name: &str, content: &Value) {
        self.put_text(name, &content.to_string());
    }

    pub(in super::super) fn put_text(&self, name: &str, content: &str) {
        fs::write(self.path("new"), content).unwrap();
        fs::rename(self.path("new"), self.path(name)).unwrap();
    }

    pub(in super::super) fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    /// In the configuration, with the file `NAME.wasm`.
    pub(in super::super) fn configure(&mut self, name: &str, grants: &[&str]) -> &mut PluginOptions {
        let options = PluginOptions { file: self.path(&format!("{name}.wasm")), ..testing::options(name, grants) };
        self.plugins.retain(|known| known.name != options.name);
        self.plugins.push(options);
        self.plugins.last_mut().unwrap()
    }

    pub(in super::super) async fn start(&self) -> Arc<PluginHost> {
        let options = HostOptions {
            plugins: self.plugins.clone(),
            folder: Some(self.path("plugins")),
            sidecar: Arc::new(sidecar),
            admit: self.admit.clone(),
            cache: self.path("cache"),
            watch: self.watch,
            limits: PluginLimits::default(),
        };
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let clock = Arc::new(ManualClock::default());
        PluginHost::start_with(options, self.loader.clone(), self.store.clone(), clock, &tasks, &stop).await
    }
}

/// `grant GRANT` and `set KEY=VALUE`, one in a line.
fn sidecar(text: &str) -> Result<(Vec<PluginGrant>, BTreeMap<String, String>), String> {
    let mut grants = Vec::new();
    let mut settings = BTreeMap::new();
    for line in text.lines() {
        match (line.strip_prefix("grant "), line.strip_prefix("set ").and_then(|line| line.split_once('='))) {
            (Some(grant), _) => grants.push(grant.parse().map_err(|error| format!("{error}"))?),
            (None, Some((key, value))) => drop(settings.insert(key.to_owned(), value.to_owned())),
            (None, None) => return Err(format!("`{line}` is neither")),
        }
    }
    Ok((grants, settings))
}

impl PluginHost {
    pub(in super::super) fn report(&self, name: &str) -> PluginReport {
        self.list().into_iter().find(|report| &*report.name == name).unwrap()
    }

    pub(in super::super) fn state(&self, name: &str) -> PluginState {
        self.report(name).state
    }

    pub(in super::super) fn changes(&self, name: &str) -> Vec<Arc<str>> {
        self.report(name).changes
    }

    pub(in super::super) fn problem(&self, name: &str) -> Option<Arc<str>> {
        self.report(name).problem
    }

    /// As many looks as a change takes to be seen, and all that they begin.
    pub(in super::super) async fn look_twice(&self) {
        for _ in 0..2 {
            self.look_once().await;
        }
    }

    pub(in super::super) async fn look_once(&self) {
        for load in self.0.poll_files().await {
            drop(load.await.unwrap());
        }
    }

    pub(in super::super) async fn say(&self, tool: &str) -> String {
        let call = PluginCall { tool: tool.into(), arguments: "{}".into(), functions: Arc::new(NoFunctions) };
        let output = self.call(call, CancellationToken::new()).await;
        let fault = output.data.as_ref().and_then(|data| data.fault);
        match (output.is_error, fault) {
            (true, Some(fault)) => format!("{fault:?}: {}", output.content),
            (true, None) => format!("error: {}", output.content),
            (false, _) => output.content.to_string(),
        }
    }

    pub(in super::super) async fn ask_load(&self, named: &str) -> Result<PluginReport, PluginError> {
        self.load(named, CancellationToken::new()).await
    }
}
