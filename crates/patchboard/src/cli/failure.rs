//! How a command fails: one clear line, a hint what to do next, and an exit code that says of which kind it was.

use std::process::ExitCode;

use super::output;
use crate::config::problem::ConfigProblems;

/// Exit codes: 0 is success, 70 a bug (a panic).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// 1: it was tried and failed.
    Failed,
    /// 2: it could not be tried: usage, configuration, a port in use.
    Unusable,
    /// 3: no server answers.
    Unreachable,
}

#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { kind: Kind::Failed, message: message.into(), hint: None }
    }

    pub(crate) fn unusable(message: impl Into<String>) -> Self {
        Self { kind: Kind::Unusable, message: message.into(), hint: None }
    }

    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self { kind: Kind::Unreachable, message: message.into(), hint: None }
    }

    /// A server that should be there and is not.
    pub(crate) fn no_server(error: anyhow::Error) -> Self {
        Self::unreachable(format!("{error:#}"))
    }

    /// A server that cannot start.
    pub(crate) fn cannot_start(error: anyhow::Error) -> Self {
        let in_use = error.chain().any(|cause| {
            let kind = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
            kind == Some(std::io::ErrorKind::AddrInUse)
        });
        let failure = Self::unusable(format!("{error:#}"));
        if in_use {
            return failure.hint("another program uses that port; choose another one, such as --gateway 127.0.0.1:0");
        }
        failure
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn report(self) -> ExitCode {
        output::error(&format!("error: {}", self.message));
        if let Some(hint) = self.hint {
            output::error(&format!("hint: {hint}"));
        }
        ExitCode::from(match self.kind {
            Kind::Failed => 1,
            Kind::Unusable => 2,
            Kind::Unreachable => 3,
        })
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::failed(format!("{error:#}"))
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<ConfigProblems> for Failure {
    fn from(problems: ConfigProblems) -> Self {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Self::unusable(format!("the configuration cannot be used\n{}", lines.join("\n")))
            .hint("`patchboard explain CODE` tells more about a code")
    }
}
