//! Builds the request for each service, and filters its results. Pure.

use patchboard_core::port::FetchRequest;
use patchboard_http::Url;
use serde_json::{Map, Value};

use super::super::file_runtime::{integer_argument, text_argument};
use super::hits::SearchHit;
use super::{MAX_ANSWER_BYTES, SearchKind, SearchTopic, TIMEOUT};

pub(super) const MAX_RESULTS: u64 = 100;
const DEFAULT_RESULTS: u64 = 10;

/// Passed to Exa under the same names.
const EXA_PARAMETERS: [&str; 6] =
    ["type", "category", "includeDomains", "excludeDomains", "startPublishedDate", "endPublishedDate"];

#[derive(Debug)]
pub(super) struct SearchQuery<'a> {
    query: &'a str,
    max_results: u64,
    /// Determines the defaults of arguments that the model left out.
    topic: SearchTopic,
    arguments: &'a Value,
}

impl<'a> SearchQuery<'a> {
    pub(super) fn from_arguments(field: SearchTopic, arguments: &'a Value) -> Self {
        let results = integer_argument(arguments, "numResults").unwrap_or(DEFAULT_RESULTS).clamp(1, MAX_RESULTS);
        Self {
            query: text_argument(arguments, "query").unwrap_or_default(),
            max_results: results,
            topic: field,
            arguments,
        }
    }

    pub(super) fn request(&self, kind: SearchKind, endpoint: &Url, key: Option<&str>) -> FetchRequest {
        let mut headers = vec![("accept".to_owned(), "application/json".to_owned())];
        headers.extend(key.map(|key| ("x-api-key".to_owned(), key.to_owned())));
        let mut url = endpoint.clone();
        let (method, body) = match kind {
            SearchKind::Exa => {
                headers.push(("content-type".to_owned(), "application/json".to_owned()));
                ("POST", Some(self.exa_body().to_string().into_bytes()))
            }
            SearchKind::SearXng => {
                self.add_searxng(&mut url);
                ("GET", None)
            }
        };
        let (method, url) = (method.to_owned(), url.into());
        FetchRequest { method, url, headers, body, timeout: TIMEOUT, max_bytes: MAX_ANSWER_BYTES, only_hosts: None }
    }

    /// Keeps the hits that match the arguments. SearXNG accepts neither domains nor dates and returns any number of
    /// results.
    pub(super) fn filter_hits(&self, kind: SearchKind, mut hits: Vec<SearchHit>) -> Vec<SearchHit> {
        if kind == SearchKind::SearXng {
            let (included, excluded) = (self.domains("includeDomains"), self.domains("excludeDomains"));
            let (start, end) = (self.day("startPublishedDate"), self.day("endPublishedDate"));
            hits.retain(|hit| {
                let lies_in = |domains: &[&str]| domains.iter().any(|domain| hit.is_on_domain(domain));
                // Most pages have no date; requiring one would drop nearly everything.
                let is_in_time = hit
                    .day()
                    .is_none_or(|day| start.is_none_or(|start| start <= day) && end.is_none_or(|end| day <= end));
                (included.is_empty() || lies_in(&included)) && !lies_in(&excluded) && is_in_time
            });
        }
        hits.truncate(usize::try_from(self.max_results).unwrap_or(usize::MAX));
        hits
    }

    fn exa_body(&self) -> Value {
        let mut body = Map::new();
        body.insert("query".to_owned(), self.query.into());
        body.insert("numResults".to_owned(), self.max_results.into());
        body.insert("contents".to_owned(), serde_json::json!({"text": true}));
        if self.topic == SearchTopic::Code {
            body.insert("category".to_owned(), "github".into());
        }
        for name in EXA_PARAMETERS {
            if let Some(value) = self.arguments.get(name) {
                body.insert(name.to_owned(), value.clone());
            }
        }
        Value::Object(body)
    }

    fn add_searxng(&self, url: &mut Url) {
        let mut query = self.query.to_owned();
        // Search engines support a single `site:`; several domains are filtered from the results.
        if let [domain] = self.domains("includeDomains")[..] {
            query.push_str(&format!(" site:{domain}"));
        }
        let category = text_argument(self.arguments, "category").or(match self.topic {
            SearchTopic::Web => None,
            SearchTopic::Code => Some("it"),
        });
        let mut pairs = url.query_pairs_mut();
        pairs.append_pair("q", &query).append_pair("format", "json");
        if let Some(category) = category {
            pairs.append_pair("categories", category);
        }
    }

    fn domains(&self, name: &str) -> Vec<&'a str> {
        let listed = self.arguments.get(name).and_then(Value::as_array).into_iter().flatten();
        listed.filter_map(Value::as_str).map(str::trim).filter(|domain| !domain.is_empty()).collect()
    }

    /// The date part, such as `2025-01-31`; such dates sort as text.
    fn day(&self, name: &str) -> Option<&'a str> {
        text_argument(self.arguments, name).and_then(|date| date.trim().get(..10))
    }
}
