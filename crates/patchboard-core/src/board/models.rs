//! Which model a run works with, where it is not the agent's own.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Board;
use crate::agent::{AgentSpec, AgentTable};
use crate::error::BoardError;
use crate::reply::Reply;

impl Board {
    /// The agent with its model, and how a run keeps that model on record. Refused is what its provider says it does
    /// not have.
    pub(super) async fn with_model(
        &self,
        agent: &AgentSpec,
        named: &str,
        stop: &CancellationToken,
    ) -> Result<(Arc<AgentSpec>, Arc<str>), BoardError> {
        let models = self.0.agents.models();
        let agent = models.select(agent, named)?;
        tokio::select! {
            biased;
            () = stop.cancelled() => return Err(BoardError::cancelled()),
            confirmed = models.confirm(&agent, stop) => confirmed?,
        }
        let id = format!("{}/{}", agent.provider.name(), agent.model).into();
        Ok((agent, id))
    }

    pub(super) async fn list_models(&self, agent: Option<&str>, stop: &CancellationToken) -> Result<Reply, BoardError> {
        let (agent, _) = self.0.agents.choose(agent.unwrap_or(AgentTable::DEFAULT))?;
        Ok(Reply::Models(self.0.agents.models().list(agent, stop).await))
    }
}
