//! What is said back, and what is remembered until then.

use serde_json::{Value, json};

pub(crate) const JSON: &str = "application/json";

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Context {
    pub(crate) id: Option<String>,
    pub(crate) reply_url: Option<String>,
}

impl Context {
    pub(crate) fn write(&self) -> String {
        json!({ "id": self.id, "reply_url": self.reply_url }).to_string()
    }

    pub(crate) fn read(text: &str) -> Result<Context, String> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| format!("the context is not of this adapter: {error}"))?;
        let field = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        Ok(Context { id: field("id"), reply_url: field("reply_url") })
    }
}

pub(crate) fn for_caller(reply: &str, is_error: bool) -> String {
    json!({ "reply": reply, "error": is_error }).to_string()
}

pub(crate) fn for_address(id: Option<&str>, reply: &str, is_error: bool) -> String {
    json!({ "id": id, "reply": reply, "error": is_error }).to_string()
}

#[cfg(test)]
mod tests;
