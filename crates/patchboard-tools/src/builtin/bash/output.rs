//! Formats a command's result for the model: its output, then how it ended.

use std::time::Duration;

use patchboard_core::tool::ToolOutput;

use super::transcript::{StreamExcerpt, Transcript};
use crate::sandbox::{CommandExit, Confinement, NetworkAccess, SandboxError, TcpAccess};

/// The output stays below the core's limit of 64 KiB, so that its last line is never cut off.
const OUTPUT_BYTES: usize = 63 * 1024;
/// Space for headings, notes and the last line.
const MARKS_RESERVE: usize = 1024;

#[derive(Debug)]
pub(super) enum CommandOutcome {
    Ended(CommandExit),
    TimedOut(Duration),
    Cancelled,
    /// How the command ended is unknown.
    Lost(SandboxError),
}

impl From<Result<CommandExit, SandboxError>> for CommandOutcome {
    fn from(ending: Result<CommandExit, SandboxError>) -> Self {
        match ending {
            Ok(ending) => Self::Ended(ending),
            Err(error) => Self::Lost(error),
        }
    }
}

impl CommandOutcome {
    fn last_line(&self) -> String {
        match self {
            Self::Ended(CommandExit::Exited(code)) => format!("exit code: {code}"),
            Self::Ended(CommandExit::Signalled(signal)) => format!("killed by signal {signal}"),
            Self::TimedOut(limit) => format!("timed out after {} ms", limit.as_millis()),
            Self::Cancelled => "cancelled".to_owned(),
            Self::Lost(error) => error.to_string(),
        }
    }

    fn is_success(&self) -> bool {
        matches!(self, Self::Ended(CommandExit::Exited(0)))
    }
}

pub(super) fn tool_output(
    outcome: &CommandOutcome,
    transcript: &Transcript,
    confinement: Confinement,
    network: &NetworkAccess,
) -> ToolOutput {
    let mut content = format_streams(&transcript.from_stdout, &transcript.from_stderr);
    if !outcome.is_success() {
        let notes = [protected_note(confinement), network_note(&content, network)];
        for note in notes.into_iter().flatten() {
            append_line(&mut content, &note);
        }
    }
    append_line(&mut content, &outcome.last_line());
    if outcome.is_success() { ToolOutput::ok(content) } else { ToolOutput::error(content) }
}

fn format_streams(stdout: &StreamExcerpt, stderr: &StreamExcerpt) -> String {
    let limit = OUTPUT_BYTES - MARKS_RESERVE;
    match (stdout.is_empty(), stderr.is_empty()) {
        (true, true) => String::new(),
        (false, true) => stdout.text(limit),
        (true, false) => format!("stderr:\n{}", stderr.text(limit)),
        (false, false) => {
            // Each stream gets half of the limit, plus what the other does not use of its half.
            let half = limit / 2;
            let for_stderr = stderr.size().min(half.max(limit.saturating_sub(stdout.size())));
            let mut content = format!("stdout:\n{}", stdout.text(limit - for_stderr));
            append_line(&mut content, "stderr:");
            content.push('\n');
            content.push_str(&stderr.text(for_stderr));
            content
        }
    }
}

/// Explains why accesses in the working folder that look allowed may be refused.
fn protected_note(confinement: Confinement) -> Option<String> {
    if !confinement.has_closed_parts || confinement.landlock_abi == 0 {
        return None;
    }
    let mut note = "[files of the server lie beneath the working folder: commands can neither list nor add to the \
                    folders that lead to them, only use what else is in there"
        .to_owned();
    if confinement.left_out > 0 {
        note.push_str(&format!(", {} entries excepted", confinement.left_out));
    }
    note.push(']');
    Some(note)
}

/// Explains why a program whose output mentions sockets may have failed.
fn network_note(content: &str, network: &NetworkAccess) -> Option<String> {
    let is_about_sockets = ["socket", "Socket", ".sock", "listen"].iter().any(|word| content.contains(word));
    let mut closed = Vec::new();
    if !network.unix_sockets {
        closed.push("use sockets that have a path (`tools.bash.unix_sockets`)");
    }
    if network.listen == TcpAccess::Closed {
        closed.push("listen (`tools.bash.listen`)");
    }
    (is_about_sockets && !closed.is_empty())
        .then(|| format!("[commands may not {} unless the operator of this server allows it]", closed.join(" or ")))
}

fn append_line(content: &mut String, line: &str) {
    if !content.is_empty() && !content.ends_with('\n') {
        content.push('\n');
    }
    content.push_str(line);
}

#[cfg(test)]
mod tests;
