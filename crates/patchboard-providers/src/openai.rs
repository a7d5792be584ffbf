//! Client of the OpenAI Chat Completions API, of OpenAI and of compatible servers: Ollama, llama.cpp, vLLM, gateways.

mod request;
mod stream;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::model::{ListedModel, ModelError, ModelRequest};
use patchboard_http::header::AUTHORIZATION;
use patchboard_http::{ClientPool, Method, Url};
use tokio_util::sync::CancellationToken;

use crate::http::{ApiClient, ApiClientOptions, ApiRequest, answering_event};
use crate::tool_json::ToolJsonCache;
use crate::tool_names::ToolNameMap;
use crate::upstream::{AttemptLimits, ModelStream, Upstream, UpstreamFailure};
use crate::{Error, ProviderOptions};

const OFFICIAL_HOST: &str = "api.openai.com";
const OFFICIAL_ROOT: &str = "https://api.openai.com/v1";
const DEFAULT_MODEL: &str = "gpt-4o";

#[derive(Debug)]
pub(crate) struct OpenAi {
    name: Arc<str>,
    tool_json: ToolJsonCache,
    client: ApiClient,
    completions: Url,
    /// `None` for other servers, whose models are unknown.
    model: Option<Arc<str>>,
    flavour: ApiFlavour,
}

/// Where OpenAI's own service and compatible servers need different requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ApiFlavour {
    Official,
    Compatible,
}

impl OpenAi {
    pub(crate) fn new(options: ProviderOptions, pool: &ClientPool) -> Result<Self, Error> {
        let name = Arc::clone(&options.name);
        let model = options.model.clone();
        let caller = api_client(options, pool)?;
        let flavour = if caller.root().is_host(OFFICIAL_HOST) { ApiFlavour::Official } else { ApiFlavour::Compatible };
        let model = model.or_else(|| match flavour {
            ApiFlavour::Official => Some(DEFAULT_MODEL.into()),
            ApiFlavour::Compatible => None,
        });
        Ok(Self {
            name,
            tool_json: ToolJsonCache::default(),
            completions: caller.root().endpoint("chat/completions"),
            client: caller,
            model,
            flavour,
        })
    }
}

/// Also used for the other endpoints of the API.
pub(crate) fn api_client(options: ProviderOptions, pool: &ClientPool) -> Result<ApiClient, Error> {
    let options = ApiClientOptions {
        provider: &options.name,
        base_url: options.base_url.as_deref().unwrap_or(OFFICIAL_ROOT),
        api_key: options.api_key,
        key_header: AUTHORIZATION,
        key_prefix: "Bearer ",
        connect_timeout: options.connect_timeout,
        response_timeout: options.response_timeout,
        idle_timeout: options.idle_timeout,
    };
    ApiClient::new(options, pool)
}

pub(crate) fn check_key(name: &str, caller: &ApiClient) -> Result<(), ModelError> {
    if caller.has_key() || !caller.root().is_host(OFFICIAL_HOST) {
        return Ok(());
    }
    Err(crate::missing_key(name, "OPENAI_API_KEY"))
}

impl Upstream for OpenAi {
    fn name(&self) -> &str {
        &self.name
    }

    fn check(&self) -> Result<(), ModelError> {
        check_key(&self.name, &self.client)
    }

    fn attempt<'a>(
        &'a self,
        request: &'a ModelRequest,
        limits: AttemptLimits,
        stop: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<ModelStream, UpstreamFailure>> {
        Box::pin(async move {
            self.check()?;
            let model = match &self.model {
                Some(own) if request.model.is_empty() => own,
                None if request.model.is_empty() => {
                    let missing = format!("no model named for provider '{}'. Set `model`", self.name);
                    return Err(ModelError::NotConfigured(missing).into());
                }
                Some(_) | None => &request.model,
            };
            let names = ToolNameMap::of(request);
            let api_request = ApiRequest {
                method: Method::POST,
                url: self.completions.clone(),
                body: request::body(request, model, self.flavour, &names, &self.tool_json)?,
            };
            let parser = stream::CompletionsParser::new(names);
            self.client.open_stream(api_request, parser, answering_event(&self.name, model), limits, stop).await
        })
    }

    fn models<'a>(&'a self, stop: &'a CancellationToken) -> BoxFuture<'a, Result<Vec<ListedModel>, ModelError>> {
        Box::pin(async move {
            self.check()?;
            self.client.list_models(None, stop).await
        })
    }
}

/// The models that a server offers, in its order.
pub(crate) async fn list_models(
    options: ProviderOptions,
    pool: &ClientPool,
    stop: &CancellationToken,
) -> Result<Vec<ListedModel>, ModelError> {
    let provider = OpenAi::new(options, pool).map_err(|error| ModelError::NotConfigured(error.to_string()))?;
    provider.models(stop).await
}

#[cfg(test)]
mod tests;
