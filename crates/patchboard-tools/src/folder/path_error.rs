//! Why a path was not opened, as messages for the model. Paths in them are quoted and bounded.

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathError {
    #[error("`path` is empty: name a file or folder, or `.` for the working folder itself")]
    Empty,
    #[error("`path` holds a NUL character, which no file name can")]
    Nul,
    #[error("`path` is longer than {limit} bytes")]
    TooLong { limit: usize },
    #[error("{path} leads outside the working folder: only what lies inside it can be opened")]
    Outside { path: String },
    #[error("{path} is closed to tools: it belongs to the server's own data or keys")]
    Protected { path: String },
    #[error("{path} does not exist")]
    Missing { path: String },
    #[error("{path} is not a folder, so nothing lies beneath it")]
    NotAFolder { path: String },
    #[error("{path} is {kind}: only regular files and folders can be opened")]
    Special { path: String, kind: &'static str },
    #[error("{path} may not be {operation}: permission denied")]
    Denied { path: String, operation: &'static str },
    #[error("{path} has too many steps or symlinks, perhaps a loop")]
    TooManySteps { path: String },
    #[error("{path} already exists")]
    Exists { path: String },
    #[error("{path} is a folder")]
    IsAFolder { path: String },
    #[error("{path} is not empty: set `recursive` to delete a folder with all that lies in it")]
    NotEmpty { path: String },
    #[error("{path} holds the server's own data or keys, so it stays where it is")]
    HoldsProtected { path: String },
    #[error("{path} holds more than {limit} entries or is nested too deeply: delete its parts one by one")]
    TooManyEntries { path: String, limit: usize },
    #[error("{path} is, or would be, larger than {limit} bytes")]
    TooLarge { path: String, limit: usize },
    #[error("{path} cannot be {operation}: {reason}")]
    Failed { path: String, operation: &'static str, reason: String },
    #[error("cancelled")]
    Cancelled,
    #[error("file tools are closed: the server cannot tell which of its own files to protect")]
    ProtectionUnknown,
}

impl PathError {
    pub(crate) fn is_protected(&self) -> bool {
        matches!(self, Self::Protected { .. })
    }
}
