//! References to secrets. The configuration never contains a secret itself, so it can be shown, logged and committed.

use std::{
    fmt,
    io::{self, Read},
    path::{Path, PathBuf},
    str::FromStr,
};

use secrecy::SecretString;

use crate::{env::Environment, files::open_regular};

/// Reference to a secret: `env:NAME` or `file:PATH`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecretRef {
    Env(String),
    File(PathBuf),
}

/// A larger file cannot be a secret; it is read no further.
pub const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// Why a reference cannot be resolved. The text never contains the secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("environment variable `{0}` is not set")]
    EnvUnset(String),
    #[error("file `{}` cannot be read", .path.display())]
    FileUnreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("file `{}` is empty", .0.display())]
    FileEmpty(PathBuf),
    #[error("file `{}` does not hold a secret: not text, or over 64 KiB", .0.display())]
    FileUnusable(PathBuf),
}

impl SecretRef {
    /// Reads the secret, without surrounding whitespace; an empty value counts as missing.
    pub(crate) fn resolve(&self, environment: &Environment) -> Result<SecretString, SecretError> {
        match self {
            Self::Env(name) => environment
                .get(name)
                .map(str::trim)
                .filter(|value| !value.is_empty())
                .map(SecretString::from)
                .ok_or_else(|| SecretError::EnvUnset(name.clone())),
            Self::File(path) => read_secret_file(path),
        }
    }
}

fn read_secret_file(path: &Path) -> Result<SecretString, SecretError> {
    let unreadable = |source| SecretError::FileUnreadable { path: path.to_owned(), source };
    // A folder gets an error of its own instead of "cannot be read".
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(SecretError::FileUnusable(path.to_owned()));
    }
    let file = open_regular(path).map_err(unreadable)?;
    let mut text = String::new();
    let read = file.take(SECRET_BYTES_MAX + 1).read_to_string(&mut text).map_err(|source| {
        if source.kind() == io::ErrorKind::InvalidData {
            SecretError::FileUnusable(path.to_owned())
        } else {
            unreadable(source)
        }
    })?;
    if u64::try_from(read).unwrap_or(u64::MAX) > SECRET_BYTES_MAX {
        return Err(SecretError::FileUnusable(path.to_owned()));
    }
    match text.trim() {
        "" => Err(SecretError::FileEmpty(path.to_owned())),
        secret => Ok(SecretString::from(secret)),
    }
}

impl FromStr for SecretRef {
    type Err = String;

    /// The error does not repeat the input, which may be a secret.
    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once(':').unwrap_or(("", text));
        match scheme {
            "env" if is_variable_name(rest) => Ok(Self::Env(rest.to_owned())),
            "env" => Err("`env:` is not followed by a variable name".to_owned()),
            "file" if !rest.is_empty() => Ok(Self::File(PathBuf::from(rest))),
            "file" => Err("`file:` is not followed by a path".to_owned()),
            _ => Err("a secret is written into the configuration".to_owned()),
        }
    }
}

fn is_variable_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl fmt::Display for SecretRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(formatter, "env:{name}"),
            Self::File(path) => write!(formatter, "file:{}", path.display()),
        }
    }
}

super::string_value!(
    SecretRef,
    kind: "secret",
    expects: "a reference such as \"env:NAME\" or \"file:PATH\"",
    pattern: "^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$"
);
