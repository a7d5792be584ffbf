//! Compiles a file to a callable component, or explains why it cannot be used.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use wasmtime::component::{Component, InstancePre};

use crate::machine::PluginMachine;
use crate::state::CallState;
use crate::telemetry;
use crate::text::format_size;
use crate::world::exports::patchboard::plugin::{channel, tools};

mod file_kind;
mod interfaces;

/// Larger files are refused unread.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Why a file cannot be a plugin, for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginFileError {
    reason: String,
    hint: Option<&'static str>,
}

impl PluginFileError {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }

    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// What the operator can do about it.
    pub fn advice(&self) -> Option<&'static str> {
        self.hint
    }
}

impl fmt::Display for PluginFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        match self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for PluginFileError {}

/// A component with all imports resolved, ready to be instantiated.
#[derive(Clone)]
pub(crate) struct CompiledPlugin {
    pub(crate) pre: InstancePre<CallState>,
    pub(crate) tools: Option<tools::GuestIndices>,
    pub(crate) channel: Option<channel::GuestIndices>,
    /// In lower-case hex.
    pub(crate) sha256: Arc<str>,
    pub(crate) size: usize,
    /// Short names of the imported `patchboard:plugin` interfaces.
    pub(crate) imports: BTreeSet<Arc<str>>,
    /// Full names of the imported WASI interfaces, which have no function.
    pub(crate) wasi: Vec<String>,
    pub(crate) compile_time: Duration,
    pub(crate) from_cache: bool,
}

impl fmt::Debug for CompiledPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledPlugin")
            .field("sha256", &self.sha256)
            .field("imports", &self.imports)
            .finish_non_exhaustive()
    }
}

impl PluginMachine {
    /// Compiles on the plugin threads, or takes the code from the cache. `only` is the required SHA-256.
    pub(crate) async fn compile(
        &self,
        bytes: Bytes,
        only: Option<[u8; 32]>,
    ) -> Result<CompiledPlugin, PluginFileError> {
        let machine = self.clone();
        let compiling = self.threads().spawn_blocking(move || compile(&machine, &bytes, only));
        compiling.await.unwrap_or_else(|error| Err(PluginFileError::new(format!("could not be compiled: {error}"))))
    }
}

fn compile(machine: &PluginMachine, bytes: &[u8], only: Option<[u8; 32]>) -> Result<CompiledPlugin, PluginFileError> {
    if bytes.len() > MAX_BYTES {
        return Err(PluginFileError::new(format!("is larger than {}", format_size(MAX_BYTES))));
    }
    let hash: [u8; 32] = Sha256::digest(bytes).into();
    if only.is_some_and(|only| only != hash) {
        return Err(PluginFileError::new(format!(
            "is another file than the one that is pinned: its sha256 is {}",
            hex::encode(hash)
        ))
        .hint("write its hash under `sha256` if it is the right one"));
    }
    file_kind::check(bytes)?;
    let began = Instant::now();
    let cached = machine.cache().and_then(|cache| cache.get(machine.engine(), &hash));
    let from_cache = cached.is_some();
    let component = match cached {
        Some(component) => component,
        None => {
            let component = Component::from_binary(machine.engine(), bytes).map_err(|error| invalid(&error))?;
            if let Some(cache) = machine.cache() {
                cache.put(&hash, &component);
            }
            component
        }
    };
    telemetry::compiled(from_cache);
    let compile_time = began.elapsed();

    let shape = component.component_type();
    let imports: Vec<&str> = shape.imports(machine.engine()).map(|(name, _)| name).collect();
    let exports: Vec<&str> = shape.exports(machine.engine()).map(|(name, _)| name).collect();
    let names = interfaces::check(&imports, &exports)?;
    let pre = machine.linker().instantiate_pre(&component).map_err(|error| {
        PluginFileError::new(format!("imports something that has another shape here: {}", one_line_error(&error)))
            .hint("build it against the wit folder of this server's version")
    })?;
    let shape = |error: wasmtime::Error| {
        PluginFileError::new(format!("exports something of another shape: {}", one_line_error(&error)))
    };
    Ok(CompiledPlugin {
        tools: names.tools.then(|| tools::GuestIndices::new(&pre)).transpose().map_err(shape)?,
        channel: names.channel.then(|| channel::GuestIndices::new(&pre)).transpose().map_err(shape)?,
        pre,
        sha256: hex::encode(hash).into(),
        size: bytes.len(),
        imports: names.imports,
        wasi: names.wasi,
        compile_time,
        from_cache,
    })
}

fn invalid(error: &wasmtime::Error) -> PluginFileError {
    let reason = one_line_error(error);
    // The compiler also rejects memories and instances beyond the pool's limits.
    match reason.contains("exceeds the limit") || reason.contains("exceeds the maximum") {
        true => PluginFileError::new(format!("needs more than plugins are given: {reason}")),
        false => PluginFileError::new(format!("is not a valid component: {reason}")).hint("is the file complete?"),
    }
}

/// An error and its causes on one line.
pub(crate) fn one_line_error(error: &wasmtime::Error) -> String {
    let whole = format!("{error:#}");
    whole.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
