//! What the catalogue needs of a loaded plugin, and of whatever loads one. The rules of the life of plugins are tested
//! without any WebAssembly.

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

/// One version of a plugin, as it was read from its file. Whoever holds it can call it to the end, whatever takes over.
pub(super) trait PluginVersion: Send + Sync + fmt::Debug {
    /// Of its file, in lower-case hex.
    fn sha256(&self) -> &Arc<str>;
    fn imports(&self) -> &BTreeSet<Arc<str>>;
    fn tools(&self) -> &Arc<[ToolSpec]>;
    fn has_tools(&self) -> bool;
    fn has_channel(&self) -> bool;
    /// Calls, and those that broke.
    fn counts(&self) -> (u64, u64);

    /// `tool` is the tool's own name.
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

/// Makes a version of a file's content.
pub(super) trait VersionLoader: Send + Sync + fmt::Debug {
    /// `Err` is a sentence for the operator.
    fn load(&self, options: PluginOptions, bytes: Bytes) -> BoxFuture<'_, Result<Arc<dyn PluginVersion>, String>>;
}
