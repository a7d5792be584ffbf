//! How protected paths are closed to a command: by mounts that mask them, or by Landlock.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::jail::FilesystemView;
use super::landlock_rules::ClosedPaths;
use super::mount_mask::{MaskPlan, MaskState};
use super::namespace::PrivateMounts;
use super::protocol::SpawnRequest;
use super::{confine, hard_links};

#[derive(Debug)]
pub(super) struct PathProtection {
    /// Paths that Landlock has to keep closed.
    pub(super) closed: ClosedPaths,
    pub(super) mask: MaskState,
    /// Without masks, only Landlock prevents the command from replacing the folders on the way to protected paths.
    pub(super) needs_landlock: bool,
}

/// Masks protected paths for the wide views, and where Unix sockets are allowed: Landlock before ABI 9 does not prevent
/// connecting to a socket in a closed folder. Other names of protected files are masked in every view, because they lie
/// in folders the command works in. Call after the working folder was entered.
pub(super) fn protect_paths(
    request: &SpawnRequest,
    own_mounts: Option<PrivateMounts>,
    writable: &[OwnedFd],
) -> Result<PathProtection, String> {
    let protected = || request.protected.iter().map(Path::new);
    let links = hard_links::find(protected(), granted_folders(request, writable))?;
    let links = || links.iter().map(PathBuf::as_path);
    let masks_protected_paths = request.view.is_wide() || request.network.unix_sockets;
    let needs_mask = masks_protected_paths || links().next().is_some();
    // Collected before masking, which hides the inodes.
    let (closed, closed_with_links) = (confine::closed_paths(request, [])?, confine::closed_paths(request, links())?);
    let roots = writable_roots(request, writable);
    let pinned = pinned_folders(protected(), &roots);
    let is_worker_view = request.view == FilesystemView::ReadEverything;
    if is_worker_view && let Some(link) = protected().find_map(|path| replaceable_link(path, &roots)) {
        return Err(format!(
            "the symbolic link `{}` leads to protected files and lies in a folder that the program may change: name other \
             folders in its `writable`, or put a folder in the place of the link",
            link.display()
        ));
    }
    let mask = match own_mounts.filter(|_| needs_mask) {
        Some(private_mounts) if masks_protected_paths => {
            let exposed_folders = request.private.iter().map(PathBuf::from).collect();
            MaskState::apply(
                private_mounts,
                protected().chain(links()),
                MaskPlan { pinned: pinned.clone(), exposed_folders },
            )?
        }
        Some(private_mounts) => MaskState::apply(private_mounts, links(), MaskPlan::default())?,
        None => MaskState::None,
    };
    let closed = match mask {
        MaskState::Applied if request.view.is_wide() => ClosedPaths::default(),
        MaskState::Applied => closed,
        MaskState::None => closed_with_links,
    };
    let needs_landlock = is_worker_view && mask == MaskState::None && !pinned.is_empty();
    Ok(PathProtection { closed, mask, needs_landlock })
}

/// Where the command may write.
fn writable_roots(request: &SpawnRequest, writable: &[OwnedFd]) -> Vec<PathBuf> {
    match request.view {
        FilesystemView::Everything => vec![PathBuf::from("/")],
        FilesystemView::Named | FilesystemView::ReadEverything => real_paths(writable).collect(),
    }
}

/// The folders beneath `roots` that lead to protected paths, outermost first. As mount points they cannot be renamed,
/// so another tree cannot be put in their place.
fn pinned_folders<'a>(protected: impl IntoIterator<Item = &'a Path>, roots: &[PathBuf]) -> Vec<PathBuf> {
    let resolved = protected.into_iter().filter_map(|path| path.canonicalize().ok());
    let ancestors = resolved.flat_map(|path| path.ancestors().skip(1).map(Path::to_owned).collect::<Vec<_>>());
    let is_writable = |folder: &PathBuf| folder != Path::new("/") && roots.iter().any(|root| folder.starts_with(root));
    let mut pinned: Vec<PathBuf> = ancestors.filter(is_writable).collect();
    pinned.sort();
    pinned.dedup();
    pinned
}

/// A symbolic link on the way to `path` that a program with write access beneath `roots` could replace.
fn replaceable_link(path: &Path, roots: &[PathBuf]) -> Option<PathBuf> {
    let links = path.ancestors().filter(|part| part.symlink_metadata().is_ok_and(|found| found.is_symlink()));
    let mut folders = links.filter_map(|link| Some((link, link.parent()?.canonicalize().ok()?)));
    folders.find(|(_, folder)| roots.iter().any(|root| folder.starts_with(root))).map(|(link, _)| link.to_owned())
}

/// Where other names of protected files are searched for.
fn granted_folders(request: &SpawnRequest, writable: &[OwnedFd]) -> Vec<PathBuf> {
    let working_folder = std::fs::read_link("/proc/self/cwd").ok();
    let folders = working_folder.into_iter().chain(real_paths(writable));
    folders.chain(request.readable.iter().map(PathBuf::from)).collect()
}

fn real_paths(opened: &[OwnedFd]) -> impl Iterator<Item = PathBuf> {
    opened.iter().filter_map(|folder| std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd())).ok())
}

#[cfg(test)]
mod tests;
