//! `move_file`: moves or renames a file or folder.

use patchboard_core::tool::{ToolEffect, UnknownOutcomePolicy};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::file_runtime::content::entry_target;
use super::file_runtime::{FileLocks, ToolRefusal};
use super::file_tool::{FileCall, FileTool};
use crate::folder::{EntryKind, WorkFolder};

pub(super) fn tool() -> FileTool {
    FileTool {
        name: "move_file",
        description: "Move or rename a file or folder of the working folder. `target` is the new path itself, not a folder \
                      to put it in, and nothing may be there yet; folders on the way to it are made. A symlink is \
                      moved itself, not what it leads to.",
        input_schema: json!({
            "type": "object",
            "properties": {
                "source": {
                    "type": "string",
                    "minLength": 1,
                    "description": "What to move, relative to the working folder."
                },
                "target": {
                    "type": "string",
                    "minLength": 1,
                    "description": "Its new path, relative to the working folder."
                }
            },
            "required": ["source", "target"],
            "additionalProperties": false
        }),
        effect: ToolEffect::Writes,
        // On a second attempt the source no longer exists, or is another file.
        unknown_outcome: UnknownOutcomePolicy::Fail,
        run,
    }
}

fn run(call: &FileCall<'_>) -> Result<String, ToolRefusal> {
    move_entry(call.locks, call.folder, call.text("source"), call.text("target"), call.stop)
}

fn move_entry(
    turns: &FileLocks,
    folder: &WorkFolder,
    source: &str,
    target: &str,
    stop: &CancellationToken,
) -> Result<String, ToolRefusal> {
    let look = || Ok((entry_target(folder, source)?, entry_target(folder, target)?));
    let (_turn, (from, to)) = turns.lock_targets(look, |(from, to)| vec![from, to])?;
    if from.kind().is_none() {
        return Err(ToolRefusal(format!("{} does not exist", from.display_path())));
    }
    if from.lock_key() == to.lock_key() {
        return Err(ToolRefusal(format!("`source` and `target` are both {}", from.display_path())));
    }
    match to.kind() {
        Some(EntryKind::Folder) => {
            return Err(ToolRefusal(format!("{} is a folder: name the new path in it", to.display_path())));
        }
        Some(_) => return Err(ToolRefusal(format!("{} already exists", to.display_path()))),
        None => {}
    }
    if stop.is_cancelled() {
        return Err(ToolRefusal::cancelled());
    }
    from.move_to(&to, &folder.protected_ancestors()?)?;
    Ok("ok".to_owned())
}

#[cfg(test)]
mod tests;
