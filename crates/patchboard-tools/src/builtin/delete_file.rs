//! `delete_file`: deletes a file, or with `recursive` a folder and its content.

use patchboard_core::tool::{ToolEffect, UnknownOutcomePolicy};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::file_runtime::content::entry_target;
use super::file_runtime::{FileLocks, ToolRefusal};
use super::file_tool::{FileCall, FileTool};
use crate::folder::{EntryKind, WorkFolder};

pub(super) fn tool() -> FileTool {
    FileTool {
        name: "delete_file",
        description: "Delete a file or an empty folder of the working folder; with `recursive` a folder and all that lies in \
                      it, up to 50000 entries. A symlink is deleted itself, not what it leads to. There is no way \
                      back.",
        input_schema: json!({
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "description": "What to delete, relative to the working folder."
                },
                "recursive": {
                    "type": "boolean",
                    "description": "Delete a folder with all that lies in it; false by default."
                }
            },
            "required": ["path"],
            "additionalProperties": false
        }),
        effect: ToolEffect::Writes,
        // Another file may exist at the path by the time of a second attempt.
        unknown_outcome: UnknownOutcomePolicy::Fail,
        run,
    }
}

fn run(call: &FileCall<'_>) -> Result<String, ToolRefusal> {
    let scope = match call.flag("recursive") {
        Some(true) => DeleteScope::Recursive,
        Some(false) | None => DeleteScope::EntryOnly,
    };
    delete(call.locks, call.folder, call.text("path"), scope, call.stop)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeleteScope {
    EntryOnly,
    Recursive,
}

fn delete(
    turns: &FileLocks,
    folder: &WorkFolder,
    path: &str,
    reach: DeleteScope,
    stop: &CancellationToken,
) -> Result<String, ToolRefusal> {
    let (_turn, place) = turns.lock_targets(|| entry_target(folder, path), |place| vec![place])?;
    let holders = folder.protected_ancestors()?;
    if stop.is_cancelled() {
        return Err(ToolRefusal::cancelled());
    }
    match place.kind() {
        Some(EntryKind::Folder) if reach == DeleteScope::Recursive => place.delete_tree(&holders, stop)?,
        Some(_) => place.delete(&holders)?,
        None => return Err(ToolRefusal(format!("{} does not exist", place.display_path()))),
    }
    Ok("ok".to_owned())
}

#[cfg(test)]
mod tests;
