//! `[[bindings]]`: assigns chats to agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sends chats to an agent. A binding matches when all its fields do; among matching bindings, peer takes precedence
/// over guild, guild over team, team over account and account over channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["agent"]))]
pub struct BindingConfig {
    /// Agent that answers.
    #[schemars(example = &"default")]
    pub agent: String,
    /// Channel the chat comes through.
    #[schemars(example = &"telegram")]
    pub channel: Option<String>,
    /// Account the chat belongs to.
    #[schemars(example = &"alice")]
    pub account: Option<String>,
    /// Person or room on the other side.
    #[schemars(example = &"room-7")]
    pub peer: Option<String>,
    /// Guild or server of the channel.
    #[schemars(example = &"guild-1")]
    pub guild: Option<String>,
    /// Team or workspace of the channel.
    #[schemars(example = &"team-1")]
    pub team: Option<String>,
}

impl BindingConfig {
    /// The fields that are set, with their names, in order of precedence.
    pub(crate) fn fields(&self) -> [(&'static str, Option<&str>); 5] {
        [
            ("peer", self.peer.as_deref()),
            ("guild", self.guild.as_deref()),
            ("team", self.team.as_deref()),
            ("account", self.account.as_deref()),
            ("channel", self.channel.as_deref()),
        ]
    }
}
