//! Guarded files that are not trusted.

use std::collections::BTreeSet;
use std::path::PathBuf;

use patchboard_config::LoadedConfig;
use patchboard_config::problem::{ConfigProblem, ProblemCode};

use super::DoctorFinding;
use crate::cli::trust::{PendingTrust, pending_files};
use crate::trust::exposure::{exposure_keys, folder_keys};
use crate::trust::guarded_files::{guarded_files, trust_store};

/// Lines of a difference that are shown.
const MAX_SHOWN_LINES: usize = 3;

pub(super) fn findings(loaded: &LoadedConfig) -> Result<Vec<DoctorFinding>, std::io::Error> {
    let here = std::env::current_dir()?;
    let (store, obeyed) = (trust_store(loaded), guarded_files(loaded, &here));
    let mut found: Vec<DoctorFinding> = pending_files(loaded, &here, &store).iter().map(pending_finding).collect();
    // Untrusted files and withheld keys are reported as problems of the configuration.
    let is_distrusted =
        |problem: &ConfigProblem| matches!(problem.code, ProblemCode::UntrustedFile | ProblemCode::WithheldKey);
    if found.is_empty() && !loaded.warnings.iter().any(is_distrusted) {
        found.push(DoctorFinding::Good("trust: everything the server obeys is trusted".to_owned()));
    }
    let files = obeyed.configs.iter().map(|(path, _)| path).chain(&obeyed.files);
    let programs = obeyed.programs.values().flat_map(|program| &program.folders).flat_map(|folder| folder_keys(folder));
    let folders: BTreeSet<PathBuf> = files.flat_map(|path| exposure_keys(path)).chain(programs).collect();
    found.extend(folders.iter().filter(|folder| store.is_exposed(folder)).map(|folder| {
        DoctorFinding::Note(format!(
            "trust: agents may write to {}; a change of configuration or code there waits for `patchboard trust`",
            folder.display()
        ))
    }));
    Ok(found)
}

fn pending_finding(found: &PendingTrust) -> DoctorFinding {
    let more = found.lines.len().saturating_sub(MAX_SHOWN_LINES);
    let mut shown: Vec<String> = found.lines.iter().take(MAX_SHOWN_LINES).cloned().collect();
    if more > 0 {
        shown.push(format!("{more} more"));
    }
    let problem = format!("trust: {} {}", found.title, shown.join("; "));
    DoctorFinding::Bad { problem, hint: "look at it and allow it with `patchboard trust`".to_owned() }
}
