//! What can be asked for.

use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    /// Endless, without a call to the host.
    Loop,
    /// Endless, with calls to the host.
    SpinHost,
    /// Takes and touches memory until an allocation fails, which ends the instance.
    Grow,
    /// The same, and answers how much was had.
    GrowPolitely,
    /// `bytes` of output.
    Huge,
    Recurse,
    RecurseMemory,
    Panic,
    Abort,
    /// With `code`.
    Exit,
    /// Answers with the error `text`.
    Error,
    /// A static that counts.
    Count,
    StdoutFlood,
    StderrFlood,
    ReadFile,
    WriteFile,
    ListFolder,
    ListEnv,
    Connect,
    Listen,
    Resolve,
    SpawnThread,
    SpawnProcess,
    Sleep,
    ReadStdin,
    Http,
    /// `http` under the name of what the other side does.
    Redirect,
    Store,
    StoreFlood,
    HostFunction,
    CallItself,
    LogFlood,
    /// Lines that try to look like several.
    LogLines,
    RandomFlood,
    /// The setting called `name`.
    Setting,
    /// The names of all secrets.
    Secrets,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Arguments {
    pub(crate) what: What,
    pub(crate) url: Option<String>,
    pub(crate) method: Option<String>,
    pub(crate) body: Option<String>,
    pub(crate) headers: Option<std::collections::BTreeMap<String, String>>,
    pub(crate) key: Option<String>,
    pub(crate) value: Option<String>,
    name: Option<String>,
    arguments: Option<Value>,
    path: Option<String>,
    address: Option<String>,
    text: Option<String>,
    bytes: Option<usize>,
    count: Option<u64>,
    code: Option<i32>,
    ms: Option<u64>,
}

impl Arguments {
    pub(crate) fn name(&self, usual: &str) -> String {
        self.name.clone().unwrap_or_else(|| usual.to_owned())
    }

    /// JSON, also where it was given as text, which need not be JSON at all.
    pub(crate) fn arguments(&self) -> String {
        match &self.arguments {
            None => "{}".to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        }
    }

    pub(crate) fn path(&self) -> String {
        self.path.clone().unwrap_or_else(|| "/etc/passwd".to_owned())
    }

    pub(crate) fn address(&self) -> String {
        self.address.clone().unwrap_or_else(|| "127.0.0.1:22".to_owned())
    }

    pub(crate) fn text(&self) -> String {
        self.text.clone().unwrap_or_else(|| "made to fail".to_owned())
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.unwrap_or(64 * 1024 * 1024)
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.unwrap_or(100_000)
    }

    pub(crate) fn code(&self) -> i32 {
        self.code.unwrap_or(0)
    }

    pub(crate) fn ms(&self) -> u64 {
        self.ms.unwrap_or(60_000)
    }

    /// A number that the compiler cannot know.
    pub(crate) fn seed(&self) -> u64 {
        self.count.unwrap_or(1)
    }
}

pub(crate) fn read(name: &str, arguments: &str) -> Result<Arguments, String> {
    if name != "hostile" {
        return Err(format!("no tool is called `{name}`"));
    }
    serde_json::from_str(arguments).map_err(|error| format!("the arguments cannot be read: {error}"))
}

pub(crate) fn schema() -> String {
    let text = || json!({ "type": "string" });
    let number = || json!({ "type": "integer", "minimum": 0 });
    json!({
        "type": "object",
        "properties": {
            "what": text(), "url": text(), "method": text(), "body": text(), "headers": { "type": "object" },
            "key": text(), "value": text(), "name": text(), "arguments": {}, "path": text(), "address": text(),
            "text": text(), "bytes": number(), "count": number(), "code": { "type": "integer" }, "ms": number(),
        },
        "required": ["what"],
    })
    .to_string()
}

#[cfg(test)]
mod tests;
