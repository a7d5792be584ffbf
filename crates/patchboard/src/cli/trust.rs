//! `patchboard trust`: shows what waits for trust and records it.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use patchboard_config::files::{ConfigFile, FileLayer};
use patchboard_config::{Config, LoadRequest, LoadedConfig};

use super::ConfigLocation;
use super::failure::CommandFailure;
use crate::output;
use crate::trust::config_review::{review_changes, review_config};
use crate::trust::guard::ProgramName;
use crate::trust::guarded_files::{content_files, guarded_files, trust_store};
use crate::trust::pending_trust::{ProgramSnapshot, pending_changes, pending_file_change, untrusted_secret};
use crate::trust::{ConfigVerdict, DiskText, TrustStore, judge_config};

#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    #[command(flatten)]
    place: ConfigLocation,
    /// What to trust: configuration files, scripts, folders or plugins; without any, everything that waits.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
}

/// A file or program that waits for trust.
pub(super) struct PendingTrust {
    /// The files and folders concerned.
    paths: Vec<PathBuf>,
    pub(super) title: String,
    pub(super) lines: Vec<String>,
    record: TrustSubject,
}

/// The state that was shown, which is exactly what is recorded.
enum TrustSubject {
    Config {
        path: PathBuf,
        text: Option<String>,
    },
    Code(ProgramSnapshot),
    /// Cannot be trusted, as it cannot be read.
    Nothing,
}

pub(super) fn run(args: TrustArgs) -> Result<ExitCode, CommandFailure> {
    let cwd = std::env::current_dir()?;
    let wanted: Vec<PathBuf> = args.files.iter().map(|file| cwd.join(file)).collect();
    let is_wanted = |found: &PendingTrust| wanted.is_empty() || wanted.iter().any(|path| found.is_about(path));
    let request = args.place.request_without_prompt()?;
    let store = args.place.trust_store(&request);
    let mut settled = TrustReview::default();
    // Configuration first: the programs it starts are known only once it is trusted.
    for found in pending_configs(&request, &store).into_iter().filter(is_wanted) {
        settled.settle(&found, &store, args.yes)?;
    }
    match Config::load(request) {
        Ok(loaded) => {
            let store = trust_store(&loaded);
            // Configuration files are listed again here; those already shown are skipped.
            let configs = content_files(&loaded).into_iter().filter_map(|file| pending_config(&file, &store));
            for found in configs.chain(pending_files(&loaded, &cwd, &store)).filter(is_wanted) {
                if !settled.was_shown(&found) {
                    settled.settle(&found, &store, args.yes)?;
                }
            }
        }
        Err(problems) => output::eprint_line(&problems.to_string()),
    }
    settled.report(&wanted)
}

/// On a terminal, shows an untrusted project file and asks about it. Elsewhere a warning names the command.
pub(super) fn ask_about_project(request: &LoadRequest, store: &TrustStore) -> io::Result<()> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(());
    }
    let projects = request.files().into_iter().filter(|file| file.layer == FileLayer::Project);
    for found in projects.filter_map(|file| pending_config(&file, store)) {
        found.show();
        if matches!(found.record, TrustSubject::Nothing) {
            output::eprint_line("It is left out.");
        } else if confirm()? {
            found.record(store)?;
        } else {
            output::eprint_line("It is left out. `patchboard trust` asks again.");
        }
    }
    Ok(())
}

fn pending_configs(request: &LoadRequest, store: &TrustStore) -> Vec<PendingTrust> {
    request.files().iter().filter_map(|file| pending_config(file, store)).collect()
}

fn pending_config(file: &ConfigFile, store: &TrustStore) -> Option<PendingTrust> {
    let found = DiskText::of(file);
    let shown = file.shown.display();
    let verdict = judge_config(store, file, &found);
    let text = found.text().unwrap_or_default();
    let paths = vec![file.path.clone()];
    let (title, lines) = match (&verdict, &found) {
        (ConfigVerdict::Accepted, _) => return None,
        (_, DiskText::Unreadable(reason)) => {
            let title =
                format!("{shown} cannot be read ({reason}), so it cannot be trusted. Remove it, or put it right.");
            return Some(PendingTrust { paths, title, lines: Vec::new(), record: TrustSubject::Nothing });
        }
        (ConfigVerdict::Untrusted, _) => (format!("{shown} was never trusted. It"), review_config(text)),
        (ConfigVerdict::UseTrusted { trusted }, DiskText::Absent) => {
            (format!("{shown} was removed where agents may write:"), review_changes(trusted, text))
        }
        (ConfigVerdict::UseTrusted { trusted }, DiskText::Text(_)) => {
            (format!("{shown} changed where agents may write:"), review_changes(trusted, text))
        }
    };
    let record = TrustSubject::Config { path: file.path.clone(), text: found.text().map(str::to_owned) };
    Some(PendingTrust { paths, title, lines: lines.into_lines(), record })
}

/// Programs, plugins and key files that wait for trust, each with its current state.
pub(super) fn pending_files(loaded: &LoadedConfig, cwd: &Path, store: &TrustStore) -> Vec<PendingTrust> {
    let obeyed = guarded_files(loaded, cwd);
    let programs = obeyed.programs.iter().filter_map(|(name, program)| {
        // The full snapshot is taken only if something waits.
        if pending_changes(store, program, &obeyed.server_data).is_empty() {
            return None;
        }
        let title = match name {
            ProgramName::WorkerPool(name) => format!("The worker pool `{name}` has code that is not trusted:"),
            ProgramName::McpServer(name) => format!("The MCP server `{name}` has code that is not trusted:"),
        };
        let paths = program.files.iter().chain(&program.folders).cloned().collect();
        pending_code(paths, title, ProgramSnapshot::of_program(program, &obeyed.server_data), |now| {
            now.pending_changes(store)
        })
    });
    let files = obeyed.files.iter().filter_map(|path| {
        pending_file_change(store, path)?;
        let title = "A plugin is not trusted:".to_owned();
        pending_code(vec![path.clone()], title, ProgramSnapshot::of_file(path), |now| now.pending_changes(store))
    });
    let secrets = obeyed.secrets.iter().filter_map(|path| {
        let line = untrusted_secret(store, path)?;
        let title = "A file with a key or token appeared where agents may write:".to_owned();
        pending_code(vec![path.clone()], title, ProgramSnapshot::of_file(path), |_| vec![line])
    });
    programs.chain(files).chain(secrets).collect()
}

/// Lists the changes in the given snapshot, so that nothing else is approved. Returns `None` if nothing waits any more.
fn pending_code(
    paths: Vec<PathBuf>,
    title: String,
    taken: io::Result<ProgramSnapshot>,
    lines: impl FnOnce(&ProgramSnapshot) -> Vec<String>,
) -> Option<PendingTrust> {
    match taken {
        Ok(taken) => {
            let lines = lines(&taken);
            (!lines.is_empty()).then_some(PendingTrust { paths, title, lines, record: TrustSubject::Code(taken) })
        }
        Err(error) => {
            Some(PendingTrust { paths, title, lines: vec![error.to_string()], record: TrustSubject::Nothing })
        }
    }
}

impl PendingTrust {
    fn is_about(&self, wanted: &Path) -> bool {
        let real = wanted.canonicalize().unwrap_or_else(|_| wanted.to_owned());
        self.paths.iter().any(|path| {
            let own = path.canonicalize().unwrap_or_else(|_| path.clone());
            path == wanted || own == real || real.starts_with(&own)
        })
    }

    fn show(&self) {
        output::eprint_line(&output::one_line(&self.title));
        for line in &self.lines {
            output::eprint_line(&format!("  {}", output::one_line(line)));
        }
    }

    fn record(&self, store: &TrustStore) -> io::Result<()> {
        match &self.record {
            TrustSubject::Config { path, text: Some(text) } => store.trust_config(path, text),
            TrustSubject::Config { path, text: None } => store.forget_config(path),
            TrustSubject::Code(taken) => taken.record(store),
            TrustSubject::Nothing => Ok(()),
        }
    }
}

#[derive(Default)]
struct TrustReview {
    trusted: usize,
    skipped: usize,
    /// The files that were shown.
    shown: Vec<PathBuf>,
}

impl TrustReview {
    fn was_shown(&self, found: &PendingTrust) -> bool {
        matches!(found.record, TrustSubject::Config { .. } | TrustSubject::Nothing)
            && found.paths.iter().all(|path| self.shown.contains(path))
    }

    fn settle(&mut self, found: &PendingTrust, store: &TrustStore, is_agreed: bool) -> Result<(), CommandFailure> {
        found.show();
        self.shown.extend(found.paths.iter().cloned());
        let can_ask = io::stdin().is_terminal();
        if matches!(found.record, TrustSubject::Nothing) {
            self.skipped += 1;
        } else if is_agreed || (can_ask && confirm()?) {
            let recorded = found.record(store);
            recorded.map_err(|error| CommandFailure::failed(format!("cannot record what is trusted: {error}")))?;
            self.trusted += 1;
        } else {
            self.skipped += 1;
        }
        Ok(())
    }

    fn report(&self, wanted: &[PathBuf]) -> Result<ExitCode, CommandFailure> {
        match (self.trusted, self.skipped) {
            (0, 0) if wanted.is_empty() => output::print_line("Nothing waits to be trusted."),
            // A removed file may wait for trust as well; then this arm is not reached.
            (0, 0) if let Some(missing) = wanted.iter().find(|path| !path.exists()) => {
                let missing = output::one_line(&missing.display().to_string());
                return Err(CommandFailure::failed(format!("there is no file `{missing}`"))
                    .hint("`patchboard trust` without a name shows all that waits"));
            }
            (0, 0) => output::print_line("None of these waits to be trusted."),
            (trusted, 0) => {
                output::print_line(&format!("Trusted: {trusted}. Configuration counts from the next start on."));
            }
            (trusted, left) => {
                let failure = CommandFailure::unusable(format!("{left} not trusted, {trusted} trusted"));
                return Err(match io::stdin().is_terminal() {
                    true => failure,
                    false => failure.hint("without a terminal, agree with `patchboard trust --yes`"),
                });
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn confirm() -> io::Result<bool> {
    write!(io::stderr(), "Trust this? [y/N] ")?;
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
