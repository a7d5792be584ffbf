//! The whole configuration as plain data.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    section::{
        AgentConfig, BindingConfig, BridgeConfig, BudgetsConfig, ChannelConfig, GatewayConfig, HubConfig, KeyConfig,
        LimitsConfig, LocalModelConfig, LogConfig, McpConfig, MemoryConfig, NotificationsConfig, PluginConfig,
        PriceConfig, ProviderConfig, RunsConfig, StorageConfig, TelemetryConfig, ToolsConfig, WasmConfig, WorkerConfig,
    },
    types::{SystemUser, TimeSpan},
};

/// The whole configuration. After [`Config::load`] all paths are absolute, references between sections are valid, and
/// `agents.default` exists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "patchboard.toml", description = "Configuration of Patchboard.")]
pub struct Config {
    /// Folder for the database, plugins' stores and the record of the running server.
    #[schemars(extend("x-kind" = "path"))]
    pub data_dir: PathBuf,
    /// Allow a data folder that belongs to another user or to a group, as volumes of an orchestrator do: members of its
    /// group can then read and change its contents. Otherwise the folder must belong to this user, and is closed to all
    /// others.
    pub data_dir_group: bool,
    /// Users of this machine, by name or number, whose programs may connect where no token is required. The server's
    /// own user and root always may.
    #[schemars(example = ["www-data"])]
    pub trusted_users: Vec<SystemUser>,
    /// How long work in progress may continue after the server is told to stop.
    #[schemars(extend("x-zero" = true))]
    pub drain: TimeSpan,
    /// The chat gateway: WebSocket JSON-RPC, webhooks, metrics and the web console.
    pub gateway: GatewayConfig,
    /// Agent runs over WebSocket, with their events, tools and working folders.
    pub runs: RunsConfig,
    /// The hub: routes what a user says to the app it is meant for. Loopback only.
    pub hub: HubConfig,
    /// Where notices of apps and of the hub itself are shown, and how many.
    pub notifications: NotificationsConfig,
    /// The bridge: gRPC between tools, workers and other programs.
    pub bridge: BridgeConfig,
    /// Model providers by name. If none is configured, one is chosen from the environment, stored keys, local servers
    /// and the installed local model.
    #[schemars(extend("x-example-name" = "main"))]
    pub providers: BTreeMap<String, ProviderConfig>,
    /// The managed local model, if it is installed.
    pub local_model: LocalModelConfig,
    /// Agents by name. `default` always exists and answers chats that no binding matches.
    #[schemars(extend("x-example-name" = "default"))]
    pub agents: BTreeMap<String, AgentConfig>,
    /// Assigns chats to agents. A binding matches when all its fields do; among matching bindings, peer takes
    /// precedence over guild, guild over team, team over account and account over channel.
    pub bindings: Vec<BindingConfig>,
    /// Keys of clients, besides those that `patchboard keys create` makes.
    pub keys: Vec<KeyConfig>,
    /// Token limits of the whole server, input and output together. Left out means unlimited.
    pub budgets: BudgetsConfig,
    /// US dollars per million tokens by model pattern, for usage reports. Models that match no pattern have built-in
    /// prices.
    #[schemars(extend("x-example-name" = "llama*"))]
    pub prices: BTreeMap<String, PriceConfig>,
    /// The memory of agents, and how much of it is part of a prompt.
    pub memory: MemoryConfig,
    /// WebAssembly plugins: tools and channel adapters.
    pub plugins: Vec<PluginConfig>,
    /// The plugin host.
    pub wasm: WasmConfig,
    /// Channels by name: webhooks of external services, answered by agents.
    #[schemars(extend("x-example-name" = "hook"))]
    pub channels: BTreeMap<String, ChannelConfig>,
    /// Pools of bridge workers that the server starts, supervises and replaces.
    pub workers: Vec<WorkerConfig>,
    /// MCP servers by name; their tools are added to the registry. Each is a program with stdio transport (`command`)
    /// or an HTTP endpoint (`url`).
    #[schemars(extend("x-example-name" = "files"))]
    pub mcp: BTreeMap<String, McpConfig>,
    /// Permissions of tools, and when approval is required.
    pub tools: ToolsConfig,
    /// Where sessions, runs, facts, budgets and messages are stored.
    pub storage: StorageConfig,
    /// Limits that apply to all clients.
    pub limits: LimitsConfig,
    /// The log on standard error. Prompts, tool arguments and tokens are never logged at `info` or above.
    pub log: LogConfig,
    /// Metrics and traces.
    pub telemetry: TelemetryConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("~/.local/share/patchboard"),
            data_dir_group: false,
            trusted_users: Vec::new(),
            drain: TimeSpan::from_secs(10),
            gateway: GatewayConfig::default(),
            runs: RunsConfig::default(),
            hub: HubConfig::default(),
            notifications: NotificationsConfig::default(),
            bridge: BridgeConfig::default(),
            providers: BTreeMap::new(),
            local_model: LocalModelConfig::default(),
            agents: BTreeMap::new(),
            bindings: Vec::new(),
            keys: Vec::new(),
            budgets: BudgetsConfig::default(),
            prices: BTreeMap::new(),
            memory: MemoryConfig::default(),
            plugins: Vec::new(),
            wasm: WasmConfig::default(),
            channels: BTreeMap::new(),
            workers: Vec::new(),
            mcp: BTreeMap::new(),
            tools: ToolsConfig::default(),
            storage: StorageConfig::default(),
            limits: LimitsConfig::default(),
            log: LogConfig::default(),
            telemetry: TelemetryConfig::default(),
        }
    }
}
