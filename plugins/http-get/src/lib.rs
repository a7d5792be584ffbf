//! The title of a web page, fetched through the host. Needs a grant `http:HOST` for each host it may ask.

mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "tool-plugin" });
}
mod page;

use bindings::exports::patchboard::plugin::tools::{Guest, Output, Tool};
use bindings::patchboard::plugin::http::{self, HttpError, Request};
use serde::Deserialize;

struct HttpGet;

impl Guest for HttpGet {
    fn describe() -> Vec<Tool> {
        vec![Tool {
            name: "page_title".to_owned(),
            description: "The title of a web page. Only hosts that the operator has granted can be reached.".to_owned(),
            input_schema: r#"{"type":"object","properties":{"url":{"type":"string","maxLength":2000,
                "description":"http or https"}},"required":["url"],"additionalProperties":false}"#
                .to_owned(),
            read_only: true,
        }]
    }

    fn call(name: String, arguments: String) -> Output {
        match answer(&name, &arguments) {
            Ok(content) => Output { content, is_error: false },
            Err(content) => Output { content, is_error: true },
        }
    }
}

bindings::export!(HttpGet with_types_in bindings);

#[derive(Deserialize)]
struct Arguments {
    url: String,
}

fn answer(name: &str, arguments: &str) -> Result<String, String> {
    if name != "page_title" {
        return Err(format!("no tool is called `{name}`"));
    }
    let Arguments { url } =
        serde_json::from_str(arguments).map_err(|error| format!("the arguments cannot be read: {error}"))?;
    page::check_address(&url)?;
    let response = http::send(&Request {
        method: "GET".to_owned(),
        url: url.clone(),
        headers: vec![("Accept".to_owned(), "text/html,application/xhtml+xml".to_owned())],
        body: None,
        timeout_ms: Some(10_000),
    });
    let response = response.map_err(|error| sentence(&url, error))?;
    page::title(&page::Page { url: &url, status: response.status, headers: &response.headers, body: &response.body })
}

fn sentence(url: &str, error: HttpError) -> String {
    match error {
        HttpError::Denied(why) => format!("not allowed to fetch {url}: {why}"),
        HttpError::Invalid(why) => format!("cannot ask for {url}: {why}"),
        HttpError::Timeout(why) => format!("{url} did not answer in time: {why}"),
        HttpError::Failed(why) => format!("{url} cannot be reached: {why}"),
    }
}
