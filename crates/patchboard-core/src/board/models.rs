//! Selects the model of a run when it is not the agent's configured one.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Board;
use crate::agent::{AgentSpec, AgentTable};
use crate::caller::Caller;
use crate::command::SetModel;
use crate::error::{BoardError, ErrorKind};
use crate::id::SessionKey;
use crate::reply::ModelReport;
use crate::run::RunRequest;
use crate::store::{KvNamespace, StoreWrite, WriteBatch};

/// Key of the thread's model in the session's key-value namespace.
const STORAGE_KEY: &str = "model";

impl Board {
    /// The request with the given model. Refuses a model that its provider does not have.
    pub(super) async fn with_model(
        &self,
        request: RunRequest,
        name: &str,
        stop: &CancellationToken,
    ) -> Result<RunRequest, BoardError> {
        let (agent, model) = self.select_model(&request.agent, name, stop).await?;
        Ok(RunRequest { agent, model: Some(model), ..request })
    }

    /// The request with the thread's model, else with `default`, else with the agent's own.
    pub(super) async fn with_default_model(
        &self,
        request: RunRequest,
        default: Option<&str>,
        stop: &CancellationToken,
    ) -> Result<RunRequest, BoardError> {
        let of_thread = self.thread_model(&request.session).await?;
        match of_thread.as_deref().or(default) {
            Some(name) => self.with_model(request, name, stop).await,
            None => Ok(request),
        }
    }

    /// The agent with the given model, and the id that the run records for it.
    async fn select_model(
        &self,
        agent: &AgentSpec,
        name: &str,
        stop: &CancellationToken,
    ) -> Result<(Arc<AgentSpec>, Arc<str>), BoardError> {
        let agents = self.0.agents.get();
        let models = agents.models();
        let agent = models.select(agent, name)?;
        tokio::select! {
            biased;
            () = stop.cancelled() => return Err(BoardError::cancelled()),
            available = models.check_available(&agent, stop) => available?,
        }
        let id = format!("{}/{}", agent.provider.name(), agent.model).into();
        Ok((agent, id))
    }

    pub(super) async fn list_models(
        &self,
        agent: Option<&str>,
        stop: &CancellationToken,
    ) -> Result<ModelReport, BoardError> {
        let agents = self.0.agents.get();
        let (agent, _) = agents.select_for_run(agent.unwrap_or(AgentTable::DEFAULT))?;
        Ok(agents.models().list(agent, stop).await)
    }

    pub(super) async fn set_model(
        &self,
        caller: &Caller,
        request: SetModel,
        stop: &CancellationToken,
    ) -> Result<Option<Arc<str>>, BoardError> {
        let SetModel { thread, model: name } = request;
        let model = if name.is_empty() {
            None
        } else {
            let agents = self.0.agents.get();
            let (agent, _) = agents.select_for_run(AgentTable::DEFAULT)?;
            Some(self.select_model(agent, &name, stop).await?.1)
        };
        if let Some(origin) = thread {
            // A thread is one conversation, whichever agent works on it.
            let session = origin.session_key(AgentTable::DEFAULT);
            if session.as_str().len() > SessionKey::MAX_BYTES {
                return Err(BoardError::invalid("channel, account and peer are too long"));
            }
            self.check_session(caller, &session).await?;
            let value = model.as_ref().map(|model| model.as_bytes().to_vec());
            let (space, at) = (KvNamespace::Session(session), self.0.clock.now());
            let write = StoreWrite::put(space, STORAGE_KEY.into(), value, at);
            self.0.store.commit(WriteBatch::boundary(vec![write])).await?;
        }
        Ok(model)
    }

    async fn thread_model(&self, session: &SessionKey) -> Result<Option<String>, BoardError> {
        let stored = self.0.store.kv_get(&KvNamespace::Session(session.clone()), STORAGE_KEY).await?;
        let unreadable = |_| BoardError::new(ErrorKind::Internal, "the thread's model cannot be read back");
        stored.map(|bytes| String::from_utf8(bytes).map_err(unreadable)).transpose()
    }
}
