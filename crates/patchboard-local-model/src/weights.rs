//! Validates the operator's weights early, with a reason, instead of failing in the server.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::Error;

const MAGIC: [u8; 4] = *b"GGUF";
/// GGUF versions that the server supports.
const VERSIONS: std::ops::RangeInclusive<u32> = 2..=3;

/// Checks the file and returns its absolute path, because the server runs in another directory.
pub(super) fn check(path: &Path) -> Result<PathBuf, Error> {
    let refuse = |reason| Error::Weights { path: path.to_owned(), reason };
    let mut file = File::open(path).map_err(Error::file("open the weights", path))?;
    if file.metadata().is_ok_and(|found| found.is_dir()) {
        return Err(refuse("a directory, not a file"));
    }
    let mut header = [0; 8];
    file.read_exact(&mut header).map_err(|_| refuse("too short for a GGUF file"))?;
    let [m0, m1, m2, m3, version @ ..] = header;
    if [m0, m1, m2, m3] != MAGIC {
        return Err(refuse("not a GGUF file"));
    }
    if !VERSIONS.contains(&u32::from_le_bytes(version)) {
        return Err(refuse("a version of GGUF that the server cannot read"));
    }
    let absolute = std::path::absolute(path).map_err(Error::file("find", path))?;
    if absolute.to_str().is_none() {
        return Err(refuse("the path is not valid UTF-8"));
    }
    Ok(absolute)
}

/// The model's name in requests: the file name without its extension.
pub(super) fn model_name(path: &Path) -> String {
    path.file_stem().map_or_else(|| "local".to_owned(), |stem| stem.to_string_lossy().to_lowercase())
}
