//! The context of a conversation: channel, account, peer, agent, model and folder. The only place where requests of
//! `chat` are built.

use patchboard_core::access::OPERATOR_CHANNEL;
use patchboard_core::id::SessionKey;
use serde_json::{Value, json};

use super::ChatArgs;
use crate::cli::caller_folder::CallerFolder;

/// The current conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChatContext {
    pub(super) channel: String,
    pub(super) account: String,
    pub(super) peer: String,
    /// `None`: bindings decide.
    pub(super) agent: Option<String>,
    /// `None`: the agent's own.
    pub(super) model: Option<String>,
    /// The folder its tools work in.
    pub(super) folder: CallerFolder,
}

impl ChatContext {
    pub(super) fn new(args: &ChatArgs, folder: CallerFolder) -> Self {
        let default_channel = if args.target.is_by_address() { "terminal" } else { OPERATOR_CHANNEL };
        Self {
            channel: args.channel.clone().unwrap_or_else(|| default_channel.to_owned()),
            account: args.account.clone(),
            peer: args.peer.clone(),
            agent: args.agent.clone(),
            model: args.model.clone(),
            folder,
        }
    }

    /// The params of `chat.send`.
    pub(super) fn send_params(&self, content: &str) -> Value {
        let Self { channel, account, peer, agent, model, folder } = self;
        let mut params = json!({
            "channel": channel, "account": account, "peer": peer, "content": content,
            // This client answers approvals itself, so the reply need not mention them.
            "approvals": true,
        });
        if let Some(fields) = params.as_object_mut() {
            let named = [("agent", agent), ("model", model)];
            let named = named.into_iter().filter_map(|(key, name)| Some((key.to_owned(), json!(name.as_ref()?))));
            fields.extend(named);
            folder.add_to(fields);
        }
        params
    }

    /// The params of lists of this account's conversations.
    pub(super) fn owner_params(&self) -> Value {
        json!({ "channel": self.channel, "account": self.account, "limit": 100 })
    }

    /// Whether a list entry is this conversation.
    pub(super) fn is_session(&self, session: &Value) -> bool {
        let is = |key: &str, value: &str| session.get(key).and_then(Value::as_str) == Some(value);
        is("channel", &self.channel)
            && is("account", &self.account)
            && is("peer", &self.peer)
            && self.agent.as_deref().is_none_or(|agent| is("agent", agent))
    }

    /// The session's key for this agent.
    pub(super) fn session_key(&self, agent: &str) -> String {
        SessionKey::conversation(agent, &self.channel, &self.account, &self.peer).to_string()
    }
}
