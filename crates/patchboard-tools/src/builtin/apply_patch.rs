//! `apply_patch`: changes of several files in one text, all validated before the first is applied.

use patchboard_core::tool::{ToolEffect, UnknownOutcomePolicy};
use serde_json::json;
use tokio_util::sync::CancellationToken;

mod chunk;
mod parse;
mod plan;

use super::file_runtime::{FileLocks, ToolRefusal};
use super::file_tool::{FileCall, FileTool};
use crate::folder::WorkFolder;
use parse::Patch;

pub(super) fn tool() -> FileTool {
    FileTool {
        name: "apply_patch",
        description: "Change files of the working folder by a patch:\n\
                      *** Begin Patch\n\
                      *** Add File: new.txt\n\
                      +every line of it\n\
                      *** Delete File: old.txt\n\
                      *** Update File: src/lib.rs\n\
                      *** Move to: src/other.rs\n\
                      @@ fn where_to_look() {\n \
                      a line that stays\n\
                      -a line to take away\n\
                      +a line to put in\n\
                      *** End Patch\n\
                      `Move to` and `@@` lines are optional. Lines that stay and go must together be found only \
                      once, or first after the `@@` line; `*** End of File` after them says they are the last. Each \
                      file may be named once. Everything is checked before anything is changed.",
        input_schema: json!({
            "type": "object",
            "properties": {
                "patchText": {"type": "string", "minLength": 1, "description": "The whole patch."}
            },
            "required": ["patchText"],
            "additionalProperties": false
        }),
        effect: ToolEffect::Writes,
        // Files of a patch change one after the other: some may have.
        unknown_outcome: UnknownOutcomePolicy::Fail,
        run,
    }
}

fn run(call: &FileCall<'_>) -> Result<String, ToolRefusal> {
    apply(call.locks, call.folder, call.text("patchText"), call.stop)
}

fn apply(turns: &FileLocks, folder: &WorkFolder, patch: &str, stop: &CancellationToken) -> Result<String, ToolRefusal> {
    let patch = Patch::parse(patch).map_err(|error| ToolRefusal(format!("{error}; nothing was changed")))?;
    plan::execute(turns, folder, &patch, stop)?;
    Ok(format!("Applied {} hunk(s) successfully.", patch.changes.len()))
}

#[cfg(test)]
mod tests;
