//! The layer that set a value.

use std::{fmt, sync::Arc};

use super::files::{ConfigFile, FileLayer};

/// The layer that set a value, in the order of layers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValueOrigin {
    Default,
    File { file: Arc<ConfigFile>, line: usize },
    Env(String),
    Flag(String),
}

impl ValueOrigin {
    /// The layer of the file that set the value, if a file did.
    pub fn file_layer(&self) -> Option<FileLayer> {
        match self {
            Self::File { file, .. } => Some(file.layer),
            Self::Default | Self::Env(_) | Self::Flag(_) => None,
        }
    }
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File { file, line: 0 } => write!(formatter, "{}", file.shown.display()),
            Self::File { file, line } => write!(formatter, "{}:{line}", file.shown.display()),
            Self::Env(name) => write!(formatter, "env {name}"),
            Self::Flag(name) => formatter.write_str(name),
        }
    }
}
