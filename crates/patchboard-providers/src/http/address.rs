//! The root URL of an API from the configuration, and the URLs of its endpoints.

use patchboard_http::{ClientKind, Url, host_label};

use crate::Error;

/// Endpoints that are often configured instead of the root.
const ENDPOINTS: [&str; 4] = ["/chat/completions", "/messages", "/embeddings", "/models"];

#[derive(Debug, Clone)]
pub(crate) struct ApiRoot {
    url: Url,
    /// Host and port, the only part that messages show: the rest of a URL may hold credentials.
    label: String,
}

impl ApiRoot {
    /// Accepts a root with or without a version; if no segment of the path looks like one, `/v1` is appended.
    pub(crate) fn parse(provider: &str, text: &str) -> Result<Self, Error> {
        let refuse = |reason| Error::BaseUrl { provider: provider.to_owned(), reason };
        let mut url = Url::parse(text.trim()).map_err(|_| refuse("it is not a URL"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refuse("it must start with `http://` or `https://`"));
        }
        let label = host_label(&url).ok_or_else(|| refuse("it names no host"))?;
        url.set_query(None);
        url.set_fragment(None);
        let mut path = url.path().trim_end_matches('/');
        for endpoint in ENDPOINTS {
            path = path.strip_suffix(endpoint).unwrap_or(path);
        }
        let path = match path.split('/').any(is_version) {
            true => path.to_owned(),
            false => format!("{path}/v1"),
        };
        url.set_path(&path);
        Ok(Self { url, label })
    }

    pub(crate) fn endpoint(&self, path: &str) -> Url {
        let mut url = self.url.clone();
        url.set_path(&format!("{}/{path}", self.url.path()));
        url
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    pub(crate) fn is_host(&self, host: &str) -> bool {
        self.url.host_str() == Some(host)
    }

    pub(crate) fn client_kind(&self) -> ClientKind {
        ClientKind::for_url(&self.url)
    }
}

/// `v1`, `v2`, `v1beta`, …
fn is_version(segment: &str) -> bool {
    segment.strip_prefix('v').is_some_and(|rest| {
        rest.starts_with(|first: char| first.is_ascii_digit()) && rest.chars().all(|c| c.is_ascii_alphanumeric())
    })
}

#[cfg(test)]
mod tests;
