//! What the operator can set.

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Without a slash at the end.
    pub(crate) api_root: String,
    /// Is a message that is in no thread answered in a new one?
    pub(crate) reply_in_thread: bool,
}

impl Settings {
    pub(crate) fn read(get: impl Fn(&str) -> Option<String>) -> Settings {
        let api_root = get("api_root").unwrap_or_else(|| "https://slack.com/api".to_owned());
        Settings {
            api_root: api_root.trim_end_matches('/').to_owned(),
            reply_in_thread: get("reply_in_thread").is_some_and(|value| value.trim() == "true"),
        }
    }
}

#[cfg(test)]
mod tests;
