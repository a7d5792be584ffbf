//! Parses the results of either service and renders them as text. Pure.

use patchboard_http::Url;
use serde::Deserialize;
use serde_json::Value;

use crate::text::clipped;

const MAX_TITLE_BYTES: usize = 200;
const MAX_URL_BYTES: usize = 1000;
const MAX_DATE_BYTES: usize = 40;
/// All excerpts share this limit, within the bounds per excerpt below.
const MAX_EXCERPTS_BYTES: usize = 32 * 1024;
const MAX_EXCERPT_BYTES: usize = 1500;
const MIN_EXCERPT_BYTES: usize = 300;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SearchHit {
    title: String,
    url: String,
    date: String,
    excerpt: String,
}

#[derive(Deserialize)]
struct SearchResponse {
    results: Vec<SearchResult>,
}

/// Services differ in which fields they leave out or set to null; only strings are used.
#[derive(Deserialize)]
struct SearchResult {
    title: Option<Value>,
    url: Option<Value>,
    #[serde(rename = "publishedDate")]
    published: Option<Value>,
    /// The page's text from Exa; SearXNG has its excerpt in `content`.
    text: Option<Value>,
    content: Option<Value>,
}

impl SearchHit {
    /// Returns true if the page is at this domain or a subdomain.
    pub(super) fn is_on_domain(&self, domain: &str) -> bool {
        let Ok(url) = Url::parse(&self.url) else { return false };
        let (host, domain) = (url.host_str().unwrap_or_default(), domain.trim_matches('.').to_ascii_lowercase());
        host.strip_suffix(domain.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }

    /// The day of publication, if known.
    pub(super) fn day(&self) -> Option<&str> {
        self.date.get(..10)
    }
}

/// `None` if the body is not a search response.
pub(super) fn parse_hits(body: &[u8]) -> Option<Vec<SearchHit>> {
    let answer: SearchResponse = serde_json::from_slice(body).ok()?;
    let text = |value: Option<Value>| match value {
        Some(Value::String(text)) => text,
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) | None => {
            String::new()
        }
    };
    let hits = answer.results.into_iter().map(|found| SearchHit {
        title: one_line(&text(found.title), MAX_TITLE_BYTES),
        url: one_line(&text(found.url), MAX_URL_BYTES),
        date: one_line(&text(found.published), MAX_DATE_BYTES),
        excerpt: one_line(&text(found.text.or(found.content)), MAX_EXCERPT_BYTES),
    });
    Some(hits.filter(|hit| !hit.url.is_empty()).collect())
}

pub(super) fn render_hits(hits: &[SearchHit]) -> String {
    if hits.is_empty() {
        return "Nothing was found.".to_owned();
    }
    let room = (MAX_EXCERPTS_BYTES / hits.len()).clamp(MIN_EXCERPT_BYTES, MAX_EXCERPT_BYTES);
    let mut told = String::new();
    for (number, hit) in (1..).zip(hits) {
        let title = if hit.title.is_empty() { "(no title)" } else { &hit.title };
        told.push_str(&format!("{number}. {title}\n   {}\n", hit.url));
        if !hit.date.is_empty() {
            told.push_str(&format!("   {}\n", hit.date));
        }
        if !hit.excerpt.is_empty() {
            told.push_str(&format!("   {}\n", clipped(&hit.excerpt, room)));
        }
    }
    told.truncate(told.trim_end().len());
    told
}

/// Text of a page on one line, so that it cannot imitate another result.
fn one_line(text: &str, limit: usize) -> String {
    let mut line = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > limit {
            return clipped(&line, limit);
        }
    }
    line
}
