//! The process environment: every variable that the program reads is a constant here, and no other code reads the
//! environment.

use std::{collections::BTreeMap, fmt};

/// Prefix of variables that set configuration keys: `PATCHBOARD__SECTION__KEY`, case-insensitive, parts joined by `__`.
pub(crate) const CONFIG_PREFIX: &str = "PATCHBOARD__";
/// Key for the Anthropic API, used by providers of kind `anthropic` that name neither `api_key` nor `base_url`, and to
/// choose a provider if none is configured.
pub const ANTHROPIC_API_KEY: &str = "ANTHROPIC_API_KEY";
/// API root for providers of kind `anthropic` that name no `base_url`.
pub(crate) const ANTHROPIC_BASE_URL: &str = "ANTHROPIC_BASE_URL";
/// Key for the OpenAI API, used like [`ANTHROPIC_API_KEY`] for kind `openai`.
pub const OPENAI_API_KEY: &str = "OPENAI_API_KEY";
/// API root for providers of kind `openai` that name no `base_url`.
pub(crate) const OPENAI_BASE_URL: &str = "OPENAI_BASE_URL";
/// Token that commands present to the server given by `--url`; also the conventional variable for `gateway.token`.
pub const PATCHBOARD_TOKEN: &str = "PATCHBOARD_TOKEN";
/// Folders that are searched for programs.
pub const PATH: &str = "PATH";
/// Home folder: the meaning of `~`, and the base of default paths.
pub const HOME: &str = "HOME";
/// Folder for configuration files instead of `~/.config`.
pub(crate) const XDG_CONFIG_HOME: &str = "XDG_CONFIG_HOME";
/// Folder for data instead of `~/.local/share`.
pub(crate) const XDG_DATA_HOME: &str = "XDG_DATA_HOME";
/// Address of the D-Bus session bus for desktop notifications.
pub const DBUS_SESSION_BUS_ADDRESS: &str = "DBUS_SESSION_BUS_ADDRESS";
/// Folder of the session bus if its address is not set.
pub const XDG_RUNTIME_DIR: &str = "XDG_RUNTIME_DIR";
/// Log filter used when `log.filter` is not set.
pub(crate) const RUST_LOG: &str = "RUST_LOG";
/// Any non-empty value disables colour.
pub const NO_COLOR: &str = "NO_COLOR";
/// Terminal type; on `dumb` no progress is redrawn in place.
pub const TERM: &str = "TERM";

/// What each variable does, for the reference page.
#[cfg(test)]
pub(crate) const VARIABLES: [(&str, &str); 16] = [
    ("PATCHBOARD__SECTION__KEY", "sets any configuration key; `PATCHBOARD__GATEWAY__LISTEN=:0` is `gateway.listen`"),
    (
        ANTHROPIC_API_KEY,
        "key of `anthropic` providers that name neither `api_key` nor `base_url`; also chooses that provider when none is configured",
    ),
    (ANTHROPIC_BASE_URL, "API root of `anthropic` providers that name no `base_url`"),
    (
        OPENAI_API_KEY,
        "key of `openai` providers that name neither `api_key` nor `base_url`; also chooses that provider when none is configured",
    ),
    (OPENAI_BASE_URL, "API root of `openai` providers that name no `base_url`"),
    (PATCHBOARD_TOKEN, "token that commands present to a server named with `--url`"),
    (HOME, "what `~` means"),
    (PATH, "folders that are searched for programs named by `command`"),
    (XDG_CONFIG_HOME, "folder of `patchboard/patchboard.toml` and stored keys, instead of `~/.config`"),
    (XDG_DATA_HOME, "parent of the default data folder, instead of `~/.local/share`"),
    (DBUS_SESSION_BUS_ADDRESS, "bus that desktop notifications are sent over"),
    (
        XDG_RUNTIME_DIR,
        "folder of the socket `bus` when `DBUS_SESSION_BUS_ADDRESS` is not set, instead of `/run/user/UID`",
    ),
    ("TZ", "time zone of `notifications.quiet`, instead of the system's"),
    (RUST_LOG, "log filter when `log.filter` is not set"),
    (NO_COLOR, "any non-empty value disables colour"),
    (TERM, "terminal type; if it is `dumb` or not set, no progress is redrawn in place"),
];

/// A snapshot of environment variables. Tests create their own; the process' variables are read once, at start, and
/// never changed.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
}

impl Environment {
    pub fn from_process() -> Self {
        #[expect(clippy::disallowed_methods, reason = "this is the one place that reads it")]
        let variables = std::env::vars_os();
        variables
            .map(|(name, value)| {
                let text = |part: std::ffi::OsString| part.to_string_lossy().into_owned();
                (text(name), text(value))
            })
            .collect()
    }

    /// The value of a variable; an empty one counts as unset.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Variables that set configuration keys, in order of their names: the full name, the part after the prefix, and
    /// the value.
    pub(crate) fn config_variables(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.variables.iter().filter_map(|(name, value)| {
            let (prefix, key) = name.split_at_checked(CONFIG_PREFIX.len())?;
            prefix.eq_ignore_ascii_case(CONFIG_PREFIX).then_some((name.as_str(), key, value.as_str()))
        })
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Self { variables: pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect() }
    }
}

/// Values may be secrets, so only the number of variables is shown.
impl fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Environment({} variables)", self.variables.len())
    }
}
