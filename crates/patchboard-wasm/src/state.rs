//! What belongs to one call: everything a guest can touch, gone with the call.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use patchboard_core::plugin::HostFunctions;
use tokio_util::sync::CancellationToken;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use crate::engine::{CallPace, CallSlot, PluginQuota};
use crate::limiter::MemoryLimiter;
use crate::main_runtime::OnMainRuntime;
use crate::rights::{PluginLimits, PluginRights};

mod stdio;

pub(crate) use stdio::GuestOutputTail;

/// Lines of one call in the server's log.
pub(crate) const LOG_LINES: u32 = 100;
/// Bytes of one `wasi:random` call; a guest that asks for more breaks.
const RANDOM_BYTES: u64 = 1024 * 1024;
/// Streams, pollables and the like that one call may hold at once; the next one breaks it.
const RESOURCES: usize = 10_000;

pub(crate) struct CallState {
    pub(crate) wasi: WasiCtx,
    pub(crate) table: ResourceTable,
    pub(crate) limiter: MemoryLimiter,
    pub(crate) rights: Arc<PluginRights>,
    /// `None` where nobody is there to call them for: `describe`, channel adapters.
    pub(crate) functions: Option<Arc<dyn HostFunctions>>,
    pub(crate) started: Instant,
    pub(crate) deadline: Instant,
    pub(crate) stop: CancellationToken,
    /// Lines it may still write to the log, and how many it wrote beyond that.
    pub(crate) log_lines_left: u32,
    pub(crate) log_lines_dropped: u32,
    /// What it has asked of the host so far.
    pub(crate) host_calls: HostCallCounts,
    /// What it wrote to standard output and standard error.
    pub(crate) stdout: GuestOutputTail,
    pub(crate) stderr: GuestOutputTail,
    slot: CallSlot,
}

/// Who a call works for.
#[derive(Debug, Clone)]
pub(crate) struct GuestCall {
    pub(crate) rights: Arc<PluginRights>,
    pub(crate) functions: Option<Arc<dyn HostFunctions>>,
    pub(crate) stop: CancellationToken,
    /// Its plugin's, of the places there are.
    pub(crate) quota: PluginQuota,
    /// Of its plugin.
    pub(crate) pace: Arc<CallPace>,
    /// The server's own threads.
    pub(crate) main_runtime: tokio::runtime::Handle,
}

/// What one call has asked of the host so far.
#[derive(Debug, Default)]
pub(crate) struct HostCallCounts {
    pub(crate) calls: u32,
    pub(crate) requests: u32,
    /// What was refused and is in the log already.
    pub(crate) refused: BTreeSet<String>,
}

impl CallState {
    pub(crate) fn new(caller: GuestCall, limits: &PluginLimits, turn: CallSlot) -> Self {
        let (printed, complained) = (GuestOutputTail::default(), GuestOutputTail::default());
        let started = Instant::now();
        let functions = caller.functions.map(|functions| OnMainRuntime::functions(functions, caller.main_runtime));
        let mut table = ResourceTable::new();
        table.set_max_capacity(RESOURCES);
        Self {
            wasi: empty_wasi(&printed, &complained),
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
            stdout: printed,
            stderr: complained,
            slot: turn,
        }
    }

    /// Waits for something that may itself need a plugin's turn, such as another tool.
    pub(crate) async fn release_slot_while<T>(&mut self, work: impl Future<Output = T>) -> T {
        self.slot.release_while(work).await
    }
}

/// A WASI with nothing in it: no arguments, variables, folders, network or input. What is written ends in the log.
fn empty_wasi(printed: &GuestOutputTail, complained: &GuestOutputTail) -> WasiCtx {
    WasiCtxBuilder::new()
        .stdout(printed.clone())
        .stderr(complained.clone())
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
