//! `--approvals`: how tool calls that need approval are handled if no person can be asked.

use clap::{Args, ValueEnum};

use crate::output;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UnattendedMode {
    /// The call is refused at once.
    Refuse,
    /// The call waits until `patchboard approvals` answers it, or for as long as the server lets it.
    Wait,
}

#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct ApprovalArgs {
    /// How to handle tool calls that need approval: `refuse` them at once, or `wait` for an answer by `patchboard
    /// approvals`. Left out, you are asked at the terminal; without one they are refused.
    #[arg(long, value_name = "MODE", value_enum, hide_possible_values = true)]
    pub(crate) approvals: Option<UnattendedMode>,
}

/// How approvals of a command's tool calls are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApprovalResponder {
    /// By the person at this terminal.
    Person,
    /// Without a person.
    Unattended(UnattendedMode),
}

impl ApprovalArgs {
    pub(crate) fn responder(self, has_person: bool) -> ApprovalResponder {
        match (self.approvals, has_person) {
            (Some(mode), _) => ApprovalResponder::Unattended(mode),
            (None, true) => ApprovalResponder::Person,
            (None, false) => ApprovalResponder::Unattended(UnattendedMode::Refuse),
        }
    }
}

/// Why a call was refused and what would allow it; `ways` are options besides the configuration.
pub(crate) fn refusal_text(tool: &str, call: &str, ways: &str) -> String {
    let (tool, call) = (output::one_line(tool), output::one_line(call));
    format!(
        "refused, because it needs approval and nobody can be asked here: {call}\n\
         hint: `\"{tool}\" = \"allow\"` under `[tools.approval]` allows it; {ways}"
    )
}

/// How to answer a call that waits.
pub(crate) fn invitation_text(id: &str, call: &str, ways: &str) -> String {
    let (id, call) = (output::one_line(id), output::one_line(call));
    format!(
        "approval wanted: {call}\nhint: answer with `patchboard approvals answer {id} --approve` or `--refuse`{ways}"
    )
}

#[cfg(test)]
mod tests;
