//! Errors while opening a database. Errors while serving are the port's `StoreError`.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("failed to create the database file: {}", path.display())]
    Create {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("failed to open the database: {}", path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
    #[error("not a Patchboard database: {}", path.display())]
    NotPatchboard { path: PathBuf },
    #[error("the database was written by a newer program (schema {found}, this program knows {known}): {}", path.display())]
    NewerSchema { path: PathBuf, found: u32, known: u32 },
    #[error("failed to bring the database to schema {to}: {}", path.display())]
    Migrate {
        path: PathBuf,
        to: u32,
        #[source]
        source: rusqlite::Error,
    },
    #[error("failed to start a storage thread")]
    Thread(#[source] io::Error),
}
