//! Host function for random bytes from the operating system.

use crate::state::CallState;
use crate::world::patchboard::plugin::random::Host;

const MAX_BYTES: usize = 64 * 1024;

impl Host for CallState {
    async fn bytes(&mut self, length: u32) -> wasmtime::Result<Vec<u8>> {
        self.begin_host_call().await?;
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(MAX_BYTES).min(MAX_BYTES)];
        getrandom::fill(&mut bytes)
            .map_err(|error| wasmtime::Error::msg(format!("the system gives no random bytes: {error}")))?;
        Ok(bytes)
    }
}
