//! One POST to an address the operator chose, tried again where that may help.

use std::time::Duration;

use patchboard_core::backoff::BackoffSchedule;
use patchboard_core::port::NoticeSink;
use patchboard_http::transport::root_cause;
use patchboard_http::{Client, ClientKind, ClientOptions, ConnectionReuse, RequestBuilder, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// One attempt. With all of them and the pauses a notice takes less than a minute, then it is given up.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Pauses before the second, third and fourth attempt.
const BACKOFF: BackoffSchedule =
    BackoffSchedule::listed(&[Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(8)])
        .with_max_retries(3);

/// Where a sink posts to. Unlike tools, it may reach private addresses: the operator named it.
#[derive(Debug)]
pub(super) struct PostClient {
    url: Url,
    token: Option<SecretString>,
    /// Made when first used: reading the system's certificates takes a while.
    client: OnceCell<Client>,
    backoff: BackoffSchedule,
}

/// Why an attempt came to nothing.
enum PostFailure {
    /// Nobody took it; another attempt cannot deliver it twice.
    Transient(String),
    Permanent(String),
}

impl PostClient {
    /// `Err` says what is wrong with the address, without repeating it.
    pub(super) fn new(url: &str, token: Option<SecretString>) -> Result<Self, String> {
        let url = Url::parse(url).map_err(|error| format!("the address cannot be read: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err("the address is not one of the web".to_owned());
        }
        Ok(Self { url, token, client: OnceCell::new(), backoff: BACKOFF })
    }

    /// Sends what `fill` adds to the bare request.
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
                // It may have arrived all the same.
                false => PostFailure::Permanent(format!("`{host}` gave no proper answer: {cause}")),
            }
        };
        let client = self.client.get_or_try_init(|| self.client_options().build()).await.map_err(failed)?;
        let mut request = client.post(self.url.clone());
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose_secret());
        }
        // The body of the answer is of no interest; it is not read.
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
            // Notices are far apart: a kept connection would be dead when it is needed.
            .reuse(ConnectionReuse::Never)
    }

    fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Tests have no time to lose.
    #[cfg(test)]
    pub(super) fn without_retry_delays(&mut self) {
        self.backoff = BackoffSchedule::listed(&[Duration::ZERO]).with_max_retries(3);
    }
}

/// Says what a sink is without saying where its notices go.
pub(super) fn debug(
    sink: &dyn NoticeSink,
    post: &PostClient,
    formatter: &mut std::fmt::Formatter<'_>,
) -> std::fmt::Result {
    formatter.debug_struct(sink.name()).field("host", &post.host()).finish_non_exhaustive()
}
