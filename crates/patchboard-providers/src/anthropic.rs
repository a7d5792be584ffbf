//! Client of the Anthropic Messages API.

mod request;
mod stream;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::model::{ListedModel, ModelError, ModelRequest};
use patchboard_http::header::{HeaderName, HeaderValue};
use patchboard_http::{ClientPool, Method, Url};
use tokio_util::sync::CancellationToken;

use crate::http::{ApiClient, ApiClientOptions, ApiRequest, answering_event};
use crate::tool_json::ToolJsonCache;
use crate::tool_names::ToolNameMap;
use crate::upstream::{AttemptLimits, ModelStream, Upstream, UpstreamFailure};
use crate::{Error, ProviderOptions};

const OFFICIAL_HOST: &str = "api.anthropic.com";
const OFFICIAL_ROOT: &str = "https://api.anthropic.com/v1";
const API_VERSION: &str = "2023-06-01";
/// The API's default page has 20 models.
const LIST_QUERY: &str = "limit=1000";
const DEFAULT_MODEL: &str = "claude-sonnet-4-5-20250929";

#[derive(Debug)]
pub(crate) struct Anthropic {
    name: Arc<str>,
    tool_json: ToolJsonCache,
    client: ApiClient,
    messages: Url,
    model: Arc<str>,
}

impl Anthropic {
    pub(crate) fn new(options: ProviderOptions, pool: &ClientPool) -> Result<Self, Error> {
        let caller_options = ApiClientOptions {
            provider: &options.name,
            base_url: options.base_url.as_deref().unwrap_or(OFFICIAL_ROOT),
            api_key: options.api_key,
            key_header: HeaderName::from_static("x-api-key"),
            key_prefix: "",
            connect_timeout: options.connect_timeout,
            response_timeout: options.response_timeout,
            idle_timeout: options.idle_timeout,
        };
        let mut caller = ApiClient::new(caller_options, pool)?;
        caller.add_header(HeaderName::from_static("anthropic-version"), HeaderValue::from_static(API_VERSION));
        Ok(Self {
            name: options.name,
            tool_json: ToolJsonCache::default(),
            messages: caller.root().endpoint("messages"),
            client: caller,
            model: options.model.unwrap_or_else(|| DEFAULT_MODEL.into()),
        })
    }
}

impl Upstream for Anthropic {
    fn name(&self) -> &str {
        &self.name
    }

    fn check(&self) -> Result<(), ModelError> {
        if self.client.has_key() || !self.client.root().is_host(OFFICIAL_HOST) {
            return Ok(());
        }
        Err(crate::missing_key(&self.name, "ANTHROPIC_API_KEY"))
    }

    fn attempt<'a>(
        &'a self,
        request: &'a ModelRequest,
        limits: AttemptLimits,
        stop: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<ModelStream, UpstreamFailure>> {
        Box::pin(async move {
            self.check()?;
            let model = if request.model.is_empty() { &self.model } else { &request.model };
            let names = ToolNameMap::of(request);
            let api_request = ApiRequest {
                method: Method::POST,
                url: self.messages.clone(),
                body: request::body(request, model, &names, &self.tool_json)?,
            };
            let parser = stream::MessagesParser::new(names);
            self.client.open_stream(api_request, parser, answering_event(&self.name, model), limits, stop).await
        })
    }

    fn models<'a>(&'a self, stop: &'a CancellationToken) -> BoxFuture<'a, Result<Vec<ListedModel>, ModelError>> {
        Box::pin(async move {
            self.check()?;
            self.client.list_models(Some(LIST_QUERY), stop).await
        })
    }
}

/// The models that the account may use, newest first.
pub(crate) async fn list_models(
    options: ProviderOptions,
    pool: &ClientPool,
    stop: &CancellationToken,
) -> Result<Vec<ListedModel>, ModelError> {
    let provider = Anthropic::new(options, pool).map_err(|error| ModelError::NotConfigured(error.to_string()))?;
    provider.models(stop).await
}

#[cfg(test)]
mod tests;
