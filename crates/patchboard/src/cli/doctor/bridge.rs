//! Checks of the bridge and of worker pools.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use patchboard_config::env::PATH;
use patchboard_config::section::WorkerConfig;
use patchboard_config::types::SecretRef;
use patchboard_config::{Config, LoadedConfig};

use super::DoctorFinding;

/// How clients of the bridge are authenticated. Forbidden combinations are configuration errors and do not get here.
pub(super) fn protection(config: &Config) -> Option<DoctorFinding> {
    let bridge = &config.bridge;
    bridge.listen.address()?;
    let traffic = match &bridge.tls {
        Some(_) => "encrypted",
        None => "plaintext",
    };
    let mutual = bridge.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    let callers = match (mutual, bridge.token.is_some()) {
        (true, true) => "clients need a certificate and the token",
        (true, false) => "clients need a certificate",
        (false, true) => "clients need the token",
        (false, false) => "every program on this machine may call it; `bridge.token` asks for a token",
    };
    let text = format!("bridge: {traffic}, {callers}");
    Some(if bridge.listen.is_off_loopback() && bridge.tls.is_none() {
        DoctorFinding::Note(text)
    } else {
        DoctorFinding::Good(text)
    })
}

pub(super) fn socket(config: &Config) -> Option<DoctorFinding> {
    // `listen = "off"` disables the Unix socket too.
    config.bridge.listen.address()?;
    let path = config.bridge.unix_socket.as_deref()?;
    let shown = path.display();
    Some(match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {
            DoctorFinding::Good(format!("bridge: Unix socket {shown}, for programs of this user"))
        }
        Ok(_) => DoctorFinding::Bad {
            problem: format!("bridge: cannot listen on {shown}: something else is there"),
            hint: "move it away, or choose another path as `bridge.unix_socket`".to_owned(),
        },
        Err(_) if path.parent().is_some_and(|folder| folder.is_dir() || folder.starts_with(&config.data_dir)) => {
            DoctorFinding::Good(format!("bridge: Unix socket {shown} will be made, for programs of this user"))
        }
        Err(_) => DoctorFinding::Bad {
            problem: format!("bridge: cannot listen on {shown}: its folder does not exist"),
            hint: "make the folder, or choose another path as `bridge.unix_socket`".to_owned(),
        },
    })
}

pub(super) fn pools(loaded: &LoadedConfig) -> Vec<DoctorFinding> {
    let workers = &loaded.config.workers;
    let path = loaded.env.get(PATH).unwrap_or_default();
    let mut findings: Vec<DoctorFinding> = workers.iter().map(|worker| pool(worker, path)).collect();
    // Workers forked from a warm process use the SDK.
    let unsure: Vec<&str> = workers.iter().filter(|worker| !worker.warm).map(|worker| worker.name.as_str()).collect();
    if !unsure.is_empty() {
        findings.push(DoctorFinding::Note(format!(
            "workers {}: those not made with the SDK listen on all interfaces, on ports of their own choice; a firewall \
             keeps others from calling them",
            unsure.join(", ")
        )));
    }
    findings
}

fn pool(worker: &WorkerConfig, path: &str) -> DoctorFinding {
    let name = &worker.name;
    let folder = worker.working_folder.as_deref().unwrap_or(Path::new("."));
    // Validation guarantees a command and an existing folder.
    let program = worker.command.first().map(String::as_str).unwrap_or_default();
    let is_text = |value: &&String| value.parse::<SecretRef>().is_err();
    let path = worker.env.get(PATH).filter(is_text).map_or(path, String::as_str);
    match find_program(program, folder, path) {
        Ok(found) => {
            let (count, found, folder) = (worker.count, found.display(), folder.display());
            DoctorFinding::Good(format!("workers {name}: {count} of {found}, in {folder}"))
        }
        Err(ProgramLookupError::NotFound) if program.contains('/') => DoctorFinding::Bad {
            problem: format!("workers {name}: `{program}` does not exist"),
            hint: format!("a relative path starts at the working folder, {}", folder.display()),
        },
        Err(ProgramLookupError::NotFound) => DoctorFinding::Bad {
            problem: format!("workers {name}: `{program}` is in no folder of PATH"),
            hint: "install it, or write its whole path in `command`".to_owned(),
        },
        Err(ProgramLookupError::NotExecutable(found)) => DoctorFinding::Bad {
            problem: format!("workers {name}: {} cannot be executed", found.display()),
            hint: format!("chmod +x {0}, or name the interpreter: command = [\"python3\", \"{0}\"]", found.display()),
        },
    }
}

#[derive(Debug, PartialEq, Eq)]
enum ProgramLookupError {
    NotFound,
    NotExecutable(PathBuf),
}

/// Looks a program up as the system does: by its path, or in the folders of `PATH` in order.
fn find_program(program: &str, folder: &Path, path: &str) -> Result<PathBuf, ProgramLookupError> {
    let places: Vec<PathBuf> = match program.contains('/') {
        true => vec![folder.join(program)],
        false => {
            path.split(':').filter(|place| !place.is_empty()).map(|place| folder.join(place).join(program)).collect()
        }
    };
    let mut missing = ProgramLookupError::NotFound;
    for place in places {
        let Ok(found) = fs::metadata(&place) else { continue };
        if found.is_file() && found.permissions().mode() & 0o111 != 0 {
            return Ok(place);
        }
        if missing == ProgramLookupError::NotFound {
            missing = ProgramLookupError::NotExecutable(place);
        }
    }
    Err(missing)
}

#[cfg(test)]
mod tests;
