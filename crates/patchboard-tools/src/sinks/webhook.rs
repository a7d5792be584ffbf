//! Notices as JSON to a URL chosen by the operator.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::app::UserNotice;
use patchboard_core::port::NoticeSink;
use secrecy::SecretString;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::post::{self, PostClient};
use super::priority_word;

#[derive(Debug, Clone)]
pub struct WebhookOptions {
    pub url: String,
    /// Sent as a bearer token.
    pub token: Option<SecretString>,
}

/// Sends a `POST` of `{"app","title","body","priority","message","at"}`; `app` is null for the hub's own notices.
pub struct WebhookSink {
    client: PostClient,
}

impl WebhookSink {
    /// Fails with a message about an invalid URL.
    pub fn new(options: WebhookOptions) -> Result<Self, String> {
        PostClient::new(&options.url, options.token).map(Self::at)
    }

    pub(super) fn at(post: PostClient) -> Self {
        Self { client: post }
    }
}

impl NoticeSink for WebhookSink {
    fn name(&self) -> &'static str {
        "webhook"
    }

    fn show(&self, notice: Arc<UserNotice>, stop: CancellationToken) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let body = json!({
                "app": notice.app.as_deref(),
                "title": &*notice.title,
                "body": &*notice.body,
                "priority": priority_word(notice.priority),
                "message": notice.message.map(|message| message.to_string()),
                "at": notice.at.to_string(),
            });
            self.client.post(&stop, |request| request.json(&body)).await
        })
    }
}

impl fmt::Debug for WebhookSink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        post::debug(self, &self.client, formatter)
    }
}
