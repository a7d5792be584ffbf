//! wasmtime settings: how guests are compiled and where their memory comes from.

use std::num::NonZeroUsize;

use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::admission::ALIVE_PER_CALL;
use crate::limiter::{MAX_INSTANCES, MAX_TABLE_ELEMENTS};
use crate::rights::PluginLimits;

/// Stack for a guest's own calls; deeper recursion traps.
const GUEST_STACK: usize = 512 * 1024;
/// The guest's stack plus what the host needs on top of it.
const HOST_STACK: usize = 2 * 1024 * 1024;
const PAGE: usize = 64 * 1024;
/// Address space per memory: the whole 32-bit range, so that accesses need no bounds checks.
const MEMORY_RESERVATION: u64 = 4 << 30;
/// A component of one language has one memory; a composed one has several.
pub(crate) const MEMORIES: u32 = 2;
const TABLES: u32 = 4;
/// Bytes of a table that are cleared in place instead of unmapped.
const TABLE_RESIDENT_BYTES: usize = 16 * 1024;

/// Reserves address space for the memories of all concurrent calls; if that fails, memories are allocated per call.
pub(crate) fn engine(limits: &PluginLimits) -> wasmtime::Result<Engine> {
    let mut pooled = common();
    pooled.memory_reservation(MEMORY_RESERVATION);
    pooled.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(limits)));
    match Engine::new(&pooled) {
        Ok(engine) => Ok(engine),
        Err(error) => {
            tracing::warn!(error = %format!("{error:#}"), "reserving address space for plugin memories failed: calls are slower");
            Engine::new(&on_demand(limits))
        }
    }
}

/// Small reservations: where the pool does not fit, address space is scarce.
pub(crate) fn on_demand(limits: &PluginLimits) -> Config {
    let mut config = common();
    config.memory_reservation(limits.memory.next_multiple_of(PAGE) as u64);
    config.memory_reservation_for_growth(0);
    config.memory_guard_size(PAGE as u64);
    config
}

fn common() -> Config {
    let mut config = Config::new();
    config.wasm_component_model(true);
    config.wasm_relaxed_simd(false);
    config.wasm_memory64(false);
    config.wasm_tail_call(false);
    config.concurrency_support(false);
    config.consume_fuel(true);
    config.epoch_interruption(true);
    config.max_wasm_stack(GUEST_STACK);
    config.async_stack_size(HOST_STACK);
    config.memory_init_cow(true);
    // One frame is enough to tell whether the guest was running; the backtrace is not used otherwise.
    config.wasm_backtrace_max_frames(NonZeroUsize::new(1));
    config.generate_address_map(false);
    config.native_unwind_info(false);
    config
}

fn pool(limits: &PluginLimits) -> PoolingAllocationConfig {
    let calls = u32::try_from(limits.calls.saturating_mul(ALIVE_PER_CALL)).unwrap_or(u32::MAX).max(1);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(calls.saturating_mul(4));
    pool.total_core_instances(calls.saturating_mul(MAX_INSTANCES));
    pool.total_memories(calls.saturating_mul(MEMORIES));
    pool.total_tables(calls.saturating_mul(TABLES));
    pool.total_stacks(calls);
    pool.max_core_instances_per_component(MAX_INSTANCES);
    pool.max_memories_per_component(MEMORIES);
    pool.max_tables_per_component(TABLES);
    pool.max_component_instance_size(4 * 1024 * 1024);
    pool.max_core_instance_size(2 * 1024 * 1024);
    pool.max_memory_size(limits.memory.next_multiple_of(PAGE));
    pool.table_elements(MAX_TABLE_ELEMENTS);
    // Keeping a memory's lowest addresses resident would not help: they are the end of a stack that is rarely reached.
    pool.linear_memory_keep_resident(0);
    pool.table_keep_resident(TABLE_RESIDENT_BYTES);
    pool.max_unused_warm_slots(u32::try_from(limits.calls).unwrap_or(u32::MAX));
    pool
}
