//! `multiedit`: applies several edits to one file, all or none.

use patchboard_core::tool::{ToolEffect, UnknownOutcomePolicy};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::edit::{TextEdit, edit_properties, parse_edit};
use super::file_runtime::content::{file_target, read_text, write_content};
use super::file_runtime::{FileLocks, ToolRefusal};
use super::file_tool::{FileCall, FileTool};
use crate::folder::{OverwriteMode, PathError, WorkFolder};

/// The schema refuses more edits per call: each searches the whole file.
const MAX_EDITS: usize = 200;

pub(super) fn tool() -> FileTool {
    FileTool {
        name: "multiedit",
        description: "Make several edits of one text file of the working folder, one after the other, each on what \
                      the ones before it left, by the rules of `edit`. Either all are made or, when one fails, none. \
                      A first edit with an empty `oldString` makes a new file.",
        input_schema: json!({
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "description": "The file, relative to the working folder."
                },
                "edits": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": MAX_EDITS,
                    "items": {
                        "type": "object",
                        "properties": edit_properties(),
                        "required": ["oldString", "newString"],
                        "additionalProperties": false
                    },
                    "description": "The edits, in order."
                }
            },
            "required": ["path", "edits"],
            "additionalProperties": false
        }),
        effect: ToolEffect::Writes,
        // As for `edit`.
        unknown_outcome: UnknownOutcomePolicy::Fail,
        run,
    }
}

fn run(call: &FileCall<'_>) -> Result<String, ToolRefusal> {
    let edits: Vec<TextEdit> = call.list("edits").iter().take(MAX_EDITS).map(parse_edit).collect();
    multiedit(call.locks, call.folder, call.text("path"), &edits, call.stop)
}

fn multiedit(
    turns: &FileLocks,
    folder: &WorkFolder,
    path: &str,
    edits: &[TextEdit],
    stop: &CancellationToken,
) -> Result<String, ToolRefusal> {
    let (_turn, place) = turns.lock_targets(|| file_target(folder, path), |place| vec![place])?;
    let shown = place.display_path();
    let (mut whole, rest, over) = match (place.kind(), edits.split_first()) {
        (None, Some((first, rest))) if first.old.is_empty() => (first.new.clone(), rest, OverwriteMode::NoReplace),
        (None, _) => return Err(PathError::Missing { path: shown }.into()),
        (Some(_), _) => (read_text(&place, stop)?, edits, OverwriteMode::Replace),
    };
    let mut remarks = Vec::new();
    for (index, edit) in rest.iter().enumerate() {
        if stop.is_cancelled() {
            return Err(ToolRefusal::cancelled());
        }
        let number = index + 1 + edits.len() - rest.len();
        let replaced = edit.apply(&whole).map_err(|error| {
            let ToolRefusal(reason) = error.into_refusal(&shown);
            ToolRefusal(format!("edit {number} of {}: {reason}; nothing was changed", edits.len()))
        })?;
        remarks.extend(replaced.remark().map(|remark| format!("\n[edit {number}: {remark}]")));
        whole = replaced.text;
    }
    write_content(&place, whole.as_bytes(), over, stop)?;
    Ok(format!("Applied {} edit(s) successfully.{}", edits.len(), remarks.concat()))
}

#[cfg(test)]
mod tests;
