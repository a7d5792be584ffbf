//! `edit`: one piece of a file replaced by another.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::tool::{Effect, ToolOutput, ToolScope, ToolSpec, UnknownOutcome};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

mod replace;

use super::bench::content::{file_place, text_of, write};
use super::bench::{Refusal, Turns, Workbench, flag, text};
use super::{BuiltinTool, KIND};
use crate::folder::{Over, PathError, WorkFolder};
pub(super) use replace::Edit;
use replace::Occurrences;

#[derive(Debug)]
pub(crate) struct EditTool {
    bench: Arc<Workbench>,
}

impl EditTool {
    pub(crate) fn new(bench: Arc<Workbench>) -> Self {
        Self { bench }
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
            effect: Effect::Writes,
            // The new text may hold the old one, and would then be put in twice.
            unknown_outcome: UnknownOutcome::Fail,
            kind: KIND,
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
        let path = text(arguments, "path").unwrap_or_default().to_owned();
        let change = edit_of(arguments);
        let bench = self.bench.clone();
        Box::pin(
            self.bench.blocking(scope, stop, move |folder, stop| edit(bench.turns(), folder, &path, &change, stop)),
        )
    }
}

/// The arguments that describe one edit, as `edit` and `multiedit` have them.
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

pub(super) fn edit_of(arguments: &Value) -> Edit {
    let all = flag(arguments, "replaceAll") == Some(true);
    Edit {
        old: text(arguments, "oldString").unwrap_or_default().to_owned(),
        new: text(arguments, "newString").unwrap_or_default().to_owned(),
        occurrences: if all { Occurrences::All } else { Occurrences::TheOnly },
    }
}

fn edit(
    turns: &Turns,
    folder: &WorkFolder,
    path: &str,
    change: &Edit,
    stop: &CancellationToken,
) -> Result<String, Refusal> {
    let (_turn, place) = turns.wait_for(|| file_place(folder, path), |place| vec![place])?;
    let done = "Edit applied successfully.";
    if change.old.is_empty() {
        if place.kind().is_some() {
            return Err(Refusal(format!(
                "{} already exists: an empty `oldString` makes a new file; use `write_file` to replace one",
                place.shown()
            )));
        }
        write(&place, change.new.as_bytes(), Over::Nothing, stop)?;
        return Ok(done.to_owned());
    }
    if place.kind().is_none() {
        return Err(PathError::Missing { path: place.shown() }.into());
    }
    let before = text_of(&place, stop)?;
    let replaced = change.apply(&before).map_err(|error| error.told(&place.shown()))?;
    if stop.is_cancelled() {
        return Err(Refusal::cancelled());
    }
    write(&place, replaced.text.as_bytes(), Over::Anything, stop)?;
    Ok(match replaced.remark() {
        Some(remark) => format!("{done}\n[{remark}]"),
        None => done.to_owned(),
    })
}

#[cfg(test)]
mod tests;
