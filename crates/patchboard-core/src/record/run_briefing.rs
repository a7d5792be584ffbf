//! The stored form of what an agent run was asked to do.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::model_messages::StoredModelMessage;
use crate::conversation;
use crate::error::BoxError;
use crate::model;
use crate::run_spec;

#[derive(Serialize, Deserialize)]
pub(super) struct StoredBriefing {
    client_id: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thread: Option<Arc<str>>,
    requested_agent: Arc<str>,
    strategy: StoredStrategy,
    adaptive: bool,
    detached: bool,
    verbose: bool,
    /// `provider/model`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<Arc<str>>,
    /// Bytes that are not valid UTF-8 are lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    folder_granted: bool,
    origin: StoredOrigin,
    message: Arc<str>,
    system: Arc<str>,
    history: Vec<StoredModelMessage>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    client_tools: Vec<StoredClientTool>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredChatBriefing {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    folder_granted: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    guild: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    team: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    client_tools: Vec<StoredClientTool>,
}

#[derive(Serialize, Deserialize)]
struct StoredClientTool {
    name: Arc<str>,
    description: Arc<str>,
    input_schema: Arc<Value>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredStrategy {
    React,
    Dup,
    Tot,
    Got,
}

#[derive(Serialize, Deserialize)]
struct StoredOrigin {
    channel: String,
    account: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    guild: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    team: Option<String>,
}

impl From<&run_spec::RunSpec> for StoredBriefing {
    fn from(spec: &run_spec::RunSpec) -> Self {
        let conversation::ConversationOrigin { channel, account, peer, guild, team } = spec.origin.clone();
        Self {
            client_id: spec.client_id.clone(),
            thread: spec.thread.clone(),
            requested_agent: spec.requested_agent.clone(),
            strategy: match spec.strategy {
                run_spec::StrategyKind::React => StoredStrategy::React,
                run_spec::StrategyKind::Dup => StoredStrategy::Dup,
                run_spec::StrategyKind::Tot => StoredStrategy::Tot,
                run_spec::StrategyKind::Got => StoredStrategy::Got,
            },
            adaptive: spec.adaptive,
            detached: spec.detached,
            verbose: spec.verbose,
            model: spec.model.clone(),
            folder: spec.folder.as_ref().map(|folder| folder.to_string_lossy().into_owned()),
            folder_granted: spec.folder_granted,
            origin: StoredOrigin { channel, account, peer, guild, team },
            message: spec.message.clone(),
            system: spec.system.clone(),
            history: spec.history.iter().map(StoredModelMessage::from).collect(),
            client_tools: spec.client_tools.iter().map(StoredClientTool::from).collect(),
        }
    }
}

impl TryFrom<StoredBriefing> for run_spec::RunSpec {
    type Error = BoxError;

    fn try_from(stored: StoredBriefing) -> Result<Self, BoxError> {
        let StoredOrigin { channel, account, peer, guild, team } = stored.origin;
        Ok(Self {
            client_id: stored.client_id,
            thread: stored.thread,
            requested_agent: stored.requested_agent,
            strategy: match stored.strategy {
                StoredStrategy::React => run_spec::StrategyKind::React,
                StoredStrategy::Dup => run_spec::StrategyKind::Dup,
                StoredStrategy::Tot => run_spec::StrategyKind::Tot,
                StoredStrategy::Got => run_spec::StrategyKind::Got,
            },
            adaptive: stored.adaptive,
            detached: stored.detached,
            verbose: stored.verbose,
            model: stored.model,
            folder: stored.folder.map(|folder| Arc::from(Path::new(&folder))),
            folder_granted: stored.folder_granted,
            origin: conversation::ConversationOrigin { channel, account, peer, guild, team },
            message: stored.message,
            system: stored.system,
            history: stored.history.into_iter().map(model::ModelMessage::try_from).collect::<Result<_, _>>()?,
            client_tools: stored.client_tools.into_iter().map(Into::into).collect(),
        })
    }
}

impl From<&run_spec::ChatBriefing> for StoredChatBriefing {
    fn from(chat: &run_spec::ChatBriefing) -> Self {
        Self {
            model: chat.model.clone(),
            folder: chat.folder.as_ref().map(|folder| folder.to_string_lossy().into_owned()),
            folder_granted: chat.folder_granted,
            guild: chat.guild.clone(),
            team: chat.team.clone(),
            client_tools: chat.client_tools.iter().map(StoredClientTool::from).collect(),
        }
    }
}

impl From<StoredChatBriefing> for run_spec::ChatBriefing {
    fn from(stored: StoredChatBriefing) -> Self {
        Self {
            model: stored.model,
            folder: stored.folder.map(|folder| Arc::from(Path::new(&folder))),
            folder_granted: stored.folder_granted,
            guild: stored.guild,
            team: stored.team,
            client_tools: stored.client_tools.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<&run_spec::ClientToolSpec> for StoredClientTool {
    fn from(tool: &run_spec::ClientToolSpec) -> Self {
        let run_spec::ClientToolSpec { name, description, input_schema } = tool.clone();
        Self { name, description, input_schema }
    }
}

impl From<StoredClientTool> for run_spec::ClientToolSpec {
    fn from(StoredClientTool { name, description, input_schema }: StoredClientTool) -> Self {
        Self { name, description, input_schema }
    }
}
