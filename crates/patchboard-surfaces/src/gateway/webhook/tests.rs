//! The router over a board in memory, with an adapter that does what the webhook's body says.

use std::sync::Mutex;

use axum::Router;
use axum::http::Uri;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use patchboard_core::Board;
use patchboard_core::board::BoardParts;
use patchboard_core::budget::BudgetLimits;
use patchboard_core::plugin::{PluginError, PluginReport};
use patchboard_core::port::{FetchError, FetchResponse, PluginCall, PluginRuntime};
use patchboard_core::reloadable::Reloadable;
use patchboard_core::scripted::{ManualClock, Script, say};
use patchboard_core::tool::{ToolOutput, ToolSpec};
use patchboard_core::webhook::{
    ChannelError, ChannelMessage, ChannelOptions, ChannelReply, ChannelRequest, FormattedReply, ParsedWebhook,
    WebhookResponse,
};
use patchboard_testkit::board::TestBoard;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::*;
use crate::auth::AuthGate;
use crate::gateway::{GatewayOptions, router};
use crate::guard::OriginGuard;
use crate::limit::ClientLimits;
use crate::pump::PumpLimits;

mod answers;
mod doors;
mod sockets;

const SECRET: &str = "sesame";

/// Keeps what it was shown.
#[derive(Debug, Default)]
struct Adapter {
    webhooks: Mutex<Vec<Webhook>>,
    /// The cancellation token of the latest webhook; cancelled when its sender disconnects.
    last_stop: Mutex<Option<CancellationToken>>,
    replies: Mutex<Vec<ChannelReply>>,
    replied: Notify,
    came: Notify,
}

impl Adapter {
    fn read(webhook: &Webhook) -> Result<ParsedWebhook, ChannelError> {
        let text = String::from_utf8_lossy(&webhook.body).into_owned();
        let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
        Ok(match word {
            "ignore" => ParsedWebhook::Ignore(rest.to_owned()),
            "respond" => {
                let mut words = rest.splitn(3, ' ').map(str::to_owned);
                let status = words.next().and_then(|status| status.parse().ok()).unwrap();
                let (content_type, body) = (words.next().unwrap(), words.next().unwrap_or_default().into_bytes());
                ParsedWebhook::Respond(WebhookResponse { status, content_type, body })
            }
            "reject" => return Err(ChannelError::Rejected(rest.to_owned())),
            "trap" => return Err(ChannelError::Failed(rest.to_owned())),
            "gone" => return Err(ChannelError::Unavailable(rest.to_owned())),
            "id" => {
                let (id, content) = rest.split_once(' ').unwrap();
                ParsedWebhook::Message(ChannelMessage {
                    id: Some(id.to_owned()),
                    content: content.to_owned(),
                    ..ChannelMessage::default()
                })
            }
            _ => ParsedWebhook::Message(ChannelMessage { content: text, ..ChannelMessage::default() }),
        })
    }

    /// Waits for a webhook; returns the token that is cancelled when its sender disconnects.
    async fn next_stop(&self) -> CancellationToken {
        loop {
            if let Some(stop) = self.last_stop.lock().unwrap().take() {
                return stop;
            }
            self.came.notified().await;
        }
    }

    fn seen(&self) -> Vec<Webhook> {
        self.webhooks.lock().unwrap().clone()
    }
}

impl PluginRuntime for Adapter {
    fn tools(&self) -> Arc<[ToolSpec]> {
        [].into()
    }

    fn call(&self, _call: PluginCall, _stop: CancellationToken) -> BoxFuture<'_, ToolOutput> {
        Box::pin(std::future::ready(ToolOutput::error("no tools")))
    }

    fn list(&self) -> Vec<PluginReport> {
        Vec::new()
    }

    fn load<'a>(&'a self, name: &'a str, _: CancellationToken) -> BoxFuture<'a, Result<PluginReport, PluginError>> {
        Box::pin(std::future::ready(Err(PluginError::Unknown(name.to_owned()))))
    }

    fn unload<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), PluginError>> {
        Box::pin(std::future::ready(Err(PluginError::Unknown(name.to_owned()))))
    }

    fn approve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<PluginReport, PluginError>> {
        Box::pin(std::future::ready(Err(PluginError::Unknown(name.to_owned()))))
    }

    fn parse_incoming<'a>(
        &'a self,
        _plugin: &'a str,
        webhook: Webhook,
        stop: CancellationToken,
    ) -> BoxFuture<'a, Result<ParsedWebhook, ChannelError>> {
        let read = Self::read(&webhook);
        *self.last_stop.lock().unwrap() = Some(stop);
        self.webhooks.lock().unwrap().push(webhook);
        self.came.notify_one();
        Box::pin(std::future::ready(read))
    }

    fn format_outgoing<'a>(
        &'a self,
        _plugin: &'a str,
        reply: ChannelReply,
        _stop: CancellationToken,
    ) -> BoxFuture<'a, Result<FormattedReply, ChannelError>> {
        self.replies.lock().unwrap().push(reply);
        self.replied.notify_one();
        Box::pin(std::future::ready(Ok(FormattedReply::default())))
    }

    fn send<'a>(
        &'a self,
        _plugin: &'a str,
        _request: ChannelRequest,
        _stop: CancellationToken,
    ) -> BoxFuture<'a, Result<FetchResponse, FetchError>> {
        Box::pin(std::future::ready(Err(FetchError::Refused("nothing is sent".to_owned()))))
    }
}

struct Bench {
    router: Router,
    adapter: Arc<Adapter>,
    clock: Arc<ManualClock>,
    draining: CancellationToken,
}

struct Setup {
    checks: Vec<WebhookChannel>,
    scripts: Vec<Script>,
    budgets: BudgetLimits,
}

impl Default for Setup {
    fn default() -> Self {
        let token = || VerifyMethod::Token { header: "X-Token".into() };
        let checks = vec![
            check("hook", token()),
            check("wait", token()),
            check("slack", VerifyMethod::Slack),
            check("open", VerifyMethod::None),
            // Known to the gateway but not to the board.
            check("forgotten", token()),
        ];
        Self { checks, scripts: Vec::new(), budgets: BudgetLimits::default() }
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), "application/json", "{self:?}");
        serde_json::from_str(&self.text).unwrap()
    }

    fn said(&self) -> (u16, &str) {
        (self.status, &self.text)
    }
}

impl Bench {
    fn new() -> Self {
        Self::with(Setup::default())
    }

    fn with(setup: Setup) -> Self {
        let (adapter, clock) = (Arc::new(Adapter::default()), Arc::new(ManualClock::default()));
        let draining = CancellationToken::new();
        let board = board(adapter.clone(), clock.clone(), setup.scripts, setup.budgets);
        let options = GatewayOptions {
            // A token of the gateway's own, which webhooks need not know.
            gate: Arc::new(AuthGate::new("gateway", Some("the gateway's".into()), None, Arc::default())),
            guard: OriginGuard { surface: "gateway", allowed_hosts: Vec::new(), allowed_origins: Vec::new() },
            limits: PumpLimits::default(),
            clients: Arc::new(Reloadable::new(ClientLimits {
                rate: RateLimit { per_second: 1.0, burst: 1.0 },
                max_message: 1024,
                sign_in: Duration::from_secs(5),
            })),
            version: "1.2.3",
            metrics: None,
            channels: setup.checks,
            clock: clock.clone(),
            draining: draining.clone(),
            tracker: TaskTracker::new(),
        };
        Self { router: router(board, options), adapter, clock, draining }
    }

    async fn send(&self, request: Request) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        Answer { status, headers, text: String::from_utf8(body.to_vec()).unwrap() }
    }

    /// With the right token.
    async fn post(&self, channel: &str, body: &str) -> Answer {
        self.send(request("POST", channel, &[("x-token", SECRET)], body.to_owned())).await
    }

    /// What the agent's answer became for the adapter, the next time there is one.
    async fn next_reply(&self) -> ChannelReply {
        loop {
            if let Some(reply) = self.adapter.replies.lock().unwrap().pop() {
                return reply;
            }
            self.adapter.replied.notified().await;
        }
    }
}

fn check(name: &str, verify: VerifyMethod) -> WebhookChannel {
    let rate = RateLimit { per_second: 1000.0, burst: 1000.0 };
    WebhookChannel {
        name: name.into(),
        verify,
        secret: Some(SECRET.into()),
        replay_window: Duration::from_secs(300),
        rate,
    }
}

/// From this machine, unless a test says otherwise.
fn request(method: &str, channel: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Request {
    let uri: Uri = format!("/webhook/{channel}").parse().unwrap();
    let mut builder = Request::builder().method(method).uri(uri);
    if !headers.iter().any(|(name, _)| *name == "host") {
        builder = builder.header("host", "localhost:7200");
    }
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    let mut request = builder.body(body.into()).unwrap();
    request.extensions_mut().insert(Peer::at("127.0.0.1".parse::<IpAddr>().unwrap()));
    request
}

fn board(adapter: Arc<Adapter>, clock: Arc<ManualClock>, scripts: Vec<Script>, budgets: BudgetLimits) -> Board {
    let channel = |name: &str, wait| ChannelOptions {
        name: name.into(),
        plugin: "adapter".into(),
        wait,
        max_open_deliveries: 2,
        replay_window: Duration::from_secs(300),
    };
    let change = |parts: &mut BoardParts| {
        parts.clock = clock;
        parts.plugins = Some(adapter);
        parts.channels = vec![
            channel("hook", None),
            channel("wait", Some(Duration::from_secs(25))),
            channel("slack", None),
            channel("open", None),
        ];
        parts.budgets = budgets;
    };
    TestBoard::new(scripts).with(change).assemble()
}
