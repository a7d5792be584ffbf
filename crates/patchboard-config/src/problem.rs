//! Problems of a configuration, with hints for fixing them.

use std::fmt;

use serde::Serialize;

use super::{key_path::KeyPath, origin::ValueOrigin};

/// One problem, with its location and a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    pub code: ProblemCode,
    pub severity: Severity,
    pub path: KeyPath,
    pub origin: ValueOrigin,
    pub message: String,
    pub hint: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The server does not start.
    Error,
    /// The server starts; the operator is warned.
    Warning,
}

impl ConfigProblem {
    pub(crate) fn error(code: ProblemCode, path: KeyPath, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Error,
            path,
            origin: ValueOrigin::Default,
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn warning(code: ProblemCode, path: KeyPath, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, path, message) }
    }

    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub(crate) fn with_origin(mut self, origin: ValueOrigin) -> Self {
        self.origin = origin;
        self
    }
}

/// `error[PB0103] gateway.lisen (patchboard.toml:3): unknown key`, then an
/// indented hint line.
impl fmt::Display for ConfigProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(formatter, "{severity}[{}]", self.code.as_str())?;
        match (self.path.segments().is_empty(), &self.origin) {
            (true, ValueOrigin::Default) => {}
            (true, origin) => write!(formatter, " {origin}")?,
            (false, ValueOrigin::Default) => write!(formatter, " {}", self.path)?,
            (false, origin) => write!(formatter, " {} ({origin})", self.path)?,
        }
        write!(formatter, ": {}", self.message)?;
        if let Some(hint) = &self.hint {
            write!(formatter, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

/// For `config check --json`.
impl Serialize for ConfigProblem {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct ProblemRow<'a> {
            code: &'static str,
            severity: Severity,
            path: String,
            origin: String,
            message: &'a str,
            hint: Option<&'a str>,
        }
        ProblemRow {
            code: self.code.as_str(),
            severity: self.severity,
            path: self.path.to_string(),
            origin: self.origin.to_string(),
            message: &self.message,
            hint: self.hint.as_deref(),
        }
        .serialize(serializer)
    }
}

/// All problems of one configuration, in reading order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigProblems(Vec<ConfigProblem>);

impl ConfigProblems {
    pub fn new(mut problems: Vec<ConfigProblem>) -> Self {
        problems.sort_by(|one, two| {
            let key = |problem: &ConfigProblem| (problem.origin.clone(), problem.path.clone());
            key(one).cmp(&key(two))
        });
        Self(problems)
    }

    pub fn iter(&self) -> impl Iterator<Item = &ConfigProblem> {
        self.0.iter()
    }

    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|problem| problem.severity == Severity::Error)
    }
}

impl fmt::Display for ConfigProblems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, problem) in self.0.iter().enumerate() {
            if position > 0 {
                formatter.write_str("\n")?;
            }
            problem.fmt(formatter)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigProblems {}

/// Declares each code once, as a variant and its text.
macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $code:literal,)+) => {
        /// What kind of problem it is. Each code has a page in `docs/errors/`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ProblemCode { $($(#[$doc])* $variant,)+ }

        impl ProblemCode {
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)+ }
            }
        }
    };
}

codes! {
    /// The file cannot be found or read.
    FileUnreadable = "PB0101",
    /// The file is not TOML.
    Syntax = "PB0102",
    /// No such key.
    UnknownKey = "PB0103",
    /// A value of the wrong type.
    WrongType = "PB0104",
    /// Not a duration, or one of zero length.
    BadDuration = "PB0105",
    /// Not a size.
    BadSize = "PB0106",
    /// A secret is written into the configuration.
    LiteralSecret = "PB0107",
    /// A secret reference that cannot be resolved.
    MissingSecret = "PB0108",
    /// Not an address to listen on.
    BadAddress = "PB0109",
    /// Not one of the allowed words.
    UnknownChoice = "PB0110",
    /// A number outside its range.
    OutOfRange = "PB0111",
    /// A reference to a name that is not configured.
    UnknownReference = "PB0112",
    /// A binding that matches nothing, or that an earlier one makes unreachable.
    UselessBinding = "PB0113",
    /// A listener off loopback without authentication.
    TokenNeeded = "PB0114",
    /// A listener off loopback without encryption.
    PlaintextOffLoopback = "PB0115",
    /// The hub off loopback.
    HubOffLoopback = "PB0116",
    /// A required key is missing.
    MissingKey = "PB0117",
    /// A name that cannot be used.
    UnusableName = "PB0118",
    /// An invalid pattern or grant.
    BadPattern = "PB0119",
    /// A missing file or folder.
    MissingFile = "PB0120",
    /// Not a web address, origin or host name.
    BadUrl = "PB0121",
    /// Keys that contradict each other.
    Conflict = "PB0122",
    /// A setting that weakens protection.
    RiskySetting = "PB0123",
    /// An invalid certificate or key file.
    BadCertificate = "PB0124",
    /// A key that is withheld from an address set by a project.
    WithheldKey = "PB0125",
    /// A file that is not trusted, or has changed since it was.
    UntrustedFile = "PB0126",
    /// A token that is easy to guess.
    ShortToken = "PB0127",
}
