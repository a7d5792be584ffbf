//! Host functions for time.

use crate::state::CallState;
use crate::world::patchboard::plugin::clock::Host;

impl Host for CallState {
    async fn now(&mut self) -> wasmtime::Result<u64> {
        self.begin_host_call().await?;
        Ok(self.rights.services.clock.now().as_millisecond().try_into().unwrap_or(0))
    }

    async fn monotonic(&mut self) -> wasmtime::Result<u64> {
        self.begin_host_call().await?;
        Ok(self.started.elapsed().as_nanos().try_into().unwrap_or(u64::MAX))
    }
}
