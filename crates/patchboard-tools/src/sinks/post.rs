//! POSTs notices to an address from the configuration, with retries.

use std::time::Duration;

use patchboard_core::backoff::BackoffSchedule;
use patchboard_core::port::NoticeSink;
use patchboard_http::transport::root_cause;
use patchboard_http::{Client, ClientKind, ClientOptions, ConnectionReuse, RequestBuilder, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of one attempt. With all attempts and delays a notice is dropped in less than a minute.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
const BACKOFF: BackoffSchedule =
    BackoffSchedule::listed(&[Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(8)])
        .with_max_retries(3);

/// The target of a sink. Unlike tools, it may be a private address, because the operator configured it.
#[derive(Debug)]
pub(super) struct PostClient {
    url: Url,
    token: Option<SecretString>,
    /// Built on first use: loading the trust store is slow.
    client: OnceCell<Client>,
    backoff: BackoffSchedule,
}

/// Why an attempt failed.
enum PostFailure {
    /// The notice was not accepted, so a retry cannot deliver it twice.
    Transient(String),
    Permanent(String),
}

impl PostClient {
    /// Errors do not repeat the address, which may hold credentials.
    pub(super) fn new(url: &str, token: Option<SecretString>) -> Result<Self, String> {
        let url = Url::parse(url).map_err(|error| format!("the address cannot be read: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err("the address is not one of the web".to_owned());
        }
        Ok(Self { url, token, client: OnceCell::new(), backoff: BACKOFF })
    }

    /// Sends the request that `fill` completes.
    pub(super) async fn post(
        &self,
        stop: &CancellationToken,
        fill: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<(), String> {
        let attempts = async {
            let mut delays = self.backoff.retries();
            loop {
                match (self.attempt(&fill).await, delays.next()) {
                    (Ok(()), _) => return Ok(()),
                    (Err(PostFailure::Transient(_)), Some(delay)) => tokio::time::sleep(delay).await,
                    (Err(PostFailure::Transient(error) | PostFailure::Permanent(error)), _) => return Err(error),
                }
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => Err(format!("the server stopped before `{}` had it", self.host())),
            done = attempts => done,
        }
    }

    async fn attempt(&self, fill: &impl Fn(RequestBuilder) -> RequestBuilder) -> Result<(), PostFailure> {
        let failed = |error: patchboard_http::Error| {
            let (host, cause) = (self.host(), root_cause(&error));
            match error.is_connect() {
                true => PostFailure::Transient(format!("cannot connect to `{host}`: {cause}")),
                // The server may have accepted it, so it is not sent again.
                false => PostFailure::Permanent(format!("`{host}` gave no proper answer: {cause}")),
            }
        };
        let client = self.client.get_or_try_init(|| self.client_options().build()).await.map_err(failed)?;
        let mut request = client.post(self.url.clone());
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose_secret());
        }
        // The body of the response is not read.
        let status = fill(request).send().await.map_err(failed)?.status();
        let refusal = || format!("`{}` answered {}", self.host(), status.as_u16());
        match status {
            status if status.is_success() => Ok(()),
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                Err(PostFailure::Transient(refusal()))
            }
            _ => Err(PostFailure::Permanent(refusal())),
        }
    }

    fn client_options(&self) -> ClientOptions {
        ClientOptions::new(ClientKind::for_url(&self.url))
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(ATTEMPT_TIMEOUT)
            // Notices are far apart: an idle connection would be closed by the server before its next use.
            .reuse(ConnectionReuse::Never)
    }

    fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    #[cfg(test)]
    pub(super) fn without_retry_delays(&mut self) {
        self.backoff = BackoffSchedule::listed(&[Duration::ZERO]).with_max_retries(3);
    }
}

/// `Debug` of a sink, without the path and the token.
pub(super) fn debug(
    sink: &dyn NoticeSink,
    post: &PostClient,
    formatter: &mut std::fmt::Formatter<'_>,
) -> std::fmt::Result {
    formatter.debug_struct(sink.name()).field("host", &post.host()).finish_non_exhaustive()
}
