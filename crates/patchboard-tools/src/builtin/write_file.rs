//! `write_file`: writes a whole file, or appends to it.

use patchboard_core::tool::{ToolEffect, UnknownOutcomePolicy};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::file_runtime::content::{file_target, read_bytes, write_content as put};
use super::file_runtime::{FileLocks, ToolRefusal};
use super::file_tool::{FileCall, FileTool};
use crate::folder::{OverwriteMode, PathError, WorkFolder};
use crate::text::quoted;

/// Tries for a file that repeatedly appears and disappears.
const MAX_TRIES: usize = 8;

pub(super) fn tool() -> FileTool {
    FileTool {
        name: "write_file",
        description: "Write a file of the working folder: `content` replaces what was there, or with `append` is added \
                      at its end. Folders on the way are made. The file is replaced in one step, so nobody sees half \
                      of it; at most 10 MiB. To change parts of a file use `edit`.",
        input_schema: json!({
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "description": "The file, relative to the working folder."
                },
                "content": {"type": "string", "description": "All of the file, or what to add to it."},
                "append": {
                    "type": "boolean",
                    "description": "Add to the end of the file instead of replacing it; false by default."
                }
            },
            "required": ["path", "content"],
            "additionalProperties": false
        }),
        effect: ToolEffect::Writes,
        // Repeating `append` would add twice.
        unknown_outcome: UnknownOutcomePolicy::Fail,
        run,
    }
}

fn run(call: &FileCall<'_>) -> Result<String, ToolRefusal> {
    let mode = match call.flag("append") {
        Some(true) => WriteMode::Append,
        Some(false) | None => WriteMode::Replace,
    };
    write(call.locks, call.folder, call.text("path"), call.text("content"), mode, call.stop)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteMode {
    Replace,
    Append,
}

fn write(
    turns: &FileLocks,
    folder: &WorkFolder,
    path: &str,
    content: &str,
    keep: WriteMode,
    stop: &CancellationToken,
) -> Result<String, ToolRefusal> {
    for _ in 0..MAX_TRIES {
        let (_turn, place) = turns.lock_targets(|| file_target(folder, path), |place| vec![place])?;
        let done = match (keep, place.kind()) {
            (WriteMode::Replace, _) => put(&place, content.as_bytes(), OverwriteMode::Replace, stop),
            (WriteMode::Append, None) => put(&place, content.as_bytes(), OverwriteMode::NoReplace, stop),
            (WriteMode::Append, Some(_)) => {
                let mut whole = read_bytes(&place, stop)?;
                whole.extend_from_slice(content.as_bytes());
                put(&place, &whole, OverwriteMode::Replace, stop)
            }
        };
        match done {
            Ok(()) => return Ok("ok".to_owned()),
            // Created concurrently, perhaps together with its folder: append to it.
            Err(PathError::Exists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ToolRefusal(format!("{} keeps appearing and going away", quoted(path))))
}

#[cfg(test)]
mod tests;
