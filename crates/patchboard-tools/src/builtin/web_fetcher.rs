//! `web_fetcher`: one HTTP request, through the SSRF-protected fetcher.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use patchboard_core::port::ToolScope;
use patchboard_core::port::{FetchRequest, FetchResponse, HttpFetcher};
use patchboard_core::tool::{ToolEffect, ToolOutput, ToolSpec, UnknownOutcomePolicy};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

mod markdown;
mod page;

use super::file_runtime::text_argument;
use super::{BoxedBuiltin, BuiltinTool, TOOL_KIND};
use markdown::to_markdown;
pub(super) use page::failure_message;
use page::{header, is_html, page_text};

const TIMEOUT: Duration = Duration::from_secs(30);
/// At most this much of a page is read; the caller truncates further for the model.
const MAX_PAGE_BYTES: usize = 512 * 1024;
const MAX_HEADERS: usize = 32;

pub fn web_fetcher(fetch: Arc<dyn HttpFetcher>) -> BoxedBuiltin {
    BoxedBuiltin::new(WebFetcherTool { fetch })
}

#[derive(Debug)]
struct WebFetcherTool {
    fetch: Arc<dyn HttpFetcher>,
}

impl BuiltinTool for WebFetcherTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "web_fetcher".into(),
            description: "Fetch a URL and return the text of the answer: pages in HTML as Markdown, anything else as it \
                          is. Redirects are followed. Statuses outside of 200 to 299 are errors, binary answers are refused, and only \
                          the first 512 KiB are read. Addresses of private networks cannot be reached unless the \
                          operator allowed them."
                .into(),
            input_schema: Arc::new(json!({
                "type": "object",
                "properties": {
                    "url": {"type": "string", "minLength": 1, "description": "An `http` or `https` URL."},
                    "method": {
                        "type": "string",
                        "enum": ["GET", "POST"],
                        "description": "GET by default."
                    },
                    "body": {
                        "description": "What to POST: a string is sent as it is, anything else as JSON."
                    },
                    "headers": {
                        "type": "object",
                        "maxProperties": MAX_HEADERS,
                        "additionalProperties": {"type": "string"},
                        "description": "Further request headers."
                    }
                },
                "required": ["url"],
                "additionalProperties": false
            })),
            // A POST may change something, and some servers act on a GET too; all calls of a tool have one effect.
            effect: ToolEffect::Writes,
            unknown_outcome: UnknownOutcomePolicy::Ask,
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
            let request = match request(arguments) {
                Ok(request) => request,
                Err(reason) => return ToolOutput::error(reason),
            };
            match self.fetch.fetch(request, stop).await {
                Ok(fetched) => output(&fetched),
                Err(error) => ToolOutput::error(error.to_string()),
            }
        })
    }
}

fn request(arguments: &Value) -> Result<FetchRequest, &'static str> {
    let method = text_argument(arguments, "method").unwrap_or("GET");
    let given = arguments.get("headers").and_then(Value::as_object).into_iter().flatten();
    let mut headers: Vec<(String, String)> =
        given.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect();
    let body = arguments.get("body").filter(|body| !body.is_null());
    if body.is_some() && method != "POST" {
        return Err("a `body` is sent only with the `method` POST");
    }
    if let Some(body) = body
        && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
    {
        let content_type = if body.is_string() { "text/plain; charset=utf-8" } else { "application/json" };
        headers.push(("content-type".to_owned(), content_type.to_owned()));
    }
    let body = body.map(|body| match body {
        Value::String(text) => text.clone().into_bytes(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            body.to_string().into_bytes()
        }
    });
    Ok(FetchRequest {
        method: method.to_owned(),
        url: text_argument(arguments, "url").unwrap_or_default().to_owned(),
        headers,
        body,
        timeout: TIMEOUT,
        max_bytes: MAX_PAGE_BYTES,
        only_hosts: None,
    })
}

fn output(fetched: &FetchResponse) -> ToolOutput {
    let status = fetched.status;
    if !(200..300).contains(&status) {
        return ToolOutput::error(failure_message(fetched));
    }
    if fetched.body.is_empty() {
        return ToolOutput::ok(format!("The answer has status {status} and no body."));
    }
    match page_text(fetched) {
        Ok(page) => {
            let mut text = if is_html(fetched, &page) { markdown_text(&page, &fetched.url) } else { page };
            if fetched.is_truncated {
                text.push_str(&format!("\n\n[cut: only the first {} bytes were read]", fetched.body.len()));
            }
            ToolOutput::ok(text)
        }
        Err(binary) => {
            let kind = header(fetched, "content-type").unwrap_or("no content type");
            ToolOutput::error(format!("the answer is not text: {binary} ({kind}, {} bytes)", fetched.body.len()))
        }
    }
}

fn markdown_text(html: &str, url: &str) -> String {
    let page = to_markdown(html, url, MAX_PAGE_BYTES);
    match (page.text.is_empty(), page.is_truncated) {
        (true, _) => "[the page holds no text without its scripts]".to_owned(),
        (false, true) => format!("{}\n\n[cut: only the first {MAX_PAGE_BYTES} bytes of its text are shown]", page.text),
        (false, false) => page.text,
    }
}

#[cfg(test)]
pub(super) mod tests;
