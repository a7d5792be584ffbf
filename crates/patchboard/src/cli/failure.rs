//! The failure of a command: one clear line, a hint for the next step, and an exit code for its kind.

use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;
use std::{fs, io};

use patchboard_config::problem::{ConfigProblem, ConfigProblems, ProblemCode, Severity};
use patchboard_core::keys::KeyNameClash;
use patchboard_core::text::did_you_mean;
use patchboard_local_model as local_model;

use crate::client::error::ConnectError;
use crate::data_dir;
use crate::output::{self, OutputStream, TextRole, paint};
use crate::serve::ListenError;

/// Exit codes: 0 is success, 70 a bug (a panic), 130 and 143 the end by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExitKind {
    /// 1: the operation failed.
    Failed,
    /// 2: it could not be attempted: usage, configuration, a port in use.
    Unusable,
    /// 3: no server responds.
    Unreachable,
}

#[derive(Debug)]
pub(crate) struct CommandFailure {
    kind: ExitKind,
    code: Option<&'static str>,
    message: String,
    hint: Option<String>,
}

impl CommandFailure {
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { kind: ExitKind::Failed, code: None, message: message.into(), hint: None }
    }

    pub(crate) fn unusable(message: impl Into<String>) -> Self {
        Self { kind: ExitKind::Unusable, code: None, message: message.into(), hint: None }
    }

    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self { kind: ExitKind::Unreachable, code: None, message: message.into(), hint: None }
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// A failed connection to a server.
    pub(crate) fn from_connect_error(error: anyhow::Error) -> Self {
        match error.downcast_ref::<ConnectError>() {
            Some(error) => Self::of_connect_error(error),
            None => Self::unreachable(format!("{error:#}")),
        }
    }

    fn of_connect_error(error: &ConnectError) -> Self {
        let text = output::one_line(&error.to_string());
        let failure = match error {
            error if error.is_address() => Self::unusable(text),
            error if error.is_auth() => Self::failed(text),
            _ => Self::unreachable(text),
        };
        failure.hint(error.hint())
    }

    /// An unknown name, with the most similar known one as the hint, or else where to find the names.
    pub(crate) fn unknown_name<'a>(
        message: &str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
        otherwise: &str,
    ) -> Self {
        let hint = did_you_mean(name, known, otherwise);
        Self::failed(output::one_line(message)).hint(output::one_line(&hint))
    }

    /// A server that cannot start.
    pub(crate) fn cannot_start(error: anyhow::Error) -> Self {
        let failure = Self::unusable(format!("{error:#}"));
        let is = |found: fn(&(dyn std::error::Error + 'static)) -> bool| error.chain().any(found);
        let is_io = |kind: io::ErrorKind| {
            error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == kind))
        };
        let surface = error.chain().find_map(|cause| cause.downcast_ref::<ListenError>()).map(|error| error.surface);
        if is_io(io::ErrorKind::AddrInUse) {
            let flag = surface.unwrap_or("gateway");
            let hint = format!("another program uses that port; choose another one, such as --{flag} 127.0.0.1:0");
            let hint = if flag == "gateway" { hint } else { format!("{hint}, or do without: --{flag} off") };
            return failure.code("PB0201").hint(hint);
        }
        if let Some(flag) = surface.filter(|_| is_io(io::ErrorKind::PermissionDenied)) {
            let hint = "ports below 1024 are not for ordinary users; choose another one, such as";
            return failure.hint(format!("{hint} --{flag} 127.0.0.1:0"));
        }
        if is(|cause| matches!(cause.downcast_ref(), Some(data_dir::DataDirError::InUse { .. }))) {
            let hint = "stop it, or give this server a folder of its own with --data-dir";
            return failure.code("PB0202").hint(hint);
        }
        if is(|cause| matches!(cause.downcast_ref(), Some(data_dir::DataDirError::Write { .. }))) {
            return failure.code("PB0203").hint("its folder has to be there, and you must be able to write to it");
        }
        if is(|cause| cause.is::<data_dir::DataDirError>()) {
            return failure.code("PB0203").hint("choose a folder that can be written to with --data-dir");
        }
        if is(|cause| matches!(cause.downcast_ref(), Some(patchboard_store::OpenError::OtherFormat { .. }))) {
            let hint = "before the first release databases are not converted: start the version that wrote it, move the \
                        file away to start with an empty one, or choose another folder with --data-dir";
            return failure.code("PB0204").hint(hint);
        }
        if is(|cause| cause.is::<patchboard_store::OpenError>()) {
            return failure.code("PB0204").hint("`patchboard doctor` checks the database");
        }
        if is(|cause| cause.is::<KeyNameClash>()) {
            let hint =
                "rename it in `[[keys]]`, or start without it and revoke the created one with `patchboard keys revoke`";
            return failure.code("PB0207").hint(hint);
        }
        if is(|cause| cause.is::<patchboard_tools::Error>()) {
            return failure.code("PB0206").hint("start in another folder, or set `runs.working_folder`");
        }
        failure
    }

    /// A managed model that cannot run.
    pub(crate) fn from_local_model_error(error: local_model::Error) -> Self {
        let hint = error.hint();
        if let Some(lines) = error.output() {
            output::eprint_line(lines);
        }
        let failure = Self::unusable(format!("the local model cannot be started: {:#}", anyhow::Error::from(error)));
        let failure = failure.code("PB0205");
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }

    fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// The message and the hint.
    #[cfg(test)]
    pub(crate) fn texts(&self) -> (&str, Option<&str>) {
        (&self.message, self.hint.as_deref())
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn report(self) -> ExitCode {
        let colour = output::colour(OutputStream::Err);
        let label = self.code.map_or_else(|| "error".to_owned(), |code| format!("error[{code}]"));
        let message = strip_os_error_codes(&self.message);
        output::eprint_line(&format!("{}: {message}", paint(&label, TextRole::Bad, colour)));
        if let Some(hint) = self.hint {
            output::eprint_line(&format!("{}: {hint}", paint("hint", TextRole::Name, colour)));
        }
        ExitCode::from(match self.kind {
            ExitKind::Failed => 1,
            ExitKind::Unusable => 2,
            ExitKind::Unreachable => 3,
        })
    }
}

/// Removes the numbers of system errors; their text precedes them.
fn strip_os_error_codes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(" (os error ") {
        out.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    out
}

impl From<anyhow::Error> for CommandFailure {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast_ref::<ConnectError>() {
            Some(error) => Self::of_connect_error(error),
            // The text may come from a server or plugin.
            None => Self::failed(output::plain(&format!("{error:#}"))),
        }
    }
}

impl From<io::Error> for CommandFailure {
    fn from(error: io::Error) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<ConfigProblems> for CommandFailure {
    fn from(problems: ConfigProblems) -> Self {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let first = problems.iter().find(|problem| problem.severity == Severity::Error);
        let code = first.map_or("CODE", |problem| problem.code.as_str());
        let more = format!("`patchboard explain {code}` tells more");
        let hint = match problems.iter().find_map(unreadable_file_hint) {
            Some(file_hint) => format!("{file_hint}; {more}"),
            None => more,
        };
        Self::unusable(format!("the configuration cannot be used\n{}", lines.join("\n"))).hint(hint)
    }
}

/// A hint about the owner and mode of a configuration file that cannot be read.
fn unreadable_file_hint(problem: &ConfigProblem) -> Option<String> {
    let path = problem.origin.to_string();
    let is_closed = || fs::File::open(&path).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
    if problem.code != ProblemCode::FileUnreadable || !is_closed() {
        return None;
    }
    // If a folder above is inaccessible as well, the file's metadata cannot be read.
    let found = fs::metadata(&path).ok()?;
    Some(ownership_hint(&path, found.uid(), found.mode(), rustix::process::geteuid().as_raw()))
}

fn ownership_hint(path: &str, owner: u32, mode: u32, user: u32) -> String {
    let mode = mode & 0o777;
    let path = output::one_line(path);
    match owner == user {
        true => format!("`chmod u+r {path}` lets you read it; its mode is {mode:03o}"),
        false => format!(
            "it belongs to the user with id {owner}, has mode {mode:03o}, and you are {user}: its owner can let you read \
             it, or --config FILE names another"
        ),
    }
}

#[cfg(test)]
mod tests;
