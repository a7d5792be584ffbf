//! Locates configuration files in order of precedence and reads their text.
//!
//! Locating, reading and merging are separate: [`find`] lists the files, a [`ConfigFileReader`] returns the text of
//! each or leaves it out, and [`super::load`] parses and merges the results.

use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::OFlags;

use super::paths::{UserFolders, strip_current_dir_parts};

/// Name of the configuration file in the user's configuration folder and in the current folder.
pub const FILE_NAME: &str = "patchboard.toml";

/// A larger file cannot be a configuration; it is rejected unread.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// The layer of a file, in order of precedence: later ones win.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileLayer {
    /// The file in the user's configuration folder.
    User,
    /// `./patchboard.toml`. It may come from a cloned repository, so its author is not trusted.
    Project,
    /// Given by `--config`; it is then the only file.
    Named,
}

/// A path at which configuration is looked up, whether or not a file exists there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigFile {
    pub layer: FileLayer,
    /// Absolute path.
    pub path: PathBuf,
    /// Path shown in messages: relative if the file is in the current folder.
    pub shown: PathBuf,
}

impl ConfigFile {
    /// Base of relative paths in the file.
    pub fn folder(&self) -> PathBuf {
        self.path.parent().map(strip_current_dir_parts).unwrap_or_default()
    }
}

/// Reads the text of configuration files.
pub trait ConfigFileReader: fmt::Debug + Send + Sync {
    /// The text of `file`; `None` if it is left out, for example because it does not exist.
    fn read(&self, file: &ConfigFile) -> io::Result<Option<String>>;

    /// The reason, as a fragment, if a file with a secret is not used.
    fn untrusted_secret_reason(&self, _path: &Path) -> Option<String> {
        None
    }

    /// A warning for the operator if the file is left out or another text is used instead.
    fn warning(&self, _file: &ConfigFile) -> Option<FileWarning> {
        None
    }
}

/// Why a file is not used as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileWarning {
    pub message: String,
    pub hint: String,
}

/// Reads all files as they are on disk.
#[derive(Clone, Copy, Debug)]
pub struct DiskReader;

impl DiskReader {
    pub fn shared() -> Arc<dyn ConfigFileReader> {
        Arc::new(Self)
    }
}

impl ConfigFileReader for DiskReader {
    fn read(&self, file: &ConfigFile) -> io::Result<Option<String>> {
        match read_text(&file.path) {
            Ok(text) => Ok(Some(text)),
            // Files at default paths may be missing; a named file must exist.
            Err(error) if file.layer != FileLayer::Named && is_absent(&file.path, &error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether the file is missing or cannot be looked up. A symbolic link that leads to itself exists, but is not a file.
fn is_absent(path: &Path, error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || path.symlink_metadata().is_err()
}

pub fn read_text(path: &Path) -> io::Result<String> {
    let file = open_regular(path)?;
    if file.metadata()?.len() > MAX_FILE_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut text = String::new();
    let read = file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if u64::try_from(read).unwrap_or(u64::MAX) > MAX_FILE_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(text)
}

/// Why a configuration file cannot be read, as a fragment.
pub fn unreadable_reason(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::FileTooLarge { "larger than 1 MiB".to_owned() } else { plain_reason(error) }
}

/// The reason of an I/O error; in words for common errors.
pub fn plain_reason(error: &io::Error) -> String {
    const USUAL: [(io::ErrorKind, &str); 4] = [
        (io::ErrorKind::NotFound, "no such file"),
        (io::ErrorKind::PermissionDenied, "permission denied"),
        (io::ErrorKind::InvalidData, "not UTF-8 text"),
        (io::ErrorKind::IsADirectory, "a folder"),
    ];
    let usual = USUAL.iter().find(|(kind, _)| *kind == error.kind());
    usual.map_or_else(|| format!("cannot be read: {error}"), |(_, words)| (*words).to_owned())
}

/// Opens a file that an untrusted process may have created: does not block on a pipe, and rejects anything but regular
/// files.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let at_once = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(at_once).open(path)?;
    let found = file.metadata()?;
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !found.is_file() {
        return Err(io::Error::other("neither a file nor a folder"));
    }
    Ok(file)
}

/// The files for a command started in `cwd`, in order: the named one alone, or the user's and then the project's.
pub fn find(named: Option<&Path>, cwd: &Path, folders: &UserFolders) -> Vec<ConfigFile> {
    match named {
        Some(named) => {
            vec![ConfigFile {
                layer: FileLayer::Named,
                path: strip_current_dir_parts(&cwd.join(named)),
                shown: named.to_owned(),
            }]
        }
        None => default_files(cwd, folders),
    }
}

/// All paths at which this or the next start looks for configuration, whether or not a file exists there.
pub(crate) fn search_paths(named: Option<&Path>, cwd: &Path, folders: &UserFolders) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = default_files(cwd, folders).into_iter().map(|file| file.path).collect();
    if let Some(named) =
        named.map(|named| strip_current_dir_parts(&cwd.join(named))).filter(|named| !places.contains(named))
    {
        places.push(named);
    }
    places
}

fn default_files(cwd: &Path, folders: &UserFolders) -> Vec<ConfigFile> {
    let users = folders.config_dir.as_ref().map(|folder| folder.join(FILE_NAME));
    let here = cwd.join(FILE_NAME);
    let same = users.as_ref().is_some_and(|users| is_same_file(users, &here));
    let users = users.map(|path| ConfigFile { layer: FileLayer::User, shown: path.clone(), path });
    let here = ConfigFile { layer: FileLayer::Project, path: here, shown: PathBuf::from(FILE_NAME) };
    // In the user's configuration folder both are the same file, which then counts as the user's.
    users.into_iter().chain((!same).then_some(here)).collect()
}

fn is_same_file(one: &Path, two: &Path) -> bool {
    let folder = |path: &Path| path.parent().and_then(|folder| folder.canonicalize().ok());
    one == two || folder(one).is_some_and(|found| Some(found) == folder(two))
}
