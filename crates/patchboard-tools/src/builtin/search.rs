//! `websearch` and `codesearch`: queries to a search service configured by the operator. Without one, the tools do not
//! exist.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use patchboard_core::port::HttpFetcher;
use patchboard_core::port::ToolScope;
use patchboard_core::tool::{ToolEffect, ToolOutput, ToolSpec, UnknownOutcomePolicy};
use patchboard_http::{GuardedFetch, PrivateHost, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

mod hits;
mod query;

use super::web_fetcher::failure_message;
use super::{BoxedBuiltin, BuiltinTool, TOOL_KIND};
use query::SearchQuery;

const TIMEOUT: Duration = Duration::from_secs(30);
/// A longer response is an error: truncated JSON cannot be parsed.
const MAX_ANSWER_BYTES: usize = 8 * 1024 * 1024;
const MAX_QUERY_CHARACTERS: usize = 2000;
const MAX_WORD_CHARACTERS: usize = 100;
const MAX_DOMAINS: usize = 50;

/// The configured search service.
#[derive(Clone)]
pub struct SearchOptions {
    pub kind: SearchKind,
    /// With or without a path; the default is `/search`. Its host may be private, because the operator chose it.
    pub url: String,
    /// Sent as `x-api-key`.
    pub api_key: Option<SecretString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchKind {
    /// Exa, or a service with the same JSON API.
    Exa,
    SearXng,
}

/// One search service, shared by both tools.
#[derive(Clone)]
pub struct SearchEndpoint {
    kind: SearchKind,
    url: Url,
    api_key: Option<SecretString>,
    fetch: Arc<dyn HttpFetcher>,
}

/// The configured search service is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("search endpoint cannot be used: {reason}")]
pub struct InvalidEndpoint {
    pub reason: String,
}

impl SearchEndpoint {
    pub fn new(options: SearchOptions) -> Result<Self, InvalidEndpoint> {
        let refuse = |reason: &str| InvalidEndpoint { reason: reason.to_owned() };
        let mut url = Url::parse(options.url.trim()).map_err(|_| refuse("it is not a URL"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refuse("it must start with `http://` or `https://`"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refuse("it holds a user name or password"));
        }
        if url.path() == "/" {
            url.set_path("/search");
        }
        url.set_fragment(None);
        let api_key = options.api_key.filter(|key| !key.expose_secret().trim().is_empty());
        if api_key.as_ref().is_some_and(|key| key.expose_secret().trim().chars().any(char::is_control)) {
            return Err(refuse("its key holds control characters"));
        }
        let own_host = PrivateHost::of(&url).ok_or_else(|| refuse("it names no host"))?;
        let fetch = Arc::new(GuardedFetch::new(vec![own_host]));
        Ok(Self { kind: options.kind, url, api_key, fetch })
    }

    async fn search(&self, question: &SearchQuery<'_>, stop: CancellationToken) -> Result<String, String> {
        let key = self.api_key.as_ref().map(|key| key.expose_secret().trim());
        let request = question.request(self.kind, &self.url, key);
        let mut fetched =
            self.fetch.fetch(request, stop).await.map_err(|error| format!("the search failed: {error}"))?;
        if !(200..300).contains(&fetched.status) {
            if let Some(key) = key {
                // Services may echo the rejected key. Removed before any truncation, which could leave half of it.
                fetched.body = String::from_utf8_lossy(&fetched.body).replace(key, "[key]").into_bytes();
            }
            return Err(format!("the search failed: {}", failure_message(&fetched)));
        }
        if fetched.is_truncated {
            return Err(format!("the search service answered with more than {MAX_ANSWER_BYTES} bytes"));
        }
        let hits = hits::parse_hits(&fetched.body).ok_or("the search service gave an answer that cannot be read")?;
        Ok(hits::render_hits(&question.filter_hits(self.kind, hits)))
    }
}

/// Leaves out the key.
impl fmt::Debug for SearchEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearchEndpoint")
            .field("kind", &self.kind)
            .field("host", &self.url.host_str())
            .field("has_key", &self.api_key.is_some())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for SearchOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearchOptions")
            .field("kind", &self.kind)
            .field("has_key", &self.api_key.is_some())
            .finish_non_exhaustive()
    }
}

pub fn websearch(endpoint: SearchEndpoint) -> BoxedBuiltin {
    BoxedBuiltin::new(SearchTool { topic: SearchTopic::Web, endpoint })
}

pub fn codesearch(endpoint: SearchEndpoint) -> BoxedBuiltin {
    BoxedBuiltin::new(SearchTool { topic: SearchTopic::Code, endpoint })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchTopic {
    Web,
    Code,
}

#[derive(Debug)]
struct SearchTool {
    topic: SearchTopic,
    endpoint: SearchEndpoint,
}

impl BuiltinTool for SearchTool {
    fn spec(&self) -> ToolSpec {
        let (name, description) = match self.topic {
            SearchTopic::Web => (
                "websearch",
                "Search the web. Returns a numbered list of pages with title, URL, date and an excerpt; use \
                 `web_fetcher` to read one.",
            ),
            SearchTopic::Code => (
                "codesearch",
                "Search repositories and technical pages for code, libraries and how to use them. Returns a numbered \
                 list with title, URL, date and an excerpt; use `web_fetcher` to read one.",
            ),
        };
        ToolSpec {
            name: name.into(),
            description: description.into(),
            input_schema: Arc::new(schema()),
            effect: ToolEffect::ReadOnly,
            unknown_outcome: UnknownOutcomePolicy::Retry,
            timeout: None,
            kind: TOOL_KIND,
            traits: None,
        }
    }

    fn run<'a>(
        &'a self,
        _scope: &'a ToolScope,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let question = SearchQuery::from_arguments(self.topic, arguments);
            match self.endpoint.search(&question, stop).await {
                Ok(list) => ToolOutput::ok(list),
                Err(reason) => ToolOutput::error(reason),
            }
        })
    }
}

fn schema() -> Value {
    let word =
        |description: &str| json!({"type": "string", "maxLength": MAX_WORD_CHARACTERS, "description": description});
    let domains = |description: &str| {
        let domain = json!({"type": "string", "minLength": 1, "maxLength": 253});
        json!({"type": "array", "maxItems": MAX_DOMAINS, "items": domain, "description": description})
    };
    json!({
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_QUERY_CHARACTERS,
                "description": "What to look for."
            },
            "numResults": {
                "type": "integer",
                "minimum": 1,
                "maximum": query::MAX_RESULTS,
                "description": "How many results to return at most; 10 by default."
            },
            "type": word("How to search, where the service knows several ways, such as `auto`, `keyword` or `neural`."),
            "category": word("What kind of pages to look for, such as `news` or `research paper`."),
            "includeDomains": domains("Only results from these domains."),
            "excludeDomains": domains("No results from these domains."),
            "startPublishedDate": word("Only pages published on this day or later: `2025-01-31`."),
            "endPublishedDate": word("Only pages published on this day or earlier: `2025-12-31`.")
        },
        "required": ["query"],
        "additionalProperties": false
    })
}

#[cfg(test)]
mod tests;
