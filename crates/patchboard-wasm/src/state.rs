//! The state of one call: everything a guest can access, dropped with the call.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use patchboard_core::port::HostFunctions;
use tokio_util::sync::CancellationToken;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use crate::engine::{CallPace, CallSlot, PluginQuota};
use crate::limiter::MemoryLimiter;
use crate::main_runtime::OnMainRuntime;
use crate::rights::{PluginLimits, PluginRights};

mod stdio;

pub(crate) use stdio::GuestOutputTail;

/// Log lines per call; further ones are dropped.
pub(crate) const LOG_LINES: u32 = 100;
/// Bytes per `wasi:random` call; a larger request traps.
const RANDOM_BYTES: u64 = 1024 * 1024;
/// Streams, pollables and other resources of one call; a further one traps.
const RESOURCES: usize = 10_000;

pub(crate) struct CallState {
    pub(crate) wasi: WasiCtx,
    pub(crate) table: ResourceTable,
    pub(crate) limiter: MemoryLimiter,
    pub(crate) rights: Arc<PluginRights>,
    /// `None` for calls without a tool caller: `describe`, channel adapters.
    pub(crate) functions: Option<Arc<dyn HostFunctions>>,
    pub(crate) started: Instant,
    pub(crate) deadline: Instant,
    pub(crate) stop: CancellationToken,
    /// Remaining log lines, and how many were dropped.
    pub(crate) log_lines_left: u32,
    pub(crate) log_lines_dropped: u32,
    /// Calls to host functions so far.
    pub(crate) host_calls: HostCallCounts,
    /// The end of standard output and standard error.
    pub(crate) stdout: GuestOutputTail,
    pub(crate) stderr: GuestOutputTail,
    slot: CallSlot,
}

/// The context of a call.
#[derive(Debug, Clone)]
pub(crate) struct GuestCall {
    pub(crate) rights: Arc<PluginRights>,
    pub(crate) functions: Option<Arc<dyn HostFunctions>>,
    pub(crate) stop: CancellationToken,
    /// The plugin's share of the work permits.
    pub(crate) quota: PluginQuota,
    /// The plugin's pace.
    pub(crate) pace: Arc<CallPace>,
    /// The server's main runtime.
    pub(crate) main_runtime: tokio::runtime::Handle,
}

/// The host calls of one call so far.
#[derive(Debug, Default)]
pub(crate) struct HostCallCounts {
    pub(crate) calls: u32,
    pub(crate) requests: u32,
    /// Refusals that are already logged.
    pub(crate) refused: BTreeSet<String>,
}

impl CallState {
    pub(crate) fn new(caller: GuestCall, limits: &PluginLimits, slot: CallSlot) -> Self {
        let (stdout, stderr) = (GuestOutputTail::default(), GuestOutputTail::default());
        let started = Instant::now();
        let functions = caller.functions.map(|functions| OnMainRuntime::functions(functions, caller.main_runtime));
        let mut table = ResourceTable::new();
        table.set_max_capacity(RESOURCES);
        Self {
            wasi: empty_wasi(&stdout, &stderr),
            table,
            limiter: MemoryLimiter::new(limits.memory),
            rights: caller.rights,
            functions,
            started,
            deadline: started + limits.time,
            stop: caller.stop,
            log_lines_left: LOG_LINES,
            log_lines_dropped: 0,
            host_calls: HostCallCounts::default(),
            stdout,
            stderr,
            slot,
        }
    }

    /// Waits for work that may itself need a plugin call, such as another tool; see `CallSlot::release_while`.
    pub(crate) async fn release_slot_while<T>(&mut self, work: impl Future<Output = T>) -> T {
        self.slot.release_while(work).await
    }
}

/// A WASI context without arguments, variables, folders, network or input. Output goes to the log.
fn empty_wasi(stdout: &GuestOutputTail, stderr: &GuestOutputTail) -> WasiCtx {
    WasiCtxBuilder::new()
        .stdout(stdout.clone())
        .stderr(stderr.clone())
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .max_random_size(RANDOM_BYTES)
        .build()
}

impl WasiView for CallState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl fmt::Debug for CallState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallState").field("plugin", &self.rights.plugin).finish_non_exhaustive()
    }
}
