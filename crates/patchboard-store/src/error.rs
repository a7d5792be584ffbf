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
    #[error(
        "the database was written by another version of Patchboard, in another format ({found:08x}, this program's is \
         {known:08x}): {}",
        path.display()
    )]
    OtherFormat { path: PathBuf, found: u32, known: u32 },
    #[error("failed to create the tables of the database: {}", path.display())]
    CreateSchema {
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
    #[error("failed to start a storage thread")]
    Thread(#[source] io::Error),
}
