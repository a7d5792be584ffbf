//! `patchboard trust`: shows what waits to be trusted and records it.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::failure::Failure;
use super::{Where, output};
use crate::config::files::{ConfigFile, FileLayer};
use crate::config::{Config, LoadRequest, LoadedConfig};
use crate::trust::config_review::{review_changes, review_config};
use crate::trust::guard::ProgramName;
use crate::trust::guarded_files::{content_files, guarded_files, trust_store};
use crate::trust::pending_trust::{ProgramSnapshot, pending_changes, pending_file_change, untrusted_secret};
use crate::trust::{ConfigVerdict, DiskText, TrustStore, judge_config};

#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    #[command(flatten)]
    place: Where,
    /// What to trust: configuration files, scripts, folders or plugins; without any, everything that waits.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
}

/// Something that waits to be trusted.
pub(super) struct Waiting {
    /// The files and folders it is about.
    paths: Vec<PathBuf>,
    pub(super) title: String,
    pub(super) lines: Vec<String>,
    record: Record,
}

/// What was shown, and is recorded as it was then.
enum Record {
    Config {
        path: PathBuf,
        text: Option<String>,
    },
    Code(ProgramSnapshot),
    /// It is no configuration.
    Nothing,
}

pub(super) fn run(args: TrustArgs) -> Result<ExitCode, Failure> {
    let cwd = std::env::current_dir()?;
    let wanted: Vec<PathBuf> = args.files.iter().map(|file| cwd.join(file)).collect();
    let is_wanted = |found: &Waiting| wanted.is_empty() || wanted.iter().any(|path| found.is_about(path));
    let request = args.place.request_unasked()?;
    let store = args.place.trust_store(&request);
    let mut settled = Outcome::default();
    // Configuration first: what it starts is known only once it counts.
    for found in waiting_configs(&request, &store).into_iter().filter(is_wanted) {
        settled.settle(&found, &store, args.yes)?;
    }
    match Config::load(request) {
        Ok(loaded) => {
            let store = trust_store(&loaded);
            // Configuration files are among them once more, and are settled.
            let configs = content_files(&loaded).into_iter().filter_map(|file| waiting_config(&file, &store));
            for found in configs.chain(waiting_files(&loaded, &cwd, &store)).filter(is_wanted) {
                if !settled.knows(&found) {
                    settled.settle(&found, &store, args.yes)?;
                }
            }
        }
        Err(problems) => output::error(&problems.to_string()),
    }
    settled.report(&wanted)
}

/// On a terminal, shows an untrusted project file and asks whether it counts. Elsewhere a warning says what to type.
pub(super) fn ask_about_project(request: &LoadRequest, store: &TrustStore) -> io::Result<()> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(());
    }
    let projects = request.files().into_iter().filter(|file| file.layer == FileLayer::Project);
    for found in projects.filter_map(|file| waiting_config(&file, store)) {
        found.show();
        if matches!(found.record, Record::Nothing) {
            output::error("It is left out.");
        } else if agrees()? {
            found.record(store)?;
        } else {
            output::error("It is left out. `patchboard trust` asks again.");
        }
    }
    Ok(())
}

fn waiting_configs(request: &LoadRequest, store: &TrustStore) -> Vec<Waiting> {
    request.files().iter().filter_map(|file| waiting_config(file, store)).collect()
}

fn waiting_config(file: &ConfigFile, store: &TrustStore) -> Option<Waiting> {
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
            return Some(Waiting { paths, title, lines: Vec::new(), record: Record::Nothing });
        }
        (ConfigVerdict::Untrusted, _) => (format!("{shown} was never trusted. It"), review_config(text)),
        (ConfigVerdict::UseTrusted { trusted }, DiskText::Absent) => {
            (format!("{shown} was removed where agents may write:"), review_changes(trusted, text))
        }
        (ConfigVerdict::UseTrusted { trusted }, DiskText::Text(_)) => {
            (format!("{shown} changed where agents may write:"), review_changes(trusted, text))
        }
    };
    let record = Record::Config { path: file.path.clone(), text: found.text().map(str::to_owned) };
    Some(Waiting { paths, title, lines: lines.into_lines(), record })
}

/// Programs, plugins and files with keys that wait, each as it is at this moment.
pub(super) fn waiting_files(loaded: &LoadedConfig, cwd: &Path, store: &TrustStore) -> Vec<Waiting> {
    let obeyed = guarded_files(loaded, cwd);
    let programs = obeyed.programs.iter().filter_map(|(name, program)| {
        // Everything is read only where something waits.
        if pending_changes(store, program, &obeyed.server_data).is_empty() {
            return None;
        }
        let title = match name {
            ProgramName::WorkerPool(name) => format!("The worker pool `{name}` has code that is not trusted:"),
            ProgramName::McpServer(name) => format!("The MCP server `{name}` has code that is not trusted:"),
        };
        let paths = program.files.iter().chain(&program.folders).cloned().collect();
        code(paths, title, ProgramSnapshot::of_program(program, &obeyed.server_data), |now| now.pending_changes(store))
    });
    let files = obeyed.files.iter().filter_map(|path| {
        pending_file_change(store, path)?;
        let title = "A plugin is not trusted:".to_owned();
        code(vec![path.clone()], title, ProgramSnapshot::of_file(path), |now| now.pending_changes(store))
    });
    let secrets = obeyed.secrets.iter().filter_map(|path| {
        let line = untrusted_secret(store, path)?;
        let title = "A file with a key or token appeared where agents may write:".to_owned();
        code(vec![path.clone()], title, ProgramSnapshot::of_file(path), |_| vec![line])
    });
    programs.chain(files).chain(secrets).collect()
}

/// Says what waits in what was taken, so that nothing else is agreed to. `None` if by now nothing does.
fn code(
    paths: Vec<PathBuf>,
    title: String,
    taken: io::Result<ProgramSnapshot>,
    lines: impl FnOnce(&ProgramSnapshot) -> Vec<String>,
) -> Option<Waiting> {
    match taken {
        Ok(taken) => {
            let lines = lines(&taken);
            (!lines.is_empty()).then_some(Waiting { paths, title, lines, record: Record::Code(taken) })
        }
        Err(error) => Some(Waiting { paths, title, lines: vec![error.to_string()], record: Record::Nothing }),
    }
}

impl Waiting {
    fn is_about(&self, wanted: &Path) -> bool {
        let real = wanted.canonicalize().unwrap_or_else(|_| wanted.to_owned());
        self.paths.iter().any(|path| {
            let own = path.canonicalize().unwrap_or_else(|_| path.clone());
            path == wanted || own == real || real.starts_with(&own)
        })
    }

    fn show(&self) {
        output::error(&output::one_line(&self.title));
        for line in &self.lines {
            output::error(&format!("  {}", output::one_line(line)));
        }
    }

    fn record(&self, store: &TrustStore) -> io::Result<()> {
        match &self.record {
            Record::Config { path, text: Some(text) } => store.trust_config(path, text),
            Record::Config { path, text: None } => store.forget_config(path),
            Record::Code(taken) => taken.record(store),
            Record::Nothing => Ok(()),
        }
    }
}

#[derive(Default)]
struct Outcome {
    trusted: usize,
    left: usize,
    /// The files that were shown.
    shown: Vec<PathBuf>,
}

impl Outcome {
    fn knows(&self, found: &Waiting) -> bool {
        matches!(found.record, Record::Config { .. } | Record::Nothing)
            && found.paths.iter().all(|path| self.shown.contains(path))
    }

    fn settle(&mut self, found: &Waiting, store: &TrustStore, is_agreed: bool) -> Result<(), Failure> {
        found.show();
        self.shown.extend(found.paths.iter().cloned());
        let can_ask = io::stdin().is_terminal();
        if matches!(found.record, Record::Nothing) {
            self.left += 1;
        } else if is_agreed || (can_ask && agrees()?) {
            let recorded = found.record(store);
            recorded.map_err(|error| Failure::failed(format!("cannot record what is trusted: {error}")))?;
            self.trusted += 1;
        } else {
            self.left += 1;
        }
        Ok(())
    }

    fn report(&self, wanted: &[PathBuf]) -> Result<ExitCode, Failure> {
        match (self.trusted, self.left) {
            (0, 0) if wanted.is_empty() => output::line("Nothing waits to be trusted."),
            // What is gone may wait, too, and then is not settled by this.
            (0, 0) if let Some(missing) = wanted.iter().find(|path| !path.exists()) => {
                let missing = output::one_line(&missing.display().to_string());
                return Err(Failure::failed(format!("there is no file `{missing}`"))
                    .hint("`patchboard trust` without a name shows all that waits"));
            }
            (0, 0) => output::line("None of these waits to be trusted."),
            (trusted, 0) => output::line(&format!("Trusted: {trusted}. Configuration counts from the next start on.")),
            (trusted, left) => {
                let failure = Failure::unusable(format!("{left} not trusted, {trusted} trusted"));
                return Err(match io::stdin().is_terminal() {
                    true => failure,
                    false => failure.hint("without a terminal, agree with `patchboard trust --yes`"),
                });
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn agrees() -> io::Result<bool> {
    write!(io::stderr(), "Trust this? [y/N] ")?;
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
