//! What the operator can set.

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Without a slash at the end.
    pub(crate) api_root: String,
    /// Does an answer point at the message it answers?
    pub(crate) reply_to: bool,
    /// Chats by number or `@name`; all when empty.
    pub(crate) allowed_chats: Vec<String>,
}

impl Settings {
    pub(crate) fn read(get: impl Fn(&str) -> Option<String>) -> Settings {
        let api_root = get("api_root").unwrap_or_else(|| "https://api.telegram.org".to_owned());
        let chats = get("allowed_chats").unwrap_or_default();
        let chats = chats.split(',').map(str::trim).filter(|chat| !chat.is_empty());
        Settings {
            api_root: api_root.trim_end_matches('/').to_owned(),
            reply_to: get("reply_to").is_none_or(|value| value.trim() != "false"),
            allowed_chats: chats.map(str::to_owned).collect(),
        }
    }

    pub(crate) fn allows(&self, chat: i64, name: Option<&str>) -> bool {
        let is_meant = |allowed: &String| {
            let named = allowed.strip_prefix('@').zip(name);
            *allowed == chat.to_string() || named.is_some_and(|(allowed, name)| allowed.eq_ignore_ascii_case(name))
        };
        self.allowed_chats.is_empty() || self.allowed_chats.iter().any(is_meant)
    }
}

#[cfg(test)]
mod tests;
