//! Posts one JSON document to a configured address, such as a trace collector.

use std::fmt;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::CONTENT_TYPE;

use patchboard_core::retry_after::retry_after;

use crate::body::read_body;
use crate::client::{ClientKind, send_within};
use crate::pool::ClientPool;
use crate::transport::{self, host_label};

/// Response bodies are read up to this length.
const MAX_RESPONSE_BYTES: usize = 16 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const BODY_TIMEOUT: Duration = Duration::from_secs(2);

/// The target of a POST. `Debug` shows only its host: the rest may contain credentials.
#[derive(Clone)]
pub struct PostAddress {
    url: Url,
    label: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostResponse {
    pub status: u16,
    /// From `Retry-After`.
    pub retry_after: Option<Duration>,
    /// The beginning of the body.
    pub body: Vec<u8>,
}

impl PostAddress {
    /// Appends `path` to `root` unless `root` ends with it. Errors do not repeat the address.
    pub fn below(root: &str, path: &str) -> Result<Self, &'static str> {
        let mut url = Url::parse(root.trim()).map_err(|_| "it is not a URL")?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("it must start with `http://` or `https://`");
        }
        let label = host_label(&url).ok_or("it names no host")?;
        let root = url.path().trim_end_matches('/');
        let path = if root.ends_with(path) { root.to_owned() } else { format!("{root}{path}") };
        url.set_path(&path);
        Ok(Self { url, label })
    }

    pub fn host(&self) -> &str {
        &self.label
    }
}

impl fmt::Debug for PostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostAddress").field("host", &self.label).finish_non_exhaustive()
    }
}

impl ClientPool {
    /// Makes one attempt. Errors contain no URL and are safe to show.
    pub async fn post_json(&self, to: &PostAddress, body: Vec<u8>, within: Duration) -> Result<PostResponse, String> {
        let failed = |error: reqwest::Error| format!("{} ({})", transport::reason(&error), to.label);
        let posting = async {
            let client = self.client(ClientKind::for_url(&to.url)).await.map_err(failed)?;
            let request = client.post(to.url.clone()).header(CONTENT_TYPE, "application/json").body(body);
            let mut response = send_within(request, CONNECT_TIMEOUT.min(within)).await.map_err(failed)?;
            let status = response.status().as_u16();
            let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
            let retry_after = retry_after(header, None);
            let mut body = Vec::new();
            // The status is known; a body that is slow or breaks off is truncated.
            let reading = read_body(&mut response, MAX_RESPONSE_BYTES, &mut body);
            drop(tokio::time::timeout(BODY_TIMEOUT, reading).await);
            Ok(PostResponse { status, retry_after, body })
        };
        let posted = tokio::time::timeout(within, posting).await;
        posted.unwrap_or_else(|_| Err(format!("no answer in time ({})", to.label)))
    }
}

#[cfg(test)]
mod tests;
