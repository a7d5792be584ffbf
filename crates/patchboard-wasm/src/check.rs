//! Checks a plugin file as loading would, without rights or lasting effects.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use patchboard_core::in_memory::InMemoryStore;
use patchboard_core::port::{Clock, FetchError, FetchRequest, FetchResponse, HttpFetcher};
use patchboard_core::tool::ToolSpec;
use tokio_util::sync::CancellationToken;

use crate::compile::PluginFileError;
use crate::machine::PluginMachine;
use crate::plugin::LoadedPlugin;
use crate::rights::{HostServices, PluginLimits, PluginOptions};

/// The properties of a valid plugin file.
#[derive(Debug, Clone)]
pub struct CheckedPlugin {
    /// In lower-case hex.
    pub sha256: Arc<str>,
    pub size: usize,
    /// Short names of the imported `patchboard:plugin` interfaces.
    pub imports: BTreeSet<Arc<str>>,
    /// Imported WASI interfaces, which are provided but empty.
    pub wasi: Vec<String>,
    pub tools: Arc<[ToolSpec]>,
    pub has_channel: bool,
    pub compile_time: Duration,
}

pub async fn check(
    bytes: Bytes,
    limits: PluginLimits,
    clock: Arc<dyn Clock>,
) -> Result<CheckedPlugin, PluginFileError> {
    let machine = PluginMachine::start(limits, None).map_err(PluginFileError::new)?;
    let options = PluginOptions {
        name: "being checked".into(),
        file: PathBuf::new(),
        grants: Vec::new(),
        settings: BTreeMap::new(),
        secrets: BTreeMap::new(),
        sha256: None,
    };
    let services = HostServices::new(Arc::new(NoFetch), Arc::new(InMemoryStore::new()), clock);
    let plugin = LoadedPlugin::load(&machine, &options, bytes, &services).await?;
    let compiled = plugin.compiled();
    Ok(CheckedPlugin {
        sha256: compiled.sha256.clone(),
        size: compiled.size,
        imports: compiled.imports.clone(),
        wasi: compiled.wasi.clone(),
        tools: plugin.tools().clone(),
        has_channel: plugin.has_channel(),
        compile_time: compiled.compile_time,
    })
}

#[derive(Debug)]
struct NoFetch;

impl HttpFetcher for NoFetch {
    fn fetch(
        &self,
        _request: FetchRequest,
        _stop: CancellationToken,
    ) -> BoxFuture<'_, Result<FetchResponse, FetchError>> {
        let refused = FetchError::Refused("nothing is fetched for a plugin that is only checked".to_owned());
        Box::pin(std::future::ready(Err(refused)))
    }
}
