//! The HTTP client of one provider: its address, key and timeouts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use patchboard_core::model::{ListedModel, ModelError, ModelEvent};
use patchboard_http::body::{BodyEnd, read_body};
use patchboard_http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use patchboard_http::{ClientPool, Method, Response, Url, send_within};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::response_stream::ModelResponseStream;
use super::{ApiRoot, failure};
use crate::Error;
use crate::event_reader::{EventParser, ModelEventReader};
use crate::upstream::{AttemptLimits, ModelStream, RequestDelivery, RetryAdvice, UpstreamFailure};
use crate::wire::ModelList;

/// Enough of an error response to find its code.
const MAX_ERROR_BODY: usize = 16 * 1024;
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_LOGGED_BODY: usize = 2 * 1024;
/// Limit of responses that are not streamed.
const MAX_DOCUMENT: usize = 64 * 1024 * 1024;

pub(crate) struct ApiClientOptions<'a> {
    pub(crate) provider: &'a str,
    pub(crate) base_url: &'a str,
    pub(crate) api_key: Option<SecretString>,
    /// The header of the key. Its value is `key_prefix` and the key.
    pub(crate) key_header: HeaderName,
    pub(crate) key_prefix: &'static str,
    pub(crate) connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
    pub(crate) idle_timeout: Duration,
}

pub(crate) struct ApiClient {
    pool: ClientPool,
    root: ApiRoot,
    api_key: Option<SecretString>,
    headers: HeaderMap,
    connect_timeout: Duration,
    response_timeout: Duration,
    idle_timeout: Duration,
}

pub(crate) struct ApiRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) body: Vec<u8>,
}

impl ApiClient {
    pub(crate) fn new(options: ApiClientOptions<'_>, pool: &ClientPool) -> Result<Self, Error> {
        let root = ApiRoot::parse(options.provider, options.base_url)?;
        let mut headers = HeaderMap::new();
        // An empty key counts as none: files and variables are often left blank.
        let api_key = options.api_key.filter(|key| !key.expose_secret().trim().is_empty());
        if let Some(key) = &api_key {
            let value = format!("{}{}", options.key_prefix, key.expose_secret().trim());
            let mut value =
                HeaderValue::try_from(value).map_err(|_| Error::ApiKey { provider: options.provider.to_owned() })?;
            value.set_sensitive(true);
            headers.insert(options.key_header, value);
        }
        Ok(Self {
            pool: pool.clone(),
            root,
            api_key,
            headers,
            connect_timeout: options.connect_timeout,
            response_timeout: options.response_timeout,
            idle_timeout: options.idle_timeout,
        })
    }

    pub(crate) fn add_header(&mut self, name: HeaderName, value: HeaderValue) {
        self.headers.insert(name, value);
    }

    pub(crate) fn root(&self) -> &ApiRoot {
        &self.root
    }

    pub(crate) fn has_key(&self) -> bool {
        self.api_key.is_some()
    }

    /// Sends a request and waits for the head of a successful response.
    pub(crate) async fn send(
        &self,
        outgoing: ApiRequest,
        limits: AttemptLimits,
        stop: &CancellationToken,
    ) -> Result<Response, UpstreamFailure> {
        tokio::select! {
            biased;
            () = stop.cancelled() => Err(ModelError::Cancelled.into()),
            sent = self.send_once(outgoing, limits) => sent,
        }
    }

    /// Sends a request and returns the events of its response, beginning with `answering`.
    pub(crate) async fn open_stream<P: EventParser>(
        &self,
        outgoing: ApiRequest,
        parser: P,
        answering: ModelEvent,
        limits: AttemptLimits,
        stop: &CancellationToken,
    ) -> Result<ModelStream, UpstreamFailure> {
        let response = self.send(outgoing, limits, stop).await?;
        let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        // Some servers stream without the header, so only types that cannot be an event stream are refused.
        if let Some(other) = ["text/html", "application/json"].into_iter().find(|other| media_type.starts_with(other)) {
            return Err(UpstreamFailure {
                error: ModelError::Rejected(format!("provider answered with `{other}` instead of an event stream")),
                retry: RetryAdvice::OtherProvider,
                delivery: RequestDelivery::Received,
            });
        }
        let endings = self.pool.drain_tasks().clone();
        Ok(Box::pin(ModelResponseStream::new(
            response,
            ModelEventReader::new(parser, answering),
            self.idle_timeout,
            stop.clone(),
            endings,
        )))
    }

    pub(crate) async fn list_models(
        &self,
        query: Option<&str>,
        stop: &CancellationToken,
    ) -> Result<Vec<ListedModel>, ModelError> {
        let mut url = self.root.endpoint("models");
        url.set_query(query);
        let outgoing = ApiRequest { method: Method::GET, url, body: Vec::new() };
        let list: ModelList = self.fetch_json(outgoing, stop).await.map_err(|failure| failure.error)?;
        let listed = list.data.into_iter().filter(|model| !model.id.is_empty());
        Ok(listed.map(|model| ListedModel { id: model.id, name: model.display_name }).collect())
    }

    /// Sends a request and reads its response as one JSON document.
    pub(crate) async fn fetch_json<T: DeserializeOwned>(
        &self,
        outgoing: ApiRequest,
        stop: &CancellationToken,
    ) -> Result<T, UpstreamFailure> {
        let limits = AttemptLimits { connect_within: self.connect_timeout };
        let mut response = self.send(outgoing, limits, stop).await?;
        let mut document = Vec::new();
        let reading = async {
            match read_body(&mut response, MAX_DOCUMENT, &mut document).await {
                Ok(BodyEnd::Cut) => {
                    Err(ModelError::Rejected(format!("provider answered with more than {MAX_DOCUMENT} bytes")))
                }
                // The parser decides whether a body that broke off is complete.
                Ok(BodyEnd::Complete) | Err(_) => Ok(()),
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return Err(ModelError::Cancelled.into()),
            read = tokio::time::timeout(self.response_timeout, reading) => {
                read.map_err(|_| ModelError::Timeout("provider request timed out".to_owned()))??;
            }
        }
        serde_json::from_slice(&document)
            .map_err(|_| ModelError::Unavailable("provider answered with something unreadable".to_owned()).into())
    }

    async fn send_once(&self, outgoing: ApiRequest, limits: AttemptLimits) -> Result<Response, UpstreamFailure> {
        let host = self.root.label();
        let client =
            self.pool.client(self.root.client_kind()).await.map_err(|error| failure::from_transport(&error, host))?;
        let mut headers = self.headers.clone();
        if !outgoing.body.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        let sending = client.request(outgoing.method, outgoing.url).headers(headers).body(outgoing.body);
        let connect_within = limits.connect_within.min(self.connect_timeout);
        let mut response = tokio::time::timeout(self.response_timeout, send_within(sending, connect_within))
            .await
            .map_err(|_| ModelError::Timeout("provider request timed out".to_owned()))?
            .map_err(|error| failure::from_transport(&error, host))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (status, headers) = (response.status(), response.headers().clone());
        let mut body = Vec::new();
        // The status is known; a body that is slow or breaks off is cut.
        drop(tokio::time::timeout(ERROR_BODY_TIMEOUT, read_body(&mut response, MAX_ERROR_BODY, &mut body)).await);
        self.log_body(status.as_u16(), &body);
        Err(failure::from_status(status, &headers, &body))
    }

    /// Logs the error text of the provider, cut and without the key. It appears nowhere else.
    fn log_body(&self, status: u16, body: &[u8]) {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let body = redacted_body(body, self.api_key.as_ref());
        tracing::debug!(http.status = status, host = self.root.label(), body, "model provider refused a request");
    }
}

fn redacted_body(body: &[u8], key: Option<&SecretString>) -> String {
    let mut text = String::from_utf8_lossy(body).into_owned();
    if let Some(key) = key {
        text = text.replace(key.expose_secret().trim(), "[key]");
    }
    // Cut after the replacement, or half a key might stay at the end.
    text.truncate(text.floor_char_boundary(MAX_LOGGED_BODY));
    text
}

impl fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiClient")
            .field("host", &self.root.label())
            .field("has_key", &self.has_key())
            .finish_non_exhaustive()
    }
}

pub(crate) fn answering_event(provider: &Arc<str>, model: &str) -> ModelEvent {
    ModelEvent::ModelSelected { provider: Arc::clone(provider), model: model.into() }
}

#[cfg(test)]
mod tests;
