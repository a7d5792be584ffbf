//! The sections of `patchboard.toml`, one file each.
//!
//! A doc comment on a key is its description in the schema, the sample file and
//! the reference, so it speaks to the operator. Every struct refuses unknown
//! keys and has defaults; keys that cannot have one are named in `required`.

pub(crate) mod agents;
pub(crate) mod bindings;
pub(crate) mod bridge;
pub(crate) mod budgets;
pub(crate) mod channels;
pub(crate) mod gateway;
pub(crate) mod hub;
pub(crate) mod limits;
pub(crate) mod local_model;
pub(crate) mod log;
pub(crate) mod mcp;
pub(crate) mod memory;
pub(crate) mod notifications;
pub(crate) mod plugins;
pub(crate) mod prices;
pub(crate) mod providers;
pub(crate) mod reasoning;
pub(crate) mod runs;
pub(crate) mod storage;
pub(crate) mod telemetry;
pub(crate) mod tools;
pub(crate) mod wasm;
pub(crate) mod workers;

#[cfg(test)]
mod tests;

pub(crate) use agents::{AgentConfig, default_context_window};
pub(crate) use bindings::BindingConfig;
pub(crate) use bridge::{BridgeConfig, TlsConfig};
pub(crate) use budgets::BudgetsConfig;
pub(crate) use channels::{ChannelConfig, ChannelRateLimitConfig, ReplyMode, WebhookVerification};
pub(crate) use gateway::{GatewayConfig, RateLimitConfig};
pub(crate) use hub::{HubConfig, HubRuleConfig, PairingPolicy, RoutingPolicy};
pub(crate) use limits::LimitsConfig;
pub(crate) use local_model::{LocalModelConfig, LocalModelUse};
pub(crate) use log::{LogConfig, LogFormat};
pub(crate) use mcp::McpConfig;
pub(crate) use memory::{MemoryConfig, ProviderModelConfig};
pub(crate) use notifications::{NotificationsConfig, NtfyConfig, WebhookConfig};
pub(crate) use plugins::PluginConfig;
pub(crate) use prices::{BUILT_IN_PRICES, PriceConfig};
pub(crate) use providers::{ProviderConfig, ProviderKind};
pub(crate) use reasoning::{GotConfig, TotConfig};
pub(crate) use runs::RunsConfig;
pub(crate) use storage::{RetentionConfig, StorageConfig};
pub(crate) use telemetry::TelemetryConfig;
pub(crate) use tools::{BashConfig, SearchConfig, SearchKind, ToolApproval, ToolsConfig};
pub(crate) use wasm::WasmConfig;
pub(crate) use workers::{SessionAffinity, UnregisteredToolPolicy, WorkerConfig};
