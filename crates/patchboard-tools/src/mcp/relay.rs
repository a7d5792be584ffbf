//! MCP on standard input and output for a server that is reached over HTTP: every input line is a message and is sent
//! as a request of its own; everything received is written as a line.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use patchboard_http::{Response, StatusCode};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::http::{self, HttpEndpoint, MAX_MESSAGE, SESSION_HEADER};
use crate::text::with_causes;

/// Concurrent requests; further ones are refused.
const MAX_CONCURRENT: usize = 64;
/// Lines that wait to be written; senders of further ones wait.
const OUTPUT_QUEUE: usize = 64;
/// After the end of the input, pending requests get this long to finish.
const GRACE: Duration = Duration::from_secs(5);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a cancellation waits until its request has reached the server.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(5);
const VERSION_HEADER: &str = "MCP-Protocol-Version";
const EVENT_MEDIA: &str = "text/event-stream";

/// JSON-RPC error codes.
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const SERVER_ERROR: i32 = -32000;

/// The MCP endpoint of a server.
#[derive(Debug)]
pub struct RelayTarget {
    pub url: String,
    pub token: Option<SecretString>,
}

/// Relays until the input ends, the output closes or `stop` is cancelled.
pub async fn relay(
    target: RelayTarget,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
    stop: CancellationToken,
) -> io::Result<()> {
    let endpoint = HttpEndpoint::new(&target.url, target.token).await.map_err(io::Error::other)?;
    let (lines, outgoing) = mpsc::channel(OUTPUT_QUEUE);
    let tasks = TaskTracker::new();
    let relay = Arc::new(StdioRelay {
        endpoint,
        url: target.url,
        session: Mutex::default(),
        renewal: tokio::sync::Mutex::new(()),
        pending: Mutex::default(),
        permits: Arc::new(Semaphore::new(MAX_CONCURRENT)),
        lines,
    });
    // Ends with the last sender, or when the output is closed.
    let writer = tasks.spawn(write(output, outgoing));
    let cancel = stop.child_token();
    let mut reader = BoundedLines::new(input);
    loop {
        let line = tokio::select! {
            line = reader.next() => line?,
            () = relay.lines.closed() => break,
            () = cancel.cancelled() => break,
        };
        match line {
            Some(InputLine::Whole(line)) => relay.clone().handle_line(line, &tasks, &cancel).await,
            Some(InputLine::TooLong) => {
                relay.send_error(&Value::Null, INVALID_REQUEST, "the message is too long").await;
            }
            None => break,
        }
    }
    relay.shut_down(tasks, writer, cancel).await
}

struct StdioRelay {
    endpoint: HttpEndpoint,
    url: String,
    session: Mutex<RelaySession>,
    /// Serialises session renewals; concurrent requests then use the renewed session.
    renewal: tokio::sync::Mutex<()>,
    pending: Mutex<HashMap<String, PendingRequest>>,
    permits: Arc<Semaphore>,
    lines: mpsc::Sender<String>,
}

#[derive(Default, Clone)]
struct RelaySession {
    id: Option<Arc<str>>,
    version: Option<String>,
    /// The client's `initialize` message; repeated if the server has dropped the session.
    initialize: Option<Arc<[u8]>>,
}

struct PendingRequest {
    /// Whether the server has received the request.
    delivered: watch::Receiver<bool>,
    is_cancelled: bool,
}

/// The relay's classification of a message.
enum MessageKind {
    Request {
        id: Value,
        method: String,
    },
    Cancellation {
        id: Value,
    },
    /// Notifications and responses to the server's own requests.
    OneWay,
}

impl StdioRelay {
    async fn handle_line(self: Arc<Self>, line: Vec<u8>, tasks: &TaskTracker, cancel: &CancellationToken) {
        let message: Value = match serde_json::from_slice(&line) {
            Ok(message) => message,
            Err(error) => return self.send_error(&Value::Null, PARSE_ERROR, &format!("not JSON: {error}")).await,
        };
        let body: Arc<[u8]> = line.into();
        match classify(&message) {
            // Handled before any later line is read, because all later requests belong to the session it opens.
            MessageKind::Request { id, method } if method == "initialize" => {
                *self.session() = RelaySession { initialize: Some(body.clone()), ..RelaySession::default() };
                tokio::select! {
                    () = self.request(&id, &body, None) => {}
                    () = cancel.cancelled() => {}
                }
            }
            MessageKind::Request { id, .. } => {
                let Ok(permit) = self.permits.clone().try_acquire_owned() else {
                    return self.send_error(&id, SERVER_ERROR, "too many requests at once").await;
                };
                let (delivered, delivery) = watch::channel(false);
                let key = id.to_string();
                self.pending().insert(key.clone(), PendingRequest { delivered: delivery, is_cancelled: false });
                let cancel = cancel.clone();
                tasks.spawn(async move {
                    tokio::select! {
                        () = self.request(&id, &body, Some(delivered)) => {}
                        () = cancel.cancelled() => {}
                    }
                    self.pending().remove(&key);
                    drop(permit);
                });
            }
            MessageKind::Cancellation { id } => {
                let delivery = self.pending().get_mut(&id.to_string()).map(|request| {
                    request.is_cancelled = true;
                    request.delivered.clone()
                });
                tasks.spawn(async move {
                    // Sent on another connection, a cancellation could arrive before its request.
                    if let Some(mut delivery) = delivery {
                        drop(tokio::time::timeout(DELIVERY_TIMEOUT, delivery.wait_for(|delivered| *delivered)).await);
                    }
                    self.send_one_way(&body).await;
                });
            }
            MessageKind::OneWay => {
                tasks.spawn(async move { self.send_one_way(&body).await });
            }
        }
    }

    /// Sends a request and writes everything the server returns, at least an error.
    async fn request(&self, id: &Value, body: &Arc<[u8]>, delivered: Option<watch::Sender<bool>>) {
        let result = match self.post(body).await {
            Ok(response) => {
                if let Some(delivered) = &delivered {
                    delivered.send_replace(true);
                }
                self.relay_response(id, response).await
            }
            Err(reason) => Err(reason),
        };
        let is_cancelled = || self.pending().get(&id.to_string()).is_some_and(|request| request.is_cancelled);
        if let Err(reason) = result
            && !is_cancelled()
        {
            self.send_error(id, SERVER_ERROR, &reason).await;
        }
    }

    /// Sends a message without a response. A failure is only logged.
    async fn send_one_way(&self, body: &Arc<[u8]>) {
        if let Err(reason) = self.post(body).await {
            tracing::debug!("a notification did not arrive: {reason}");
        }
    }

    /// Posts the message, in a new session if the server has dropped the current one.
    async fn post(&self, body: &Arc<[u8]>) -> Result<Response, String> {
        let session = self.session().clone();
        let response = self.post_in_session(&session, body).await?;
        if response.status() != StatusCode::NOT_FOUND || session.id.is_none() {
            return Ok(response);
        }
        let _guard = self.renewal.lock().await;
        let current = self.session().clone();
        if current.id == session.id {
            let Some(initialize) = &session.initialize else { return Ok(response) };
            let new_session = RelaySession { initialize: session.initialize.clone(), ..RelaySession::default() };
            let response = self.post_in_session(&new_session, initialize).await?;
            let message = self.open_session(response, new_session.initialize).await?;
            tracing::debug!("the server began a new session: {}", message.get("result").is_some());
        }
        let session = self.session().clone();
        self.post_in_session(&session, body).await
    }

    async fn post_in_session(&self, session: &RelaySession, body: &Arc<[u8]>) -> Result<Response, String> {
        let mut request = self.endpoint.post(&self.url, session.id.as_deref(), body.to_vec());
        if let Some(version) = &session.version {
            request = request.header(VERSION_HEADER, version);
        }
        request.send().await.map_err(|error| format!("the server cannot be reached: {}", with_causes(&error)))
    }

    /// Reads the response to `initialize` and stores the session it opened.
    async fn open_session(&self, response: Response, initialize: Option<Arc<[u8]>>) -> Result<Value, String> {
        let id = response.headers().get(SESSION_HEADER).and_then(|value| value.to_str().ok()).map(Arc::from);
        let message = read_message(response).await?;
        let version = message.pointer("/result/protocolVersion").and_then(Value::as_str).map(str::to_owned);
        *self.session() = RelaySession { id, version, initialize };
        Ok(message)
    }

    async fn relay_response(&self, id: &Value, response: Response) -> Result<(), String> {
        if !response.status().is_success() || !http::media_type(&response).starts_with(EVENT_MEDIA) {
            let initialize = self.session().initialize.clone();
            let opens_session = response.headers().contains_key(SESSION_HEADER) && self.session().id.is_none();
            let message = if opens_session {
                self.open_session(response, initialize).await?
            } else {
                read_message(response).await?
            };
            self.send_line(&message).await;
            return Ok(());
        }
        let mut events = http::events(response);
        let mut has_response = false;
        while let Some(event) = events.next().await {
            let event = event.map_err(|error| format!("the answer broke off: {}", with_causes(&error)))?;
            let Some(data) = event.data.filter(|data| !data.trim().is_empty()) else { continue };
            let message = serde_json::from_str(&data).map_err(|error| format!("the answer is not JSON: {error}"))?;
            has_response |= is_response_to(&message, id);
            self.send_line(&message).await;
        }
        if has_response { Ok(()) } else { Err("the server ended the answer before its end".to_owned()) }
    }

    async fn send_error(&self, id: &Value, code: i32, reason: &str) {
        self.send_line(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": reason } })).await;
    }

    async fn send_line(&self, message: &Value) {
        // An error means that the output is closed and the relay is about to end.
        drop(self.lines.send(message.to_string()).await);
    }

    async fn shut_down(
        self: Arc<Self>,
        tasks: TaskTracker,
        writer: tokio::task::JoinHandle<io::Result<()>>,
        cancel: CancellationToken,
    ) -> io::Result<()> {
        let session = self.session().id.clone();
        // All requests; the writer ends only with the last sender.
        let idle = async {
            let permits = u32::try_from(MAX_CONCURRENT).unwrap_or(u32::MAX);
            drop(self.permits.acquire_many(permits).await);
        };
        tokio::select! {
            ended = tokio::time::timeout(GRACE, idle) => drop(ended),
            () = cancel.cancelled() => {}
            () = self.lines.closed() => {}
        }
        cancel.cancel();
        if let Some(session) = session {
            // If this fails, the server drops the session after a while.
            drop(tokio::time::timeout(CLOSE_TIMEOUT, self.endpoint.delete(&self.url, &session).send()).await);
        }
        drop(self);
        tasks.close();
        match tokio::time::timeout(CLOSE_TIMEOUT, writer).await {
            Ok(Ok(written)) => written,
            Ok(Err(_)) | Err(_) => Ok(()),
        }
    }

    fn session(&self) -> MutexGuard<'_, RelaySession> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<String, PendingRequest>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read_message(response: Response) -> Result<Value, String> {
    let status = response.status();
    let is_events = http::media_type(&response).starts_with(EVENT_MEDIA);
    if status.is_success() && is_events {
        let mut events = http::events(response);
        while let Some(Ok(event)) = events.next().await {
            if let Some(message) = event.data.and_then(|data| serde_json::from_str::<Value>(&data).ok())
                && message.get("method").is_none()
            {
                return Ok(message);
            }
        }
        return Err("the server ended the answer before its end".to_owned());
    }
    let body = http::read_body(response)
        .await
        .map_err(|error| format!("the answer cannot be read: {}", with_causes(&error)))?;
    match serde_json::from_slice::<Value>(&body) {
        Ok(message) if message.get("jsonrpc").is_some() => Ok(message),
        Ok(_) | Err(_) => Err(format!("the server answered with HTTP {status}{}", http::excerpt(&body))),
    }
}

fn classify(message: &Value) -> MessageKind {
    let method = message.get("method").and_then(Value::as_str);
    let id = message.get("id").filter(|id| !id.is_null());
    match (method, id) {
        (Some(method), Some(id)) => MessageKind::Request { id: id.clone(), method: method.to_owned() },
        (Some("notifications/cancelled"), None) => {
            let id = message.pointer("/params/requestId").cloned().unwrap_or_default();
            MessageKind::Cancellation { id }
        }
        (_, _) => MessageKind::OneWay,
    }
}

fn is_response_to(message: &Value, id: &Value) -> bool {
    message.get("method").is_none() && message.get("id") == Some(id)
}

async fn write(mut output: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<String>) -> io::Result<()> {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        output.write_all(line.as_bytes()).await?;
        output.flush().await?;
    }
    Ok(())
}

/// Reads lines of bounded length.
struct BoundedLines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    is_too_long: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum InputLine {
    Whole(Vec<u8>),
    TooLong,
}

impl<R: AsyncRead + Unpin> BoundedLines<R> {
    fn new(input: R) -> Self {
        Self { reader: BufReader::new(input), line: Vec::new(), is_too_long: false }
    }

    /// Returns the next non-empty line. Cancel-safe: what was read is kept.
    async fn next(&mut self) -> io::Result<Option<InputLine>> {
        loop {
            let available = self.reader.fill_buf().await?;
            let is_end = available.is_empty();
            let end = available.iter().position(|&byte| byte == b'\n');
            let chunk = available.get(..end.unwrap_or(available.len())).unwrap_or_default();
            if self.line.len() + chunk.len() > MAX_MESSAGE {
                self.is_too_long = true;
                self.line = Vec::new();
            }
            if !self.is_too_long {
                self.line.extend_from_slice(chunk);
            }
            let consumed = chunk.len() + usize::from(end.is_some());
            self.reader.consume(consumed);
            if end.is_none() && !is_end {
                continue;
            }
            let line = std::mem::take(&mut self.line);
            if std::mem::take(&mut self.is_too_long) {
                return Ok(Some(InputLine::TooLong));
            }
            if !line.trim_ascii().is_empty() {
                return Ok(Some(InputLine::Whole(line)));
            }
            if is_end {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests;
