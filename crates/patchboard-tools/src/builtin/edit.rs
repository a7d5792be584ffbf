//! `edit`: replaces one piece of a file.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::port::ToolScope;
use patchboard_core::tool::{ToolEffect, ToolOutput, ToolSpec, UnknownOutcomePolicy};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

mod replace;

use super::file_runtime::content::{file_target, read_text, write_content};
use super::file_runtime::{FileLocks, FileToolRuntime, ToolRefusal, flag_argument, text_argument};
use super::{BuiltinTool, TOOL_KIND};
use crate::folder::{OverwriteMode, PathError, WorkFolder};
use replace::Occurrences;
pub(super) use replace::TextEdit;

#[derive(Debug)]
pub(crate) struct EditTool {
    runtime: Arc<FileToolRuntime>,
}

impl EditTool {
    pub(crate) fn new(bench: Arc<FileToolRuntime>) -> Self {
        Self { runtime: bench }
    }
}

impl BuiltinTool for EditTool {
    fn spec(&self) -> ToolSpec {
        let mut properties = edit_properties();
        if let Some(properties) = properties.as_object_mut() {
            let path = json!({
                "type": "string",
                "minLength": 1,
                "description": "The file, relative to the working folder."
            });
            properties.insert("path".to_owned(), path);
        }
        ToolSpec {
            name: "edit".into(),
            description: "Replace a piece of a text file of the working folder. `oldString` has to be in the file \
                          exactly once, unless `replaceAll` is true: take whole lines and enough of them. Copy it from \
                          `read` without the line numbers. Where it is not there exactly, differences in indentation, \
                          blanks and line ends are forgiven as long as only one place fits. An empty `oldString` makes \
                          a new file of `newString`."
                .into(),
            input_schema: Arc::new(json!({
                "type": "object",
                "properties": properties,
                "required": ["path", "oldString", "newString"],
                "additionalProperties": false
            })),
            effect: ToolEffect::Writes,
            // If the new text contains the old one, a repetition would replace it twice.
            unknown_outcome: UnknownOutcomePolicy::Fail,
            kind: TOOL_KIND,
            traits: None,
            timeout: None,
        }
    }

    fn run<'a>(
        &'a self,
        scope: &'a ToolScope,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        let path = text_argument(arguments, "path").unwrap_or_default().to_owned();
        let change = parse_edit(arguments);
        let bench = self.runtime.clone();
        Box::pin(
            self.runtime.blocking(scope, stop, move |folder, stop| edit(bench.locks(), folder, &path, &change, stop)),
        )
    }
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
