//! The process environment: every variable the program reads is a constant
//! here, and nothing else in the program asks the process for one.

use std::{collections::BTreeMap, fmt};

/// Start of variables that set configuration keys:
/// `PATCHBOARD__SECTION__KEY`, case-insensitive, parts joined by `__`.
pub(crate) const CONFIG_PREFIX: &str = "PATCHBOARD__";
/// Key for the Anthropic API, used by providers of kind `anthropic` that name
/// neither `api_key` nor `base_url`, and to choose a provider when none is configured.
pub const ANTHROPIC_API_KEY: &str = "ANTHROPIC_API_KEY";
/// API root for providers of kind `anthropic` that name no `base_url`.
pub(crate) const ANTHROPIC_BASE_URL: &str = "ANTHROPIC_BASE_URL";
/// Key for the OpenAI API, used like [`ANTHROPIC_API_KEY`] for kind `openai`.
pub const OPENAI_API_KEY: &str = "OPENAI_API_KEY";
/// API root for providers of kind `openai` that name no `base_url`.
pub(crate) const OPENAI_BASE_URL: &str = "OPENAI_BASE_URL";
/// Token that commands present to a server named with `--url`; a good name for `gateway.token` to refer to.
pub const PATCHBOARD_TOKEN: &str = "PATCHBOARD_TOKEN";
/// Folders where programs are looked for.
pub const PATH: &str = "PATH";
/// Home folder: what `~` means and where defaults live.
pub const HOME: &str = "HOME";
/// Folder for configuration files instead of `~/.config`.
pub(crate) const XDG_CONFIG_HOME: &str = "XDG_CONFIG_HOME";
/// Folder for data instead of `~/.local/share`.
pub(crate) const XDG_DATA_HOME: &str = "XDG_DATA_HOME";
/// The bus that desktop notifications are sent over.
pub const DBUS_SESSION_BUS_ADDRESS: &str = "DBUS_SESSION_BUS_ADDRESS";
/// Folder where that bus is looked for when it is not named.
pub const XDG_RUNTIME_DIR: &str = "XDG_RUNTIME_DIR";
/// Log filter used when `log.filter` is not set.
pub(crate) const RUST_LOG: &str = "RUST_LOG";
/// Any non-empty value turns colour off.
pub const NO_COLOR: &str = "NO_COLOR";
/// Kind of the terminal; on a `dumb` one nothing is drawn in place.
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
    (PATH, "where programs named by `command` are looked for"),
    (XDG_CONFIG_HOME, "where `patchboard/patchboard.toml` and stored keys live, instead of `~/.config`"),
    (XDG_DATA_HOME, "where the default data folder lives, instead of `~/.local/share`"),
    (DBUS_SESSION_BUS_ADDRESS, "bus that desktop notifications are sent over"),
    (
        XDG_RUNTIME_DIR,
        "where `bus` is looked for when `DBUS_SESSION_BUS_ADDRESS` is not set, instead of `/run/user/UID`",
    ),
    ("TZ", "time zone of `notifications.quiet`, instead of the system's"),
    (RUST_LOG, "log filter when `log.filter` is not set"),
    (NO_COLOR, "any non-empty value turns colour off"),
    (TERM, "where it is `dumb` or not set, nothing is drawn in place"),
];

/// A snapshot of environment variables. Tests make their own; the process'
/// variables are read once, at start, and never changed.
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

    /// Variables that set configuration keys: the whole name, the part after
    /// the prefix, and the value, in order of their names.
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
