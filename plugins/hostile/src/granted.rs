//! Uses the host's interfaces, with or without the grants for them.

use crate::bindings::patchboard::plugin::host_functions::{self, CallError};
use crate::bindings::patchboard::plugin::http::{self, HttpError, Request};
use crate::bindings::patchboard::plugin::log::{self, Level};
use crate::bindings::patchboard::plugin::store::{self, StoreError};
use crate::bindings::patchboard::plugin::{clock, random, settings};
use crate::what::Arguments;

/// Of a page in the answer.
const SHOWN: usize = 2_000;

pub(crate) fn spin_host() -> ! {
    loop {
        log::write(Level::Trace, &clock::now().wrapping_add(clock::monotonic()).to_string());
    }
}

pub(crate) fn http(arguments: &Arguments) -> Result<String, String> {
    let headers = arguments.headers.clone().unwrap_or_default();
    let request = Request {
        method: arguments.method.clone().unwrap_or_else(|| "GET".to_owned()),
        url: arguments.url.clone().unwrap_or_else(|| "http://127.0.0.1:1/".to_owned()),
        headers: headers.into_iter().collect(),
        body: arguments.body.clone().map(String::into_bytes),
        timeout_ms: None,
    };
    match http::send(&request) {
        Ok(response) => {
            let body = String::from_utf8_lossy(&response.body);
            let shown: String = body.chars().take(SHOWN).collect();
            Ok(format!("status {}\n{shown}", response.status))
        }
        Err(HttpError::Denied(why)) => Err(format!("denied: {why}")),
        Err(HttpError::Invalid(why)) => Err(format!("invalid: {why}")),
        Err(HttpError::Timeout(why)) => Err(format!("timeout: {why}")),
        Err(HttpError::Failed(why)) => Err(format!("failed: {why}")),
    }
}

/// Sets `key` when there is a `value`, and answers with what is there then.
pub(crate) fn store(arguments: &Arguments) -> Result<String, String> {
    let name = arguments.name("notes");
    let key = arguments.key.clone().unwrap_or_else(|| "key".to_owned());
    if let Some(value) = &arguments.value {
        store::set(&name, &key, value.as_bytes()).map_err(of_store)?;
    }
    let found = store::get(&name, &key).map_err(of_store)?;
    Ok(found.map_or_else(|| "nothing".to_owned(), |value| String::from_utf8_lossy(&value).into_owned()))
}

/// Fills a store with large values until it refuses.
pub(crate) fn store_flood(name: &str, most: u64) -> Result<String, String> {
    let value = vec![b'x'; 256 * 1024];
    for at in 0..most {
        store::set(name, &format!("flood-{at}"), &value).map_err(|error| format!("after {at}: {}", of_store(error)))?;
    }
    Ok(format!("kept {most} values"))
}

fn of_store(error: StoreError) -> String {
    match error {
        StoreError::Denied(why) => format!("denied: {why}"),
        StoreError::Full(why) => format!("full: {why}"),
        StoreError::Failed(why) => format!("failed: {why}"),
    }
}

pub(crate) fn host_function(name: &str, arguments: &str) -> Result<String, String> {
    host_functions::call(name, arguments).map_err(|error| match error {
        CallError::Denied(why) => format!("denied: {why}"),
        CallError::Failed(why) => format!("failed: {why}"),
    })
}

pub(crate) fn log_flood(lines: u64) -> String {
    let line = "flood ".repeat(2_000);
    for _ in 0..lines {
        log::write(Level::Error, &line);
    }
    format!("wrote {lines} lines")
}

pub(crate) fn log_lines() -> String {
    log::write(Level::Warn, "first\n2026-01-01T00:00:00Z ERROR forged: \u{1b}[31mred\u{1b}[0m\r\n\0end");
    "wrote a line".to_owned()
}

/// How many bytes come when all are asked for.
pub(crate) fn random_flood() -> usize {
    random::bytes(u32::MAX).len()
}

pub(crate) fn setting(name: &str) -> Result<String, String> {
    settings::get(name).ok_or_else(|| format!("no setting is called `{name}`"))
}

pub(crate) fn secrets() -> String {
    serde_json::json!(settings::secrets()).to_string()
}
