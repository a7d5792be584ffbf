//! `edit`: replaces one piece of a file.

use patchboard_core::tool::{ToolEffect, UnknownOutcomePolicy};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

mod replace;

use super::file_runtime::content::{file_target, read_text, write_content};
use super::file_runtime::{FileLocks, ToolRefusal, flag_argument, text_argument};
use super::file_tool::{FileCall, FileTool};
use crate::folder::{OverwriteMode, PathError, WorkFolder};
use replace::Occurrences;
pub(super) use replace::TextEdit;

pub(super) fn tool() -> FileTool {
    let mut properties = edit_properties();
    if let Some(properties) = properties.as_object_mut() {
        let path = json!({
            "type": "string",
            "minLength": 1,
            "description": "The file, relative to the working folder."
        });
        properties.insert("path".to_owned(), path);
    }
    FileTool {
        name: "edit",
        description: "Replace a piece of a text file of the working folder. `oldString` has to be in the file \
                      exactly once, unless `replaceAll` is true: take whole lines and enough of them. Copy it from \
                      `read` without the line numbers. Where it is not there exactly, differences in indentation, \
                      blanks and line ends are forgiven as long as only one place fits. An empty `oldString` makes \
                      a new file of `newString`.",
        input_schema: json!({
            "type": "object",
            "properties": properties,
            "required": ["path", "oldString", "newString"],
            "additionalProperties": false
        }),
        effect: ToolEffect::Writes,
        // The new text may contain the old one, and would then be inserted twice.
        unknown_outcome: UnknownOutcomePolicy::Fail,
        run,
    }
}

fn run(call: &FileCall<'_>) -> Result<String, ToolRefusal> {
    edit(call.locks, call.folder, call.text("path"), &parse_edit(call.arguments), call.stop)
}

/// Arguments of one edit, shared by `edit` and `multiedit`.
pub(super) fn edit_properties() -> Value {
    json!({
        "oldString": {"type": "string", "description": "The text to replace."},
        "newString": {"type": "string", "description": "The text to put in its place."},
        "replaceAll": {
            "type": "boolean",
            "description": "Replace every occurrence instead of the only one; false by default."
        }
    })
}

pub(super) fn parse_edit(arguments: &Value) -> TextEdit {
    let all = flag_argument(arguments, "replaceAll") == Some(true);
    TextEdit {
        old: text_argument(arguments, "oldString").unwrap_or_default().to_owned(),
        new: text_argument(arguments, "newString").unwrap_or_default().to_owned(),
        occurrences: if all { Occurrences::All } else { Occurrences::Unique },
    }
}

fn edit(
    turns: &FileLocks,
    folder: &WorkFolder,
    path: &str,
    change: &TextEdit,
    stop: &CancellationToken,
) -> Result<String, ToolRefusal> {
    let (_turn, place) = turns.lock_targets(|| file_target(folder, path), |place| vec![place])?;
    let done = "Edit applied successfully.";
    if change.old.is_empty() {
        if place.kind().is_some() {
            return Err(ToolRefusal(format!(
                "{} already exists: an empty `oldString` makes a new file; use `write_file` to replace one",
                place.display_path()
            )));
        }
        write_content(&place, change.new.as_bytes(), OverwriteMode::NoReplace, stop)?;
        return Ok(done.to_owned());
    }
    if place.kind().is_none() {
        return Err(PathError::Missing { path: place.display_path() }.into());
    }
    let before = read_text(&place, stop)?;
    let replaced = change.apply(&before).map_err(|error| error.into_refusal(&place.display_path()))?;
    if stop.is_cancelled() {
        return Err(ToolRefusal::cancelled());
    }
    write_content(&place, replaced.text.as_bytes(), OverwriteMode::Replace, stop)?;
    Ok(match replaced.remark() {
        Some(remark) => format!("{done}\n[{remark}]"),
        None => done.to_owned(),
    })
}

#[cfg(test)]
mod tests;
