//! Scans the plugins folder: every `NAME.wasm` in it is a plugin.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file::{FolderLocation, PluginFiles, is_world_writable};

/// Further files in the folder are ignored.
const MAX_FILES: usize = 4096;
/// Further plugins are ignored.
pub(super) const MAX_PLUGINS: usize = 256;

/// The result of a scan. A missing folder counts as empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FolderScan {
    /// Names and files, sorted by name.
    pub(super) found: Vec<(Arc<str>, PathBuf)>,
    /// Warnings for the operator.
    pub(super) warnings: Vec<String>,
}

/// Scans the folder. `configured` lists files that already are plugins under their configured names. Blocks.
pub(super) fn scan(folder: &Path, configured: &[PathBuf]) -> FolderScan {
    let mut scan = FolderScan::default();
    let shown = folder.display();
    let files = match folder.read_dir() {
        Ok(files) => files,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return scan,
        Err(error) => {
            scan.warnings.push(format!("failed to read the plugins folder {shown}: {error}"));
            return scan;
        }
    };
    if folder.metadata().is_ok_and(|metadata| is_world_writable(&metadata)) {
        scan.warnings.push(format!("every user of this machine may put plugins into {shown}; revoke that right"));
    }
    let configured: HashSet<PathBuf> = configured.iter().filter_map(|file| file.canonicalize().ok()).collect();
    for (at, file) in files.enumerate() {
        if at == MAX_FILES {
            scan.warnings.push(format!("{shown} has more than {MAX_FILES} files; the others are not looked at"));
            break;
        }
        let Ok(file) = file else { continue };
        let path = file.path();
        if path.extension() != Some(OsStr::new("wasm")) || file.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if path.canonicalize().is_ok_and(|real| configured.contains(&real)) {
            continue;
        }
        match path.file_stem().and_then(OsStr::to_str).filter(|name| is_name(name)) {
            Some(name) => scan.found.push((name.into(), path)),
            None => scan.warnings.push(format!(
                "{} is no plugin: a plugin's name has up to 64 letters, digits, `_` and `-`",
                path.display()
            )),
        }
    }
    scan.found.sort();
    scan
}

pub(super) fn plugin_files(folder: &Arc<Path>, file: PathBuf) -> PluginFiles {
    let sidecar = file.with_extension("toml");
    PluginFiles { file, folder: Some(FolderLocation { folder: folder.clone(), sidecar }) }
}

fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    !text.is_empty() && text.len() <= 64 && text.bytes().all(fits)
}

#[cfg(test)]
mod tests;
