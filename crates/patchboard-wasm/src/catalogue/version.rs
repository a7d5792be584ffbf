//! The catalogue's view of a loaded plugin and of its loader, so that the plugin life cycle is tested without
//! WebAssembly.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use patchboard_core::port::PluginCall;
use patchboard_core::port::{FetchError, FetchResponse};
use patchboard_core::tool::{ToolOutput, ToolSpec};
use patchboard_core::webhook::{ChannelError, ChannelReply, ChannelRequest, FormattedReply, ParsedWebhook, Webhook};
use tokio_util::sync::CancellationToken;

use crate::rights::PluginOptions;

/// One loaded version of a plugin. Every holder of a reference can complete its calls, even if another version has
/// replaced it.
pub(super) trait PluginVersion: Send + Sync + fmt::Debug {
    /// The SHA-256 of the file, in lower-case hex.
    fn sha256(&self) -> &Arc<str>;
    fn imports(&self) -> &BTreeSet<Arc<str>>;
    fn tools(&self) -> &Arc<[ToolSpec]>;
    fn has_tools(&self) -> bool;
    fn has_channel(&self) -> bool;
    /// Calls and failures.
    fn counts(&self) -> (u64, u64);

    /// `tool` is the plugin's own name for the tool.
    fn call(
        self: Arc<Self>,
        tool: Arc<str>,
        call: PluginCall,
        stop: CancellationToken,
    ) -> BoxFuture<'static, ToolOutput>;
    fn parse_incoming(
        self: Arc<Self>,
        webhook: Webhook,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<ParsedWebhook, ChannelError>>;
    fn format_outgoing(
        self: Arc<Self>,
        reply: ChannelReply,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<FormattedReply, ChannelError>>;
    fn send(
        self: Arc<Self>,
        request: ChannelRequest,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<FetchResponse, FetchError>>;
}

/// Loads a version from a file's content.
pub(super) trait VersionLoader: Send + Sync + fmt::Debug {
    /// `Err` is an error text for the operator.
    fn load(&self, options: PluginOptions, bytes: Bytes) -> BoxFuture<'_, Result<Arc<dyn PluginVersion>, String>>;
}
