//! Where in a body the words, the names and the address stand: under usual names, or wherever the operator says.

use serde_json::Value;

/// Dotted paths; the first that is there counts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    content: Vec<String>,
    id: String,
    account: String,
    peer: String,
    guild: String,
    team: String,
    reply_url: String,
    /// Where answers go when a body names no address.
    default_reply_url: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) id: Option<String>,
    pub(crate) account: Option<String>,
    pub(crate) peer: Option<String>,
    pub(crate) guild: Option<String>,
    pub(crate) team: Option<String>,
    pub(crate) content: String,
    pub(crate) reply_url: Option<String>,
}

impl Fields {
    pub(crate) fn read(get: impl Fn(&str) -> Option<String>) -> Fields {
        let set = |key: &str| get(key).filter(|value| !value.trim().is_empty());
        let path = |name: &str| set(&format!("{name}_field")).unwrap_or_else(|| name.to_owned());
        let usual = || ["content", "text", "message"].map(str::to_owned).to_vec();
        Fields {
            content: set("content_field").map_or_else(usual, |path| vec![path]),
            id: path("id"),
            account: path("account"),
            peer: path("peer"),
            guild: path("guild"),
            team: path("team"),
            reply_url: path("reply_url"),
            default_reply_url: set("reply_url"),
        }
    }

    pub(crate) fn find(&self, body: &[u8]) -> Result<Heard, String> {
        let body: Value = serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
        if !body.is_object() {
            return Err("the body is not a JSON object".to_owned());
        }
        let content = self.content.iter().find_map(|path| Some((path, at(&body, path)?)));
        let content = match content {
            Some((_, Value::String(content))) => content.clone(),
            Some((path, _)) => return Err(format!("`{path}` is not text")),
            None => return Err(format!("the body has no {}", in_words(&self.content))),
        };
        let reply_url = name(&body, &self.reply_url)?;
        if let Some(url) = &reply_url {
            check_address(&self.reply_url, url)?;
        }
        Ok(Heard {
            id: name(&body, &self.id)?,
            account: name(&body, &self.account)?,
            peer: name(&body, &self.peer)?,
            guild: name(&body, &self.guild)?,
            team: name(&body, &self.team)?,
            content,
            reply_url: reply_url.or_else(|| self.default_reply_url.clone()),
        })
    }
}

/// The value at `a.b.0.c`; null is nothing.
fn at<'a>(body: &'a Value, path: &str) -> Option<&'a Value> {
    let step = |value: &'a Value, key: &str| match value {
        Value::Array(list) => list.get(key.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => value.get(key),
    };
    path.trim().split('.').try_fold(body, step).filter(|value| !value.is_null())
}

/// A text or a number as text.
fn name(body: &Value, path: &str) -> Result<Option<String>, String> {
    match at(body, path) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(format!("`{path}` is neither text nor a number")),
    }
}

/// The address comes with the message. A place for a secret in it would be filled by the host on the way out.
fn check_address(path: &str, url: &str) -> Result<(), String> {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    if !matches!(scheme.as_deref(), Some("http" | "https")) {
        return Err(format!("`{path}` is not an http or https address"));
    }
    if url.contains("{{") {
        return Err(format!("`{path}` has `{{{{` in it, which an address may not have"));
    }
    Ok(())
}

fn in_words(paths: &[String]) -> String {
    let quoted: Vec<String> = paths.iter().map(|path| format!("`{path}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

#[cfg(test)]
mod tests;
