//! `[limits]`: limits that apply on every surface.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::{ByteSize, TimeSpan};

/// Limits that apply to all clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Largest message on the gateway and runs; a larger one closes the connection.
    pub message: ByteSize,
    /// Largest message on the bridge.
    pub bridge_message: ByteSize,
    /// Time limit for a client to present its token.
    pub auth_timeout: TimeSpan,
    /// Requests queued in one session; further ones are refused.
    #[schemars(range(min = 1, max = 1000))]
    pub session_queue: u32,
    /// Turns and runs active at once; further ones wait.
    #[schemars(range(min = 1))]
    pub concurrent_runs: u32,
    /// How long an approval may stay unanswered before it counts as refused.
    pub approval_timeout: TimeSpan,
    /// How long a client may take to run a tool of its own, or a user to answer a question.
    pub input_timeout: TimeSpan,
    /// Time limit of one tool call if nothing more specific is set.
    pub tool_timeout: TimeSpan,
    /// Size up to which the result of a tool is sent to clients in full.
    pub tool_output: ByteSize,
    /// Memory one plugin call may use.
    pub plugin_memory: ByteSize,
    /// Time limit of one plugin call, including everything it waits for.
    pub plugin_time: TimeSpan,
    /// Approximate number of instructions one plugin call may execute.
    #[schemars(range(min = 1_000_000))]
    pub plugin_fuel: u64,
    /// Size limit of the result of one plugin call.
    pub plugin_output: ByteSize,
    /// Plugin calls active at once; up to eight times as many wait, further ones are refused.
    #[schemars(range(min = 1, max = 1000))]
    pub plugin_calls: u32,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            message: ByteSize::from_mib(16),
            bridge_message: ByteSize::from_mib(100),
            auth_timeout: TimeSpan::from_secs(5),
            session_queue: 8,
            concurrent_runs: 256,
            approval_timeout: TimeSpan::from_secs(15 * 60),
            input_timeout: TimeSpan::from_secs(4 * 3600),
            tool_timeout: TimeSpan::from_secs(120),
            tool_output: ByteSize::from_kib(64),
            plugin_memory: ByteSize::from_mib(64),
            plugin_time: TimeSpan::from_secs(30),
            plugin_fuel: 10_000_000_000,
            plugin_output: ByteSize::from_mib(1),
            plugin_calls: 32,
        }
    }
}
