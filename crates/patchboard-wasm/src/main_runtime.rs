//! Runs the host services of plugins on the server's main runtime: requests and runs started there must neither be
//! delayed by guests nor end with the plugin engine.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::port::HostFunctions;
use patchboard_core::port::{FetchError, FetchRequest, FetchResponse, HttpFetcher};
use patchboard_core::tool::{ToolFault, ToolOutput};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

#[derive(Debug)]
pub(crate) struct OnMainRuntime<T: ?Sized> {
    inner: Arc<T>,
    runtime: Handle,
}

impl OnMainRuntime<dyn HttpFetcher> {
    pub(crate) fn fetch(inner: Arc<dyn HttpFetcher>, runtime: Handle) -> Arc<dyn HttpFetcher> {
        Arc::new(Self { inner, runtime })
    }
}

impl HttpFetcher for OnMainRuntime<dyn HttpFetcher> {
    fn fetch(
        &self,
        request: FetchRequest,
        stop: CancellationToken,
    ) -> BoxFuture<'_, Result<FetchResponse, FetchError>> {
        let inner = self.inner.clone();
        let call = async move { inner.fetch(request, stop).await };
        let task = AbortOnDropHandle::new(self.runtime.spawn(call.in_current_span()));
        Box::pin(async move { task.await.unwrap_or_else(|error| Err(FetchError::Failed(error.to_string()))) })
    }
}

impl OnMainRuntime<dyn HostFunctions> {
    pub(crate) fn functions(inner: Arc<dyn HostFunctions>, runtime: Handle) -> Arc<dyn HostFunctions> {
        Arc::new(Self { inner, runtime })
    }
}

impl HostFunctions for OnMainRuntime<dyn HostFunctions> {
    fn call_id(&self) -> &str {
        self.inner.call_id()
    }

    fn call(&self, name: &str, arguments: Value, stop: CancellationToken) -> BoxFuture<'_, ToolOutput> {
        let (inner, name) = (self.inner.clone(), name.to_owned());
        let call = async move { inner.call(&name, arguments, stop).await };
        let task = AbortOnDropHandle::new(self.runtime.spawn(call.in_current_span()));
        Box::pin(
            async move { task.await.unwrap_or_else(|error| ToolOutput::fault(ToolFault::Internal, error.to_string())) },
        )
    }
}
