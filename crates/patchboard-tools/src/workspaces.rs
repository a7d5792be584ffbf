//! The folders that runs may work in: which are admitted, how tools open them, and the documents they provide for
//! prompts.
//!
//! A folder is opened anew for every call, from the file system's root and without following symlinks, so a folder that
//! was deleted and recreated is simply the new one. It is admitted if that descent passes an allowed root: the
//! directory itself, not one with a similar path.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::port::ToolScope;
use patchboard_core::port::{FolderDocuments, FolderGrant, GrantedFolder, WorkingFolders};
use patchboard_core::text::cut;

use tokio_util::task::TaskTracker;

use crate::folder::{DirResolution, Error, FileIdentity, OpenedPath, ProtectedPaths, WorkFolder};
use crate::text::{clipped, escape_control_chars};

mod grants;

pub use grants::GrantRules;
use grants::GrantedFolders;

/// Longer documents are truncated, because every prompt includes them.
const MAX_DOCUMENT_BYTES: usize = 64 * 1024;
/// Longer paths are refused unread, as the kernel would.
const MAX_PATH_BYTES: usize = 4096;
/// Length to which paths are shown in errors.
const MAX_SHOWN_BYTES: usize = 240;
const INSPECTION_FAILED: &str = "working folder cannot be looked at";

#[derive(Debug, Clone)]
pub struct WorkspaceOptions {
    /// The working folder of requests that name none. It need not lie under an allowed root; but the folders that
    /// requests name must.
    pub working_folder: PathBuf,
    /// The roots that requested working folders must lie in.
    pub allowed_roots: Vec<PathBuf>,
    /// Directories and files that stay closed to tools wherever they lie: the data directory and key files.
    pub protected: Vec<PathBuf>,
    /// Tracks the blocking threads for file system access.
    pub tasks: TaskTracker,
    pub grants: GrantRules,
}

#[derive(Debug, Clone)]
pub struct Workspaces(Arc<WorkspaceState>);

#[derive(Debug)]
struct WorkspaceState {
    working_folder: PathBuf,
    roots: Vec<PathBuf>,
    /// Closed to file tools: protected and sealed paths.
    protected: Arc<ProtectedPaths>,
    /// Closed to jails as well.
    jail_protected: ProtectedPaths,
    tasks: TaskTracker,
    grants: GrantRules,
    granted: Arc<GrantedFolders>,
}

/// Where the folder must lie.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequiredLocation {
    UnderRoot,
    /// For admitted work: a grant of the operator counts while it lasts.
    UnderRootOrGranted,
    Anywhere,
}

/// Why a folder is not admitted.
enum FolderRefusal {
    Outside(PathBuf),
    Other(String),
}

impl Workspaces {
    /// Fails if the working folder, a root or a protected path cannot be opened or inspected.
    pub fn new(options: WorkspaceOptions) -> Result<Self, Error> {
        Self::with_sealed(options, Vec::new())
    }

    /// The same with sealed files, which only the operator changes, such as the configuration of this server. They are
    /// closed to file tools by name; `guard` keeps commands from them.
    pub fn with_sealed(options: WorkspaceOptions, sealed: Vec<PathBuf>) -> Result<Self, Error> {
        let real = |path: &PathBuf| path.canonicalize().map_err(|source| Error::Open { path: path.clone(), source });
        let failed = |source| Error::Open { path: options.working_folder.clone(), source };
        let inside = WorkspaceState {
            working_folder: real(&options.working_folder)?,
            roots: options.allowed_roots.iter().map(real).collect::<Result<_, _>>()?,
            protected: Arc::new(
                ProtectedPaths::new(options.protected.iter().chain(&sealed).cloned().collect()).map_err(failed)?,
            ),
            jail_protected: ProtectedPaths::new(options.protected.clone()).map_err(failed)?,
            tasks: options.tasks.clone(),
            grants: options.grants,
            granted: Arc::default(),
        };
        inside.open(&inside.working_folder, RequiredLocation::Anywhere)?;
        for root in &inside.roots {
            inside.open(root, RequiredLocation::UnderRoot)?;
        }
        Ok(Self(Arc::new(inside)))
    }

    /// The working folder of requests that name none.
    pub fn working_folder(&self) -> &Path {
        &self.0.working_folder
    }

    /// Absolute paths that stay closed to tools. They need not exist.
    pub fn protected(&self) -> &[PathBuf] {
        self.0.jail_protected.paths()
    }

    /// Opens a folder by the path that `WorkingFolders::resolve` returned. Blocks.
    pub fn open(&self, folder: &Path) -> Result<WorkFolder, Error> {
        self.0.open(folder, RequiredLocation::UnderRootOrGranted)
    }

    /// Opens the folder that a tool is to work in. Blocks.
    pub fn open_for(&self, scope: &ToolScope) -> Result<WorkFolder, Error> {
        self.open_named(scope.folder.as_deref())
    }

    /// Opens the folder of a scope; `None` stands for the configured one. Blocks.
    pub(crate) fn open_named(&self, folder: Option<&Path>) -> Result<WorkFolder, Error> {
        match folder {
            // Allowed even if the configured folder lies under no root, because the operator chose it.
            None => self.0.open(&self.0.working_folder, RequiredLocation::Anywhere),
            Some(folder) if folder == self.0.working_folder => self.0.open(folder, RequiredLocation::Anywhere),
            Some(folder) => self.open(folder),
        }
    }
}

impl WorkingFolders for Workspaces {
    fn resolve<'a>(&'a self, named: Option<&'a str>) -> BoxFuture<'a, Result<Arc<Path>, String>> {
        let (inside, named) = (self.0.clone(), named.map(str::to_owned));
        let done =
            self.0.tasks.spawn_blocking(move || inside.admit(named.as_deref()).map_err(FolderRefusal::into_message));
        Box::pin(async move { done.await.unwrap_or_else(|_| Err(INSPECTION_FAILED.to_owned())) })
    }

    fn grant<'a>(&'a self, named: &'a str) -> BoxFuture<'a, Result<GrantedFolder, String>> {
        let (inside, named) = (self.0.clone(), named.to_owned());
        let done = self.0.tasks.spawn_blocking(move || inside.grant(&named));
        Box::pin(async move { done.await.unwrap_or_else(|_| Err(INSPECTION_FAILED.to_owned())) })
    }

    fn documents<'a>(&'a self, folder: &'a Path) -> BoxFuture<'a, FolderDocuments> {
        let (workspaces, folder) = (self.clone(), folder.to_owned());
        let done = self
            .0
            .tasks
            .spawn_blocking(move || workspaces.open_named(Some(&folder)).map(|folder| folder_documents(&folder)));
        Box::pin(async move {
            match done.await {
                Ok(Ok(words)) => words,
                // The folder disappeared after it was admitted; the tools will report that.
                Ok(Err(_)) | Err(_) => FolderDocuments::default(),
            }
        })
    }
}

impl WorkspaceState {
    fn admit(&self, named: Option<&str>) -> Result<Arc<Path>, FolderRefusal> {
        let named = named.unwrap_or(".");
        if named.is_empty() || named.len() > MAX_PATH_BYTES || named.contains('\0') {
            return Err(FolderRefusal::Other(folder_message("is not a path", Path::new(named))));
        }
        // `join` returns an absolute path unchanged.
        self.find(&self.working_folder.join(named), RequiredLocation::UnderRoot)
    }

    /// A folder beneath a root needs no grant. Any other folder is opened for as long as the grant is held, unless it
    /// is too wide.
    fn grant(&self, named: &str) -> Result<GrantedFolder, String> {
        let asked = match self.admit(Some(named)) {
            Ok(path) => return Ok(GrantedFolder { path, grant: None }),
            Err(FolderRefusal::Outside(asked)) => asked,
            Err(refused @ FolderRefusal::Other(_)) => return Err(refused.into_message()),
        };
        let path = self.find(&asked, RequiredLocation::Anywhere).map_err(FolderRefusal::into_message)?;
        self.grants.check(&path)?;
        if let Some(guard) = &self.grants.guard {
            guard.mark_agent_writable(&path);
        }
        let lease = GrantedFolders::open(&self.granted, &path);
        Ok(GrantedFolder { path, grant: Some(FolderGrant::new(lease, !self.grants.commands_are_jailed)) })
    }

    /// Resolves the current folder of that path.
    fn find(&self, asked: &Path, place: RequiredLocation) -> Result<Arc<Path>, FolderRefusal> {
        let absent = || FolderRefusal::Other(folder_message("not found or not a directory", asked));
        let (real, is_all_of_it) = existing_prefix(asked);
        match self.open(&real, place) {
            Ok(_) if !is_all_of_it => Err(absent()),
            Ok(folder) => Ok(folder.path().into()),
            // Existence is revealed only beneath the roots.
            Err(Error::Outside { .. }) => Err(FolderRefusal::Outside(asked.to_owned())),
            Err(Error::Open { .. }) => Err(absent()),
            Err(Error::Protected { .. }) => {
                Err(FolderRefusal::Other(folder_message("lies inside a protected directory", asked)))
            }
            Err(Error::Inspect { path, source }) => {
                tracing::warn!(path = %path.display(), error = %source, "protected path cannot be inspected; no working folder is admitted");
                let reason = "working folders are closed: the server cannot tell which of its own files to protect";
                Err(FolderRefusal::Other(reason.to_owned()))
            }
        }
    }

    fn open(&self, folder: &Path, place: RequiredLocation) -> Result<WorkFolder, Error> {
        let snapshot = self.protected.snapshot().map_err(|(path, source)| Error::Inspect { path, source })?;
        // Kept open until the end, so that no other directory can take over a root's inode in the meantime.
        let granted = if place == RequiredLocation::UnderRootOrGranted { self.granted.paths() } else { Vec::new() };
        let roots: Vec<_> =
            self.roots.iter().chain(&granted).map(|root| DirResolution::resolve(root, &snapshot)).collect();
        let descent = DirResolution::resolve(folder, &snapshot);
        let is_root = |passed: &FileIdentity| {
            roots.iter().any(|root| root.reached.as_ref().is_ok_and(|spot| spot.identity() == *passed))
        };
        if place != RequiredLocation::Anywhere && !descent.passed.iter().any(is_root) {
            return Err(Error::Outside { path: folder.to_owned() });
        }
        WorkFolder::from_resolved(folder, descent.reached, self.protected.clone())
    }
}

impl FolderRefusal {
    fn into_message(self) -> String {
        match self {
            Self::Outside(folder) => grants::outside_message(&folder),
            Self::Other(reason) => reason,
        }
    }
}

fn folder_message(reason: &str, path: &Path) -> String {
    format!("working folder {reason}: {}", display_path(path))
}

fn display_path(path: &Path) -> String {
    clipped(&escape_control_chars(path.as_os_str()), MAX_SHOWN_BYTES)
}

/// The existing prefix of a path, canonical, and whether it is the whole path.
fn existing_prefix(path: &Path) -> (PathBuf, bool) {
    for (steps_up, ancestor) in path.ancestors().enumerate() {
        if let Ok(real) = ancestor.canonicalize() {
            return (real, steps_up == 0);
        }
    }
    (PathBuf::from("/"), false)
}

fn folder_documents(folder: &WorkFolder) -> FolderDocuments {
    FolderDocuments { soul: document(folder, "SOUL.md"), notes: document(folder, "AGENTS.md") }
}

fn document(folder: &WorkFolder, name: &str) -> Option<Arc<str>> {
    let Ok(OpenedPath::File(file)) = folder.open_path(name) else { return None };
    // One byte more shows whether a character at the limit is complete.
    let mut bytes = Vec::new();
    file.take(MAX_DOCUMENT_BYTES as u64 + 1).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = cut(&text, MAX_DOCUMENT_BYTES);
    (!text.trim().is_empty()).then(|| text.into())
}

#[cfg(test)]
mod tests;
