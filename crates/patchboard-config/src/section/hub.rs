//! `[hub]`: routes utterances to connected apps.

use std::collections::BTreeMap;

use patchboard_core::hub::routing::{HubRules, RoutingRule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::{ListenAddress, TimeSpan};

/// The hub: routes what a user says to the app it is meant for. Loopback only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HubConfig {
    /// Loopback address to listen on. Port 0 picks a free port; `off` disables the hub.
    pub listen: ListenAddress,
    /// How long an app may take to respond to a message before the next app is tried, and how long clients wait for its
    /// notices.
    pub response_timeout: TimeSpan,
    /// How often connected apps are pinged.
    pub ping_interval: TimeSpan,
    /// How long a ping may stay unanswered before the connection is closed.
    pub pong_timeout: TimeSpan,
    /// Agent whose model routes messages that rules and the local matcher cannot route. Left out, routing is local
    /// only.
    #[schemars(example = &"router")]
    pub agent: Option<String>,
    /// App for messages that fit no app. Left out, such messages are held until the user decides.
    #[schemars(example = &"notebook")]
    pub catch_all: Option<String>,
    /// Confidence that the hub needs to deliver a message without the user's decision.
    pub policy: RoutingPolicy,
    /// Try other apps if the app addressed by name rejects a message or does not respond. Otherwise the message is
    /// held, or waits for that app.
    pub reroute_direct: bool,
    /// Which apps may register.
    pub pairing: PairingPolicy,
    /// How long an undelivered message is kept.
    pub expiry: TimeSpan,
    /// How long after an app's question the user's next message goes to that app first.
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
    /// Rules that assign messages to an app, whatever its description says.
    pub rules: Vec<RoutingRuleConfig>,
}

impl HubConfig {
    /// Aliases and rules in the core's form.
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

/// Sends messages that match a pattern to one app. The first rule that matches decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["when", "app"]))]
pub struct RoutingRuleConfig {
    /// Patterns, one of which must match the whole message: `*` is any text, `?` any one character; case is ignored.
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
