//! Host functions that read the operator's settings for the plugin.

use crate::state::CallState;
use crate::world::patchboard::plugin::settings::Host;

impl Host for CallState {
    async fn get(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        self.begin_host_call().await?;
        Ok(self.rights.settings.get(&key).cloned())
    }

    async fn secrets(&mut self) -> wasmtime::Result<Vec<String>> {
        self.begin_host_call().await?;
        Ok(self.rights.secrets.keys().cloned().collect())
    }
}
