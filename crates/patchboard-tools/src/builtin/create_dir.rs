//! `create_dir`: creates a folder and its missing parents.

use patchboard_core::tool::{ToolEffect, UnknownOutcomePolicy};
use serde_json::json;

use super::file_runtime::ToolRefusal;
use super::file_tool::{FileCall, FileTool};
use crate::folder::{EntryKind, LastSymlink, PathError, TargetLookup, WorkFolder};
use crate::text::quoted;

pub(super) fn tool() -> FileTool {
    FileTool {
        name: "create_dir",
        description: "Make a folder in the working folder, and the folders on the way to it. That it exists already is fine \
                      unless `exist_ok` is false.",
        input_schema: json!({
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "description": "The folder, relative to the working folder."
                },
                "exist_ok": {
                    "type": "boolean",
                    "description": "Accept a folder that exists already; true by default."
                }
            },
            "required": ["path"],
            "additionalProperties": false
        }),
        effect: ToolEffect::Writes,
        unknown_outcome: UnknownOutcomePolicy::Retry,
        run,
    }
}

fn run(call: &FileCall<'_>) -> Result<String, ToolRefusal> {
    let existing = match call.flag("exist_ok") {
        Some(false) => ExistingFolder::Refused,
        Some(true) | None => ExistingFolder::Accepted,
    };
    create(call.folder, call.text("path"), existing)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExistingFolder {
    Accepted,
    Refused,
}

fn create(folder: &WorkFolder, path: &str, existing: ExistingFolder) -> Result<String, ToolRefusal> {
    let ok = Ok("ok".to_owned());
    let place = match folder.resolve_target(path, LastSymlink::Followed)? {
        TargetLookup::Target(place) => place,
        TargetLookup::Unnamed if existing == ExistingFolder::Accepted => return ok,
        TargetLookup::Unnamed => return Err(PathError::Exists { path: quoted(path) }.into()),
    };
    match (place.kind(), existing) {
        (Some(EntryKind::Folder), ExistingFolder::Accepted) => return ok,
        (Some(EntryKind::Folder), ExistingFolder::Refused) => {
            return Err(PathError::Exists { path: place.display_path() }.into());
        }
        (Some(_), _) => {
            return Err(ToolRefusal(format!("{} already exists and is not a folder", place.display_path())));
        }
        (None, _) => {}
    }
    match (place.make_folder(), existing) {
        // Created concurrently by another call; an existing folder is accepted.
        (Err(PathError::Exists { .. }), ExistingFolder::Accepted) if is_folder(folder, path) => ok,
        (Err(error), _) => Err(error.into()),
        (Ok(()), _) => ok,
    }
}

fn is_folder(folder: &WorkFolder, path: &str) -> bool {
    match folder.resolve_target(path, LastSymlink::Followed) {
        Ok(TargetLookup::Unnamed) => true,
        Ok(TargetLookup::Target(place)) => place.kind() == Some(EntryKind::Folder),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests;
