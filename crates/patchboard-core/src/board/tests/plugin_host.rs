//! Plugins that do what a test says. The adapter reads webhooks that say themselves what they mean, and its answers are
//! one request for each line of the reply.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use serde_json::Value;
use tokio::time::Instant;

use super::*;
use crate::plugin::{PluginError, PluginReport, PluginState};
use crate::port::PluginCall;
use crate::port::{FetchError, FetchResponse};
use crate::tool::{ToolOutput, ToolSpec};
use crate::webhook::{
    ChannelError, ChannelMessage, ChannelReply, ChannelRequest, FormattedReply, ParsedWebhook, Webhook, WebhookResponse,
};

pub(super) type Answer = fn(PluginCall) -> BoxFuture<'static, ToolOutput>;

#[derive(Debug)]
pub(super) struct PluginHost {
    pub(super) specs: Arc<[ToolSpec]>,
    pub(super) answer: Answer,
    pub(super) started: Instant,
    /// What the other service answers, in order; then it takes everything.
    pub(super) results: Mutex<VecDeque<Result<FetchResponse, FetchError>>>,
    /// When what was sent, in milliseconds.
    pub(super) sent: Mutex<Vec<(u128, String)>>,
    pub(super) replies: Mutex<Vec<ChannelReply>>,
    /// So often the adapter is not there when an answer is to be put into form.
    pub(super) missing: AtomicUsize,
    /// Requests hang until there is a permit.
    pub(super) gate: Mutex<Option<Arc<Semaphore>>>,
}

impl Default for PluginHost {
    fn default() -> Self {
        Self {
            specs: Arc::new([]),
            answer: |call| Box::pin(std::future::ready(ToolOutput::ok(call.arguments))),
            started: Instant::now(),
            results: Mutex::default(),
            sent: Mutex::default(),
            replies: Mutex::default(),
            missing: AtomicUsize::new(0),
            gate: Mutex::default(),
        }
    }
}

impl PluginHost {
    pub(super) fn answering(status: u16, headers: &[(&str, &str)]) -> Result<FetchResponse, FetchError> {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Ok(FetchResponse { status, url: String::new(), headers, body: Vec::new(), is_truncated: false })
    }

    /// The bodies of all requests so far, those that failed included.
    pub(super) fn sent(&self) -> Vec<String> {
        self.sent.lock().unwrap().iter().map(|(_, body)| body.clone()).collect()
    }

    /// When they were sent, in milliseconds since the start.
    pub(super) fn times(&self) -> Vec<u128> {
        self.sent.lock().unwrap().iter().map(|(at, _)| *at).collect()
    }

    pub(super) fn replies(&self) -> Vec<ChannelReply> {
        self.replies.lock().unwrap().clone()
    }
}

fn report(name: &str) -> PluginReport {
    PluginReport {
        name: name.into(),
        state: PluginState::Ready,
        source: format!("{name}.wasm").into(),
        sha256: Some("abc".into()),
        has_tools: true,
        has_channel: true,
        grants: Vec::new(),
        tools: Vec::new(),
        loaded_at: None,
        calls: 0,
        failures: 0,
        problem: None,
        changes: Vec::new(),
    }
}

fn known(name: &str) -> Result<(), PluginError> {
    (name == "tg").then_some(()).ok_or_else(|| PluginError::Unknown(format!("no plugin named `{name}`")))
}

impl PluginRuntime for PluginHost {
    fn tools(&self) -> Arc<[ToolSpec]> {
        self.specs.clone()
    }

    fn call(&self, call: PluginCall, _stop: CancellationToken) -> BoxFuture<'_, ToolOutput> {
        (self.answer)(call)
    }

    fn list(&self) -> Vec<PluginReport> {
        vec![report("tg")]
    }

    fn load<'a>(&'a self, named: &'a str, _: CancellationToken) -> BoxFuture<'a, Result<PluginReport, PluginError>> {
        Box::pin(std::future::ready(known(named).map(|()| report(named))))
    }

    fn unload<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), PluginError>> {
        Box::pin(std::future::ready(known(name)))
    }

    fn approve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<PluginReport, PluginError>> {
        Box::pin(std::future::ready(known(name).map(|()| report(name))))
    }

    fn parse_incoming<'a>(
        &'a self,
        plugin: &'a str,
        webhook: Webhook,
        _stop: CancellationToken,
    ) -> BoxFuture<'a, Result<ParsedWebhook, ChannelError>> {
        assert_eq!(plugin, "adapter");
        let said: Value = serde_json::from_slice(&webhook.body).unwrap();
        let text = |key: &str| said.get(key).and_then(Value::as_str).map(str::to_owned);
        let read = match text("means").as_deref() {
            Some("ignore") => Ok(ParsedWebhook::Ignore("nothing in it".to_owned())),
            Some("respond") => Ok(ParsedWebhook::Respond(plain("challenge"))),
            Some("reject") => Err(ChannelError::Rejected("no text".to_owned())),
            Some("break") => Err(ChannelError::Failed("plugin adapter panicked".to_owned())),
            Some("away") => Err(ChannelError::Unavailable("plugin adapter is not loaded".to_owned())),
            _ => Ok(ParsedWebhook::Message(ChannelMessage {
                id: text("id"),
                account: text("account"),
                peer: text("peer"),
                guild: None,
                team: None,
                content: text("content").unwrap_or_default(),
                context: text("context").unwrap_or_default(),
            })),
        };
        Box::pin(std::future::ready(read))
    }

    fn format_outgoing<'a>(
        &'a self,
        plugin: &'a str,
        reply: ChannelReply,
        _stop: CancellationToken,
    ) -> BoxFuture<'a, Result<FormattedReply, ChannelError>> {
        assert_eq!(plugin, "adapter");
        let fails = |left: usize| left.checked_sub(1);
        if self.missing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails).is_ok() {
            let error = ChannelError::Unavailable("plugin adapter is not loaded".to_owned());
            return Box::pin(std::future::ready(Err(error)));
        }
        let formatted = match reply.context.as_str() {
            "unformattable" => Err(ChannelError::Rejected("no chat in it".to_owned())),
            "answers" if reply.is_synchronous => Ok(FormattedReply {
                requests: vec![request("a copy")],
                answer: Some(WebhookResponse { status: 201, ..plain(&format!("<{}>", reply.content)) }),
            }),
            "plain" if reply.is_synchronous => Ok(FormattedReply::default()),
            "chatty" => Ok(FormattedReply { requests: vec![request("again"); 33], answer: None }),
            _ => Ok(FormattedReply { requests: reply.content.lines().map(request).collect(), answer: None }),
        };
        self.replies.lock().unwrap().push(reply);
        Box::pin(std::future::ready(formatted))
    }

    fn send<'a>(
        &'a self,
        plugin: &'a str,
        request: ChannelRequest,
        stop: CancellationToken,
    ) -> BoxFuture<'a, Result<FetchResponse, FetchError>> {
        assert_eq!(plugin, "adapter");
        Box::pin(async move {
            let body = String::from_utf8(request.body.unwrap_or_default()).unwrap();
            self.sent.lock().unwrap().push((self.started.elapsed().as_millis(), body));
            let gate = self.gate.lock().unwrap().clone();
            if let Some(gate) = gate {
                tokio::select! {
                    permit = gate.acquire() => permit.unwrap().forget(),
                    () = stop.cancelled() => return Err(FetchError::Cancelled),
                }
            }
            let result = self.results.lock().unwrap().pop_front();
            result.unwrap_or_else(|| Self::answering(200, &[]))
        })
    }
}

fn plain(text: &str) -> WebhookResponse {
    WebhookResponse {
        status: 200,
        content_type: "text/plain; charset=utf-8".to_owned(),
        body: text.as_bytes().to_vec(),
    }
}

fn request(line: &str) -> ChannelRequest {
    ChannelRequest {
        method: "POST".to_owned(),
        url: "https://api.example/bot{{secret:token}}/send".to_owned(),
        headers: Vec::new(),
        body: Some(line.as_bytes().to_vec()),
        timeout: None,
    }
}
