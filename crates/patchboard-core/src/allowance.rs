//! What a person allowed for a session: further calls of one tool, in the same folder or to the same host; of a shell
//! command, those that begin with the same word and use no operators of the shell. An allowance ends with the session, or
//! after twelve hours.

use std::path::Path;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::model::{ToolCall, ToolInput};

/// The shell tool, whose calls differ too much to be allowed as one.
const SHELL_TOOL: &str = "bash";
/// Programs that run what their arguments say: the first word does not tell what is done. The list cannot be complete;
/// the jail of the command is what confines it.
const WRAPPERS: [&str; 33] = [
    "ash", "awk", "bash", "busybox", "chroot", "command", "dash", "doas", "env", "eval", "exec", "find", "fish",
    "ionice", "ksh", "nice", "node", "nohup", "perl", "python", "python3", "ruby", "script", "setsid", "sh", "ssh",
    "stdbuf", "su", "sudo", "time", "timeout", "xargs", "zsh",
];
/// How long an allowance lasts.
const LIFETIME: SignedDuration = SignedDuration::from_hours(12);
/// Most allowances of a session; the oldest goes.
pub(crate) const MAX_ALLOWANCES: usize = 64;
/// The key of a session's allowances in its namespace.
pub(crate) const STORAGE_KEY: &str = "approvals/allowed";

/// One thing that is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionAllowance {
    pub tool: Arc<str>,
    pub scope: AllowanceScope,
    pub folder: Option<Arc<Path>>,
    pub until: Timestamp,
}

/// Which calls of the tool are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowanceScope {
    /// All that work in the same folder.
    Folder,
    /// All to that host.
    Host(Arc<str>),
    /// Commands that begin with that word.
    Command(Arc<str>),
}

impl SessionAllowance {
    /// `None` if calls like this one cannot be allowed as a kind.
    pub(crate) fn of(call: &ToolCall, folder: Option<Arc<Path>>, now: Timestamp) -> Option<Self> {
        let until = now.checked_add(LIFETIME).unwrap_or(Timestamp::MAX);
        Some(Self { tool: call.name.clone(), scope: scope_of(call)?, folder, until })
    }

    pub(crate) fn covers(&self, call: &ToolCall, folder: Option<&Arc<Path>>, now: Timestamp) -> bool {
        let is_alike = self.tool == call.name && scope_of(call).is_some_and(|scope| scope == self.scope);
        is_alike && self.folder.as_ref() == folder && now < self.until
    }
}

/// Whether calls like this one can be allowed as a kind.
pub fn is_offered(call: &ToolCall) -> bool {
    scope_of(call).is_some()
}

/// `None` if calls like this one cannot be allowed as a kind: a command with operators of the shell could hold any other.
pub(crate) fn scope_of(call: &ToolCall) -> Option<AllowanceScope> {
    let ToolInput::Json(arguments) = &call.input else { return None };
    if &*call.name == SHELL_TOOL {
        let command = arguments.get("command").and_then(Value::as_str)?;
        return command_word(command).map(|word| AllowanceScope::Command(word.into()));
    }
    match arguments.get("url").and_then(Value::as_str) {
        Some(url) => host_of(url).map(|host| AllowanceScope::Host(host.into())),
        None => Some(AllowanceScope::Folder),
    }
}

/// The first word of a plain command: without operators, substitutions, redirections, assignments or several lines.
fn command_word(command: &str) -> Option<&str> {
    let is_plain = |character: char| {
        !matches!(
            character,
            ';' | '|' | '&' | '$' | '`' | '<' | '>' | '(' | ')' | '{' | '}' | '\n' | '\r' | '\\' | '!' | '#'
        )
    };
    let command = command.trim();
    if !command.chars().all(is_plain) {
        return None;
    }
    let word = command.split_whitespace().next()?;
    let program = word.rsplit('/').next()?;
    let is_wrapper = WRAPPERS.contains(&program);
    (!is_wrapper && !word.contains(['=', '\'', '"', '*', '?', '['])).then_some(word)
}

/// The host with its port, in lower case.
fn host_of(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit('@').next()?;
    (is_web && !host.is_empty()).then(|| format!("{}://{}", scheme.to_ascii_lowercase(), host.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests;
