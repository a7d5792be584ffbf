//! The HTTP client of the MCP library. The library leaves reading to it, so it enforces the limits on sizes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use patchboard_http::body::{BodyEnd, read_body as read_bounded};
use patchboard_http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use patchboard_http::{Client, ClientKind, ClientOptions, RequestBuilder, Response, StatusCode, Url};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use secrecy::{ExposeSecret, SecretString};
use sse_stream::{Sse, SseStream};

use crate::text::{clipped, with_causes};

/// Largest message from a server, as a body or as one event of a stream.
pub(super) const MAX_MESSAGE: usize = 8 * 1024 * 1024;
pub(super) const SESSION_HEADER: &str = "Mcp-Session-Id";
const LAST_EVENT_HEADER: &str = "Last-Event-ID";
const JSON_MEDIA: &str = "application/json";
const EVENT_MEDIA: &str = "text/event-stream";
const ACCEPTED_MEDIA: &str = "application/json, text/event-stream";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest excerpt of a body in an error.
const MAX_EXCERPT: usize = 300;

/// An endpoint and its token.
#[derive(Clone)]
pub(super) struct HttpEndpoint {
    client: Client,
    token: Option<Arc<SecretString>>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    #[error("{}", with_causes(.0))]
    Request(#[source] patchboard_http::Error),
    #[error("the answer is longer than {MAX_MESSAGE} bytes")]
    TooLong,
}

type TransportError = StreamableHttpError<HttpError>;

impl From<HttpError> for TransportError {
    fn from(error: HttpError) -> Self {
        Self::Client(error)
    }
}

impl From<patchboard_http::Error> for HttpError {
    fn from(error: patchboard_http::Error) -> Self {
        // Without the URL, which may hold credentials.
        Self::Request(error.without_url())
    }
}

impl HttpEndpoint {
    /// A URL that cannot be parsed fails with the first request.
    pub(super) async fn new(url: &str, token: Option<SecretString>) -> Result<Self, HttpError> {
        let kind = Url::parse(url).map_or(ClientKind::Tls, |url| ClientKind::for_url(&url));
        let options = ClientOptions::new(kind).connect_timeout(CONNECT_TIMEOUT);
        Ok(Self { client: options.build().await?, token: token.map(Arc::new) })
    }

    pub(super) fn post(&self, url: &str, session: Option<&str>, body: Vec<u8>) -> RequestBuilder {
        let request = self.client.post(url).header(CONTENT_TYPE, JSON_MEDIA).header(ACCEPT, ACCEPTED_MEDIA).body(body);
        self.with_credentials(request, session)
    }

    pub(super) fn delete(&self, url: &str, session: &str) -> RequestBuilder {
        self.with_credentials(self.client.delete(url), Some(session))
    }

    fn with_credentials(&self, request: RequestBuilder, session: Option<&str>) -> RequestBuilder {
        let request = match &self.token {
            Some(token) => request.bearer_auth(token.expose_secret()),
            None => request,
        };
        match session {
            Some(session) => request.header(SESSION_HEADER, session),
            None => request,
        }
    }
}

impl StreamableHttpClient for HttpEndpoint {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, TransportError> {
        let body = serde_json::to_vec(&message)?;
        let request = self.post(&uri, session_id.as_deref(), body).headers(custom_headers.into_iter().collect());
        let response = request.send().await.map_err(HttpError::from)?;
        let session = response.headers().get(SESSION_HEADER).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let status = response.status();
        match status {
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => return Ok(StreamableHttpPostResponse::Accepted),
            StatusCode::NOT_FOUND if session_id.is_some() => return Err(StreamableHttpError::SessionExpired),
            _ => check_authorized(&response)?,
        }
        let media = media_type(&response);
        if status.is_success() && media.starts_with(EVENT_MEDIA) {
            return Ok(StreamableHttpPostResponse::Sse(events(response), session));
        }
        let body = read_body(response).await?;
        if media.starts_with(JSON_MEDIA) {
            match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
                Ok(answer @ ServerJsonRpcMessage::Error(_)) => {
                    return Ok(StreamableHttpPostResponse::Json(answer, session));
                }
                Ok(answer) if status.is_success() => return Ok(StreamableHttpPostResponse::Json(answer, session)),
                // Notifications have no response, so an unreadable body is ignored.
                Err(_) if status.is_success() && !matches!(message, ClientJsonRpcMessage::Request(_)) => {
                    return Ok(StreamableHttpPostResponse::Accepted);
                }
                Ok(_) | Err(_) => {}
            }
        } else if status.is_success() && !matches!(message, ClientJsonRpcMessage::Request(_)) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        Err(unexpected_response(status, &body))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), TransportError> {
        let request = self.delete(&uri, &session_id).headers(custom_headers.into_iter().collect());
        // Servers may refuse to end sessions, which then expire.
        request.send().await.map_err(HttpError::from)?;
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, TransportError> {
        let request = self.client.get(&*uri).header(ACCEPT, EVENT_MEDIA).headers(custom_headers.into_iter().collect());
        let mut request = self.with_credentials(request, session_id.as_deref());
        if let Some(last) = last_event_id {
            request = request.header(LAST_EVENT_HEADER, last);
        }
        let response = request.send().await.map_err(HttpError::from)?;
        check_authorized(&response)?;
        match response.status() {
            status if status.is_success() && media_type(&response).starts_with(EVENT_MEDIA) => Ok(events(response)),
            // The stream is optional; servers without it answer with a client error.
            status if status.is_success() || status.is_client_error() => {
                Err(StreamableHttpError::ServerDoesNotSupportSse)
            }
            status => Err(unexpected_response(status, &[])),
        }
    }
}

fn check_authorized(response: &Response) -> Result<(), TransportError> {
    if !matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return Ok(());
    }
    match response.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok()) {
        Some(challenge) => Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge.to_owned()))),
        None => Err(unexpected_response(response.status(), &[])),
    }
}

fn unexpected_response(status: StatusCode, body: &[u8]) -> TransportError {
    StreamableHttpError::UnexpectedServerResponse(Cow::Owned(format!("HTTP {status}{}", excerpt(body))))
}

/// The beginning of a body, on one line.
pub(super) fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body.get(..body.len().min(2 * MAX_EXCERPT)).unwrap_or_default());
    match text.trim() {
        "" => String::new(),
        text => format!(": {}", clipped(&text.escape_debug(), MAX_EXCERPT)),
    }
}

pub(super) fn media_type(response: &Response) -> String {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_ascii_lowercase()
}

/// The whole body; an error if it is longer than [`MAX_MESSAGE`].
pub(super) async fn read_body(mut response: Response) -> Result<Vec<u8>, HttpError> {
    let mut body = Vec::new();
    match read_bounded(&mut response, MAX_MESSAGE, &mut body).await? {
        BodyEnd::Complete => Ok(body),
        BodyEnd::Cut => Err(HttpError::TooLong),
    }
}

/// The body as events of at most [`MAX_MESSAGE`] bytes.
pub(super) fn events(response: Response) -> BoxStream<'static, Result<Sse, SseError>> {
    let pieces = response.bytes_stream().map(|piece| piece.map_err(HttpError::from));
    SseStream::from_bytes_stream(limit_events(pieces)).boxed()
}

/// Ends with an error when an event exceeds the limit; the parser would buffer it without bound.
fn limit_events(
    pieces: impl Stream<Item = Result<Bytes, HttpError>> + Send + 'static,
) -> BoxStream<'static, Result<Bytes, HttpError>> {
    let mut measure = EventSizeCounter::default();
    let pieces = pieces.map(move |piece| {
        let piece = piece?;
        measure.add(&piece);
        if measure.event > MAX_MESSAGE { Err(HttpError::TooLong) } else { Ok(piece) }
    });
    // Ends after the first error.
    let mut failed = false;
    let ended = pieces.take_while(move |piece| {
        let goes_on = !failed;
        failed = piece.is_err();
        std::future::ready(goes_on)
    });
    ended.boxed()
}

/// Counts the bytes of the current event, which an empty line ends.
#[derive(Debug, Default)]
struct EventSizeCounter {
    event: usize,
    line: usize,
    after_return: bool,
}

impl EventSizeCounter {
    fn add(&mut self, piece: &[u8]) {
        for &byte in piece {
            self.event += 1;
            match byte {
                // The second byte of CRLF.
                b'\n' if self.after_return => {}
                b'\n' | b'\r' if self.line == 0 => self.event = 0,
                b'\n' | b'\r' => self.line = 0,
                _ => self.line += 1,
            }
            self.after_return = byte == b'\r';
        }
    }
}

#[cfg(test)]
mod tests;
