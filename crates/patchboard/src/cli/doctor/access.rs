//! Checks which clients may connect, and which users could read stored data.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use patchboard_config::LoadedConfig;
use patchboard_surfaces::local_users;

use super::DoctorFinding;
use crate::data_dir::{self, DirSharing};
use crate::serve;

/// Group or others may write.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Group or others may read.
const READABLE_BY_OTHERS: u32 = 0o044;

/// Files with keys and tokens: the operator's, those stored by `onboard`, and those named in the configuration.
pub(super) fn key_files(loaded: &LoadedConfig) -> DoctorFinding {
    let config = &loaded.config;
    let mut files = data_dir::secret_files(&config.data_dir, &config.storage.path);
    let stored = loaded.folders.credentials_dir().and_then(|folder| folder.read_dir().ok());
    files.extend(stored.into_iter().flatten().flatten().map(|entry| entry.path()));
    files.extend(config.secret_files());
    key_files_finding(&files)
}

/// Which listeners require no token, and which users they serve.
pub(super) fn listeners(loaded: &LoadedConfig) -> Vec<DoctorFinding> {
    let open = serve::surfaces_without_token(&loaded.config);
    if open.is_empty() {
        return vec![DoctorFinding::Good("access: every listener asks for a token".to_owned())];
    }
    let open = open.join(", ");
    let user = rustix::process::geteuid().as_raw();
    let mut findings = vec![match local_users::probe_peer_lookup() {
        local_users::PeerLookupSupport::Supported => DoctorFinding::Good(format!(
            "access: without a token {open} serve processes of user {user} and of root only, as the kernel tells them"
        )),
        local_users::PeerLookupSupport::Unavailable => DoctorFinding::Note(format!(
            "access: without a token {open} serve every user of this machine, as this system does not tell who connects"
        )),
        local_users::PeerLookupSupport::Failing => DoctorFinding::Bad {
            problem: format!(
                "access: {open} ask for no token, and this kernel does not tell who connects: all are refused"
            ),
            hint: "set a token, such as gateway.token = \"env:PATCHBOARD_TOKEN\"".to_owned(),
        },
    }];
    match serve::trusted_users(&loaded.config) {
        Ok(users) if users.is_empty() => {}
        Ok(users) => {
            let named = loaded.config.trusted_users.iter().zip(users);
            let named: Vec<String> = named.map(|(user, number)| format!("{user} ({number})")).collect();
            let named = named.join(", ");
            findings.push(DoctorFinding::Note(format!(
                "access: trusted_users lets in {named} where no token is asked for"
            )));
        }
        Err(error) => findings.push(DoctorFinding::Bad {
            problem: format!("access: {error:#}"),
            hint: "correct trusted_users; the server does not start like this".to_owned(),
        }),
    }
    findings
}

/// Whether other users could have changed, or could change, the data directory.
pub(super) fn data_folder(loaded: &LoadedConfig) -> Option<DoctorFinding> {
    let folder = &loaded.config.data_dir;
    let sharing = DirSharing::of(&loaded.config);
    folder.exists().then(|| match data_dir::inspect_owner(folder, sharing) {
        Ok(None) if sharing == DirSharing::Group => {
            DoctorFinding::Note("data directory: its group may read and change it (data_dir_group)".to_owned())
        }
        Ok(None) => DoctorFinding::Good("data directory: closed to other users".to_owned()),
        Ok(Some(mode)) => DoctorFinding::Note(format!(
            "data directory: open to other users (mode {mode:o}); the server closes it when it starts"
        )),
        Err(error) => DoctorFinding::Bad {
            problem: format!("data directory: {error}"),
            hint: "the server does not start like this".to_owned(),
        },
    })
}

fn key_files_finding(files: &[PathBuf]) -> DoctorFinding {
    let user = rustix::process::geteuid().as_raw();
    let mut readable = Vec::new();
    let mut count = 0;
    for path in files {
        let Ok(found) = fs::metadata(path) else { continue };
        count += 1;
        let shown = path.display();
        if found.uid() != user && found.uid() != 0 {
            return DoctorFinding::Bad {
                problem: format!("keys: {shown} belongs to user {}, who can change it", found.uid()),
                hint: format!("chown {user} {shown}, or make it anew"),
            };
        }
        if found.mode() & WRITABLE_BY_OTHERS != 0 {
            return DoctorFinding::Bad {
                problem: format!("keys: others may change {shown} (mode {:o})", found.mode() & 0o777),
                hint: format!("chmod 600 {shown}"),
            };
        }
        if found.mode() & READABLE_BY_OTHERS != 0 {
            readable.push(path.as_path());
        }
    }
    match readable.as_slice() {
        [] => DoctorFinding::Good(format!("keys: {count} files with keys and data, readable by this user only")),
        readable => {
            DoctorFinding::Note(format!("keys: others may read {}; chmod 600 keeps them out", join_paths(readable)))
        }
    }
}

fn join_paths(paths: &[&Path]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
