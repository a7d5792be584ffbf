//! Three small tools without any grant: the first plugin to look at.

mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "tool-plugin" });
}

use std::sync::atomic::{AtomicU32, Ordering};

use bindings::exports::patchboard::plugin::tools::{Guest, Output, Tool};
use serde::Deserialize;

struct Echo;

impl Guest for Echo {
    /// What there is to call. The descriptions are all that a model knows about a tool.
    fn describe() -> Vec<Tool> {
        vec![
            tool(
                "echo",
                "Says back the text it is given, unchanged.",
                r#"{"type":"object","properties":{"text":{"type":"string","description":"What to say back"}},
                    "required":["text"],"additionalProperties":false}"#,
            ),
            tool(
                "shout",
                "Says the text in capital letters, once or several times.",
                r#"{"type":"object","properties":{"text":{"type":"string","description":"What to shout"},
                    "times":{"type":"integer","minimum":1,"maximum":10,"description":"How often; once when left out"}},
                    "required":["text"],"additionalProperties":false}"#,
            ),
            tool(
                "count_calls",
                "Counts the calls this instance of the plugin has had. It is always the first: every call has a new one.",
                r#"{"type":"object","properties":{},"additionalProperties":false}"#,
            ),
        ]
    }

    /// The host has checked the arguments against the schema before they come here.
    fn call(name: String, arguments: String) -> Output {
        match answer(&name, &arguments) {
            Ok(content) => Output { content, is_error: false },
            Err(content) => Output { content, is_error: true },
        }
    }
}

bindings::export!(Echo with_types_in bindings);

fn tool(name: &str, description: &str, input_schema: &str) -> Tool {
    Tool {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema: input_schema.to_owned(),
        read_only: true,
    }
}

#[derive(Deserialize)]
struct Say {
    text: String,
    #[serde(default = "once")]
    times: usize,
}

fn once() -> usize {
    1
}

fn answer(name: &str, arguments: &str) -> Result<String, String> {
    match name {
        "echo" => Ok(parsed(arguments)?.text),
        "shout" => {
            let Say { text, times } = parsed(arguments)?;
            Ok(vec![text.to_uppercase() + "!"; times.clamp(1, 10)].join(" "))
        }
        "count_calls" => Ok(count().to_string()),
        other => Err(format!("no tool is called `{other}`")),
    }
}

fn parsed(arguments: &str) -> Result<Say, String> {
    serde_json::from_str(arguments).map_err(|error| format!("the arguments cannot be read: {error}"))
}

/// Nothing in memory outlives a call, so this never gets beyond 1 on the server.
fn count() -> u32 {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    CALLS.fetch_add(1, Ordering::Relaxed) + 1
}

#[cfg(test)]
mod tests;
