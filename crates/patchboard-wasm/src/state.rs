//! What belongs to one call: everything a guest can touch, gone with the call.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use patchboard_core::plugin::HostFunctions;
use tokio_util::sync::CancellationToken;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use crate::engine::{Pace, Share, Turn};
use crate::home::FromHome;
use crate::imports::Asked;
use crate::limiter::Limiter;
use crate::rights::{PluginLimits, Rights};

mod stdio;

pub(crate) use stdio::Tail;

/// Lines of one call in the server's log.
pub(crate) const LOG_LINES: u32 = 100;
/// Bytes of one `wasi:random` call; a guest that asks for more breaks.
const RANDOM_BYTES: u64 = 1024 * 1024;
/// Streams, pollables and the like that one call may hold at once; the next one breaks it.
const RESOURCES: usize = 10_000;

pub(crate) struct CallState {
    pub(crate) wasi: WasiCtx,
    pub(crate) table: ResourceTable,
    pub(crate) limiter: Limiter,
    pub(crate) rights: Arc<Rights>,
    /// `None` where nobody is there to call them for: `describe`, channel adapters.
    pub(crate) functions: Option<Arc<dyn HostFunctions>>,
    pub(crate) started: Instant,
    pub(crate) deadline: Instant,
    pub(crate) stop: CancellationToken,
    /// Lines it may still write to the log, and how many it wrote beyond that.
    pub(crate) log_lines_left: u32,
    pub(crate) log_lines_dropped: u32,
    /// What it has asked of the host so far.
    pub(crate) asked: Asked,
    /// What it wrote to standard output and standard error.
    pub(crate) printed: Tail,
    pub(crate) complained: Tail,
    turn: Turn,
}

/// Who a call works for.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) rights: Arc<Rights>,
    pub(crate) functions: Option<Arc<dyn HostFunctions>>,
    pub(crate) stop: CancellationToken,
    /// Its plugin's, of the places there are.
    pub(crate) share: Share,
    /// Of its plugin.
    pub(crate) pace: Arc<Pace>,
    /// The server's own threads.
    pub(crate) home: tokio::runtime::Handle,
}

impl CallState {
    pub(crate) fn new(caller: Caller, limits: &PluginLimits, turn: Turn) -> Self {
        let (printed, complained) = (Tail::default(), Tail::default());
        let started = Instant::now();
        let functions = caller.functions.map(|functions| FromHome::functions(functions, caller.home));
        let mut table = ResourceTable::new();
        table.set_max_capacity(RESOURCES);
        Self {
            wasi: nothing(&printed, &complained),
            table,
            limiter: Limiter::new(limits.memory),
            rights: caller.rights,
            functions,
            started,
            deadline: started + limits.time,
            stop: caller.stop,
            log_lines_left: LOG_LINES,
            log_lines_dropped: 0,
            asked: Asked::default(),
            printed,
            complained,
            turn,
        }
    }

    /// Waits for something that may itself need a plugin's turn, such as another tool.
    pub(crate) async fn step_aside<T>(&mut self, work: impl Future<Output = T>) -> T {
        self.turn.step_aside(work).await
    }
}

/// A WASI with nothing in it: no arguments, variables, folders, network or input. What is written ends in the log.
fn nothing(printed: &Tail, complained: &Tail) -> WasiCtx {
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
