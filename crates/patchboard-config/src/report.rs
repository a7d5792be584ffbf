//! `config check`: all problems of a configuration, and a summary line.

use std::{fmt, path::PathBuf};

use super::{
    LoadRequest,
    load::load_with_secrets,
    problem::{ConfigProblem, ConfigProblems, Severity},
};

/// Result of `config check`.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// The files that were read, in order.
    pub files: Vec<PathBuf>,
    pub problems: ConfigProblems,
}

/// Makes all checks of a server's start, including secrets.
pub fn check(request: LoadRequest) -> CheckReport {
    let (loaded, _secrets, problems) = load_with_secrets(request);
    CheckReport {
        files: loaded.files.into_iter().map(|file| file.path).collect(),
        problems: ConfigProblems::new(problems),
    }
}

impl CheckReport {
    /// Whether a server would start.
    pub fn is_ok(&self) -> bool {
        !self.problems.has_errors()
    }

    /// JSON on one line.
    pub fn to_json(&self) -> String {
        let problems: Vec<&ConfigProblem> = self.problems.iter().collect();
        serde_json::json!({ "ok": self.is_ok(), "files": self.files, "problems": problems }).to_string()
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in self.problems.iter() {
            writeln!(formatter, "{problem}")?;
        }
        let files: Vec<String> = self.files.iter().map(|file| file.display().to_string()).collect();
        match files.is_empty() {
            false => write!(formatter, "{}: ", files.join(", "))?,
            true => write!(formatter, "no config file: ")?,
        }
        let count = |severity| {
            let of_severity = self.problems.iter().filter(|it| it.severity == severity);
            of_severity.count()
        };
        let plural = |count: usize, word: &str| match count {
            1 => format!("1 {word}"),
            _ => format!("{count} {word}s"),
        };
        match (count(Severity::Error), count(Severity::Warning)) {
            (0, 0) => formatter.write_str("no problems"),
            (0, warnings) => formatter.write_str(&plural(warnings, "warning")),
            (errors, 0) => formatter.write_str(&plural(errors, "error")),
            (errors, warnings) => write!(formatter, "{}, {}", plural(errors, "error"), plural(warnings, "warning")),
        }
    }
}
