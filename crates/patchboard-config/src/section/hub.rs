//! `[hub]`: utterances routed to connected apps.

use std::collections::BTreeMap;

use patchboard_core::hub::routing::{HubRules, RoutingRule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::{ListenAddress, TimeSpan};

/// The hub: takes what a user says and brings it to the app it is meant for. Loopback only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HubConfig {
    /// Loopback address to listen on. Port 0 picks a free port; `off` disables the hub.
    pub listen: ListenAddress,
    /// How long an app has to answer a message: before the next one is tried, and for what it has to tell to whoever
    /// waits.
    pub response_timeout: TimeSpan,
    /// How often connected apps are pinged.
    pub ping_interval: TimeSpan,
    /// How long a ping may stay unanswered before the connection is dropped.
    pub pong_timeout: TimeSpan,
    /// Agent whose model routes what rules and the local matcher cannot. Left out, routing is local only.
    #[schemars(example = &"router")]
    pub agent: Option<String>,
    /// App that gets what fits nobody. Left out, such messages are held until the user decides.
    #[schemars(example = &"notebook")]
    pub catch_all: Option<String>,
    /// How sure the hub has to be before it brings a message to an app by itself.
    pub policy: RoutingPolicy,
    /// Try other apps when the one addressed by name rejects or does not answer. Otherwise the message is held, or
    /// waits for that app.
    pub reroute_direct: bool,
    /// Who may register an app.
    pub pairing: PairingPolicy,
    /// How long an undelivered message is kept.
    pub expiry: TimeSpan,
    /// How long after a question from an app the user's next words go to it first.
    #[schemars(extend("x-zero" = true))]
    pub follow_up: TimeSpan,
    /// How long a connection may stay unregistered.
    pub register_timeout: TimeSpan,
    /// Origins that may connect, added to loopback origins.
    pub allowed_origins: Vec<String>,
    /// Connections of apps open at once; further ones are refused.
    #[schemars(range(min = 1))]
    pub max_connections: u32,
    /// Other names for apps: a message that begins with one of them and `:` or `,` goes to its app.
    #[schemars(example = serde_json::json!({"nb": "notebook"}))]
    pub aliases: BTreeMap<String, String>,
    /// What belongs to an app whatever its description says.
    pub rules: Vec<HubRuleConfig>,
}

impl HubConfig {
    /// Aliases and rules as the core applies them.
    pub fn user_rules(&self) -> HubRules {
        let aliases = self.aliases.iter().map(|(alias, app)| (alias.as_str().into(), app.as_str().into()));
        let rules =
            self.rules.iter().map(|rule| RoutingRule::new(rule.when.iter().map(String::as_str), rule.app.as_str()));
        HubRules { aliases: aliases.collect(), rules: rules.collect() }
    }
}

impl Default for HubConfig {
    fn default() -> Self {
        Self {
            listen: ListenAddress::loopback(9473),
            response_timeout: TimeSpan::from_secs(30),
            ping_interval: TimeSpan::from_secs(30),
            pong_timeout: TimeSpan::from_secs(10),
            agent: None,
            catch_all: None,
            policy: RoutingPolicy::Balanced,
            reroute_direct: false,
            pairing: PairingPolicy::Open,
            expiry: TimeSpan::from_secs(24 * 3600),
            follow_up: TimeSpan::from_secs(5 * 60),
            register_timeout: TimeSpan::from_secs(30),
            allowed_origins: vec!["app://obsidian.md".to_owned()],
            max_connections: 100,
            aliases: BTreeMap::new(),
            rules: Vec::new(),
        }
    }
}

/// Sends messages that read a certain way to one app. The first rule that matches decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["when", "app"]))]
pub struct HubRuleConfig {
    /// Patterns, one of which has to match the whole message: `*` is any text, `?` any one character, and case does not matter.
    #[schemars(example = ["play *", "put on *"])]
    pub when: Vec<String>,
    /// App that gets the message. While it is not connected, the message waits for it.
    #[schemars(example = &"music")]
    pub app: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RoutingPolicy {
    /// about one message in a hundred may go to a wrong app, and many are held
    Careful,
    /// about three in a hundred
    #[default]
    Balanced,
    /// about eight in a hundred, and few are held
    Eager,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PairingPolicy {
    /// any local app with an allowed origin
    #[default]
    Open,
    /// apps the operator has approved
    Approve,
    /// apps that present a token of their own
    Token,
}
