//! Reloads the configuration while the server runs: first every step that can fail, then all changes at once.
//!
//! One task owns the state, so reloads run one after the other. The rules of trust are those of the start: a file that
//! an agent may have changed is used with its trusted content.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use patchboard_config::key_path::KeyPath;
use patchboard_config::reload::{self, MergedConfig, ReloadClass, class_of, secret_changes};
use patchboard_config::{Config, LoadRequest, LoadedConfig, Secrets};
use patchboard_core::board::{BoardSettings, FileKeyChange};
use patchboard_core::port::ServerControl;
use patchboard_core::reply::ReloadReport;
use patchboard_core::{Board, BoardError};
use patchboard_http::ClientPool;
use patchboard_local_model::{self as local_model, ManagedServer};
use patchboard_surfaces::bridge::ReloadableTls;
use patchboard_surfaces::limit::LiveLimits;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::bridge::{CertificateState, read_certificates};
use super::client_limits;
use crate::assemble::{self, LiveEmbedder};
use crate::effective_config::EffectiveConfig;
use crate::output;
use crate::telemetry::{LogControl, LogFilter};
use crate::trust::TrustedReader;
use crate::trust::guarded_files::trust_store;

/// Queued reloads; further callers wait for a slot.
const MAX_QUEUED_RELOADS: usize = 16;

/// What the server started from, and what of it can be changed.
#[derive(Debug)]
pub(crate) struct ReloadSource {
    pub(crate) request: LoadRequest,
    /// As configured, before a default provider was chosen.
    pub(crate) loaded: LoadedConfig,
    pub(crate) secrets: Secrets,
    pub(crate) logs: LogControl,
    pub(crate) local_model: Option<Arc<ManagedServer>>,
    /// `--local-model`: agents without a provider use it, even if another one is available.
    pub(crate) always_local: bool,
}

/// Parts of the running server that a reload replaces.
#[derive(Debug)]
pub(super) struct LiveParts {
    pub(super) board: Board,
    pub(super) pool: ClientPool,
    pub(super) tls: Option<LiveTls>,
    pub(super) embedder: Option<Arc<LiveEmbedder>>,
    pub(super) clients: LiveLimits,
}

/// The bridge's certificates and the digest of their files.
#[derive(Debug, Clone)]
pub(super) struct LiveTls {
    pub(super) tls: ReloadableTls,
    pub(super) digest: [u8; 32],
}

type ReportSender = oneshot::Sender<ReloadReport>;

/// Sends requests to the reload task.
#[derive(Debug)]
pub(super) struct ReloadHandle(mpsc::Sender<ReportSender>);

impl ServerControl for ReloadHandle {
    fn reload(&self) -> BoxFuture<'_, Result<ReloadReport, BoardError>> {
        async {
            let (reply, answer) = oneshot::channel();
            self.0.send(reply).await.map_err(|_| BoardError::shutting_down())?;
            answer.await.map_err(|_| BoardError::shutting_down())
        }
        .boxed()
    }
}

/// Spawns the task that serves reloads until `stop`.
pub(super) fn start(
    source: ReloadSource,
    parts: LiveParts,
    background: &TaskTracker,
    stop: &CancellationToken,
) -> Arc<ReloadHandle> {
    let (sender, mut receiver) = mpsc::channel::<ReportSender>(MAX_QUEUED_RELOADS);
    let reader = TrustedReader { store: trust_store(&source.loaded) };
    let mut reloader = ReloadTask { source, parts, reader, background: background.clone(), stop: stop.clone() };
    background.spawn(async move {
        loop {
            let reply = tokio::select! {
                biased;
                () = reloader.stop.cancelled() => return,
                reply = receiver.recv() => reply,
            };
            let Some(reply) = reply else { return };
            let report = reloader.reload().await;
            // The caller may have disconnected; the outcome is logged.
            drop(reply.send(report));
        }
    });
    Arc::new(ReloadHandle(sender))
}

struct ReloadTask {
    source: ReloadSource,
    parts: LiveParts,
    reader: TrustedReader,
    background: TaskTracker,
    stop: CancellationToken,
}

/// All results of a reload's fallible steps.
struct PreparedReload {
    /// As configured, limited to the changes that are applied.
    configured: LoadedConfig,
    configured_secrets: Secrets,
    /// With the provider that was chosen where none is configured.
    effective: EffectiveConfig,
    settings: BoardSettings,
    keys: FileKeyChange,
    filter: LogFilter,
    tls: Option<LiveTls>,
    embedder: Option<patchboard_providers::HttpEmbedder>,
    report: ReloadReport,
}

impl ReloadTask {
    async fn reload(&mut self) -> ReloadReport {
        let prepared = match self.prepare().await {
            Ok(prepared) => prepared,
            Err(problems) => {
                tracing::error!("the new configuration is not applied: {}", problems.join("; ").replace('\n', " "));
                let problems = problems.into_iter().map(Into::into).collect();
                return ReloadReport { problems, ..ReloadReport::default() };
            }
        };
        let report = self.apply(prepared);
        let list = |keys: &[Arc<str>]| if keys.is_empty() { "nothing".to_owned() } else { keys.join(", ") };
        let (changed, waits) = (list(&report.changed), list(&report.needs_restart));
        tracing::info!("the configuration was reloaded; changed: {changed}; needs a restart: {waits}");
        report
    }

    /// Runs every fallible step. Changes nothing.
    async fn prepare(&self) -> Result<PreparedReload, Vec<String>> {
        let request = self.source.request.clone();
        let loading = tokio::task::spawn_blocking(move || Config::load_for_start(request)).await;
        let loaded = loading.map_err(|_| vec!["reading the configuration failed: internal error".to_owned()])?;
        let (mut configured, secrets) =
            loaded.map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        let merged = self.merge_with_running(&configured)?;
        let configured_secrets = self.merged_secrets(&merged, &secrets);
        let mut report = self.reload_report(
            &merged,
            &Secrets {
                provider_keys: configured_secrets.provider_keys.clone(),
                key_secrets: configured_secrets.key_secrets.clone(),
                ..secrets
            },
        );
        report.notes = configured.warnings.iter().map(|warning| warning.to_string().into()).collect();
        configured.config = merged.config;
        let mut effective = EffectiveConfig::new(configured.clone(), configured_secrets.clone());
        let chosen = self.choose_provider(&mut effective).await?;
        report.notes.extend(chosen.map(Into::into));
        let cannot = |error: anyhow::Error| vec![format!("{error:#}")];
        let settings = assemble::settings(&effective, &self.parts.pool).map_err(cannot)?;
        let embedder = match &self.parts.embedder {
            Some(_) => assemble::http_embedder(&effective, &self.parts.pool).map_err(cannot)?,
            None => None,
        };
        let filter = LogFilter::parse(&effective.loaded.config.log.directives(&effective.loaded.env))
            .map_err(|error| vec![error])?;
        let tls = self.certificates(&effective.loaded, &mut report)?;
        let keys = assemble::keys::file_keys(&effective.loaded.config, &effective.secrets);
        let keys = self.parts.board.prepare_file_keys(keys).await;
        let keys = keys.map_err(|clash| {
            let hint = "rename it in `[[keys]]`, or revoke the created one with `patchboard keys revoke`";
            vec![format!("error[PB0207] {clash}\n  hint: {hint}")]
        })?;
        Ok(PreparedReload { configured, configured_secrets, effective, settings, keys, filter, tls, embedder, report })
    }

    fn merge_with_running(&self, new: &LoadedConfig) -> Result<MergedConfig, Vec<String>> {
        let old = &self.source.loaded;
        let known_files = old.config.secret_files();
        let mut closed: Vec<PathBuf> = old.folders.credentials_dir().into_iter().collect();
        closed.push(old.config.data_dir.clone());
        let is_protected = |path: &std::path::Path| reload::is_protected(path, &known_files, &closed);
        let merged = reload::merge(&old.config, &new.config, &is_protected);
        let merged = merged.map_err(|error| vec![format!("{:#}", anyhow::Error::from(error))])?;
        let broken = merged.errors_from_deferred_keys(&new.config);
        if broken.is_empty() {
            return Ok(merged);
        }
        let waiting: Vec<String> = merged.needs_restart.iter().map(ToString::to_string).collect();
        let hint = format!("it goes with changes that need a restart: {}", waiting.join(", "));
        Err(broken.into_iter().map(|problem| format!("{problem}\n  hint: {hint}")).collect())
    }

    /// New keys for providers whose changes are applied and new secrets of clients' keys, the previous secrets for
    /// everything else. If a key file waits
    /// for trust it is not read, and the provider keeps its previous key.
    fn merged_secrets(&self, merged: &MergedConfig, new: &Secrets) -> Secrets {
        let (old, before) = (&self.source.secrets, &self.source.loaded.config.providers);
        let keys = merged.config.providers.iter().filter_map(|(name, provider)| {
            let is_the_same = before.get(name).is_some_and(|before| before == provider) && provider.api_key.is_some();
            let previous_key = || old.provider_keys.get(name).filter(|_| is_the_same);
            let key = match merged.applies_provider(name) {
                true => new.provider_keys.get(name).or_else(previous_key),
                false => old.provider_keys.get(name),
            };
            Some((name.clone(), key?.clone()))
        });
        let key_secrets = match merged.needs_restart.contains(&KeyPath::dotted("keys")) {
            true => old.key_secrets.clone(),
            false => new.key_secrets.clone(),
        };
        Secrets { provider_keys: keys.collect(), key_secrets, ..old.clone() }
    }

    fn reload_report(&self, merged: &MergedConfig, new: &Secrets) -> ReloadReport {
        let (mut changed, mut needs_restart) = (merged.changed.clone(), merged.needs_restart.clone());
        for path in secret_changes(&self.source.secrets, new) {
            // Reported already, by itself or with its table.
            if changed.iter().chain(&needs_restart).any(|reported| reported.is_related_to(&path)) {
                continue;
            }
            match class_of(&path) {
                ReloadClass::Live => changed.push(path),
                ReloadClass::Content | ReloadClass::Restart => needs_restart.push(path),
            }
        }
        let texts = |keys: Vec<KeyPath>| keys.into_iter().map(|key| key.to_string().into()).collect();
        ReloadReport { changed: texts(changed), needs_restart: texts(needs_restart), ..ReloadReport::default() }
    }

    /// Chooses a provider as at the start. Returns its description if none is configured.
    async fn choose_provider(&self, effective: &mut EffectiveConfig) -> Result<Option<String>, Vec<String>> {
        let running = self.source.local_model.clone();
        if let Some(server) = running.clone().filter(|_| self.source.always_local) {
            effective.adopt(server);
            return Ok(None);
        }
        let chosen = effective.ensure_provider(running, &self.stop, &self.background).await;
        chosen.map_err(|error| vec![failure_text(error)])
    }

    /// Certificates that changed; `None` if they stay the same.
    fn certificates(
        &self,
        effective: &LoadedConfig,
        report: &mut ReloadReport,
    ) -> Result<Option<LiveTls>, Vec<String>> {
        let (Some(live), Some(config)) = (&self.parts.tls, &effective.config.bridge.tls) else { return Ok(None) };
        match read_certificates(config, &self.reader).map_err(|error| vec![format!("bridge.tls: {error:#}")])? {
            CertificateState::Untrusted(reason) => {
                report.notes.push(format!("the bridge keeps its certificates: {reason}").into());
                Ok(None)
            }
            CertificateState::Ready(read) if read.digest == live.digest => Ok(None),
            CertificateState::Ready(read) => {
                report.changed.push("bridge.tls".into());
                Ok(Some(*read))
            }
        }
    }

    /// Applies the changes. No failure here leaves the settings half applied.
    fn apply(&mut self, prepared: PreparedReload) -> ReloadReport {
        let PreparedReload { configured, configured_secrets, effective, settings, filter, tls, .. } = prepared;
        let (embedder, keys, mut report) = (prepared.embedder, prepared.keys, prepared.report);
        // Before anything else, since later log lines may contain the new secrets.
        self.source.logs.redactor.add_secrets(effective.secrets.all());
        if let (Some(live), Some(read)) = (&mut self.parts.tls, tls) {
            match live.tls.replace(&read.tls) {
                Ok(()) => live.digest = read.digest,
                Err(error) => report.notes.push(format!("the bridge keeps its certificates: {error}").into()),
            }
        }
        if let (Some(live), Some(embedder)) = (&self.parts.embedder, embedder) {
            live.replace(embedder);
        }
        self.parts.board.apply_settings(settings);
        self.parts.board.apply_file_keys(keys);
        self.parts.clients.set(client_limits(&effective.loaded.config));
        if let Err(error) = self.source.logs.set_filter(filter) {
            report.notes.push(format!("the log filter stays as it was: {error}").into());
        }
        self.source.local_model = effective.local_model.or(self.source.local_model.take());
        self.source.loaded = configured;
        self.source.secrets = configured_secrets;
        report
    }
}

/// As a start of the server tells it; what the model server printed goes to standard error.
fn failure_text(error: local_model::Error) -> String {
    if let Some(lines) = error.output() {
        output::eprint_line(lines);
    }
    let hint = error.hint().map(|hint| format!("\n  hint: {hint}")).unwrap_or_default();
    format!("the local model cannot be started: {:#}{hint}", anyhow::Error::from(error))
}
