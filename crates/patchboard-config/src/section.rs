//! The sections of `patchboard.toml`, one file each.
//!
//! The doc comment of a key is its description in the schema, the sample file and the reference, so it addresses the
//! operator. Every struct rejects unknown keys and has defaults; keys without a default are listed in `required`.

pub(crate) mod agents;
pub(crate) mod bindings;
pub mod bridge;
pub(crate) mod budgets;
pub(crate) mod channels;
pub(crate) mod gateway;
pub(crate) mod hub;
pub(crate) mod keys;
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

pub use agents::{AgentConfig, default_context_window};
pub use bindings::BindingConfig;
pub use bridge::{BridgeConfig, TlsConfig};
pub use budgets::BudgetsConfig;
pub use channels::{ChannelConfig, ReplyMode, WebhookRateConfig, WebhookVerification};
pub use gateway::{GatewayConfig, RateLimitConfig};
pub use hub::{HubConfig, PairingPolicy, RoutingPolicy, RoutingRuleConfig};
pub use keys::{KeyBudgetConfig, KeyConfig, KeySurface};
pub use limits::LimitsConfig;
pub use local_model::{LocalModelConfig, LocalModelUse};
pub use log::{LogConfig, LogFormat};
pub use mcp::McpConfig;
pub use memory::{MemoryConfig, ProviderModelConfig};
pub use notifications::{NotificationsConfig, NtfyConfig, WebhookConfig};
pub use plugins::PluginConfig;
pub use prices::{BUILT_IN_PRICES, PriceConfig};
pub use providers::{ProviderConfig, ProviderKind};
pub use reasoning::{GotConfig, TotConfig};
pub use runs::RunsConfig;
pub use storage::{RetentionConfig, StorageConfig};
pub use telemetry::TelemetryConfig;
pub use tools::{BashConfig, SearchConfig, SearchKind, ToolApproval, ToolsConfig};
pub use wasm::WasmConfig;
pub use workers::{SessionAffinity, UnregisteredToolPolicy, WorkerConfig};
