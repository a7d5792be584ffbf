//! Folders created at start: those inaccessible to every process of the server, and those of single programs.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use patchboard_config::LoadedConfig;
use patchboard_config::credentials;

use crate::trust::guarded_files::trust_store;

/// Owner only.
const PRIVATE_MODE: u32 = 0o700;

/// The kind of a configured program with a folder in the data directory.
#[derive(Debug, Clone, Copy)]
pub(super) enum ProgramKind {
    McpServer,
    WorkerPool,
}

/// Created before any program starts: a path that does not exist cannot be protected, and keys, plugins and trust
/// records may be added while a program runs.
pub(super) fn create_closed_folders(loaded: &LoadedConfig) {
    let config = &loaded.config;
    if config.workers.is_empty() && config.mcp.values().all(|server| server.url.is_some()) {
        return;
    }
    let store = trust_store(loaded);
    let credentials = loaded.folders.credentials_dir();
    if let Some(folder) = &credentials
        && let Err(error) = credentials::create_private_folder(folder)
    {
        // In that case this user cannot store keys there either.
        tracing::debug!(%error, "the folder for keys cannot be made");
    }
    for folder in store.folders().iter().chain(&config.wasm.folder) {
        if let Err(error) = create_private_folder(folder) {
            tracing::debug!(%error, folder = %folder.display(), "a folder that is closed to programs cannot be made");
        }
    }
}

/// The folder of one program beneath the data directory. No other program can use it.
pub(super) fn program_folder(data_dir: &Path, kind: ProgramKind, name: &str) -> io::Result<PathBuf> {
    let kind = match kind {
        ProgramKind::McpServer => "mcp",
        ProgramKind::WorkerPool => "workers",
    };
    let folder = data_dir.join(kind).join(escaped_file_name(name));
    create_private_folder(&folder)?;
    Ok(folder)
}

/// Table names may contain any character, including ones that would lead to another program's folder.
fn escaped_file_name(name: &str) -> String {
    let plain =
        |index: usize, byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte) || (byte == b'.' && index > 0);
    let bytes = name.bytes().enumerate();
    bytes
        .map(|(index, byte)| if plain(index, byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// An existing folder keeps its mode.
fn create_private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE_MODE).create(folder)
}

#[cfg(test)]
mod tests;
