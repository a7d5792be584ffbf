//! `multiedit`: several edits of one file, all or none.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::tool::{Effect, ToolOutput, ToolScope, ToolSpec, UnknownOutcome};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::bench::content::{file_place, text_of, write};
use super::bench::{Refusal, Turns, Workbench, text};
use super::edit::{Edit, edit_of, edit_properties};
use super::{BuiltinTool, KIND};
use crate::folder::{Over, PathError, WorkFolder};

/// More in one call are refused by the schema: each goes through the whole file.
const MAX_EDITS: usize = 200;

#[derive(Debug)]
pub(crate) struct MultiEdit {
    bench: Arc<Workbench>,
}

impl MultiEdit {
    pub(crate) fn new(bench: Arc<Workbench>) -> Self {
        Self { bench }
    }
}

impl BuiltinTool for MultiEdit {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "multiedit".into(),
            description: "Make several edits of one text file of the working folder, one after the other, each on what \
                          the ones before it left, by the rules of `edit`. Either all are made or, when one fails, none. \
                          A first edit with an empty `oldString` makes a new file."
                .into(),
            input_schema: Arc::new(json!({
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
            })),
            effect: Effect::Writes,
            // As for `edit`.
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
        let edits = arguments.get("edits").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let edits: Vec<Edit> = edits.iter().take(MAX_EDITS).map(edit_of).collect();
        let bench = self.bench.clone();
        Box::pin(
            self.bench.blocking(scope, stop, move |folder, stop| multiedit(bench.turns(), folder, &path, &edits, stop)),
        )
    }
}

fn multiedit(
    turns: &Turns,
    folder: &WorkFolder,
    path: &str,
    edits: &[Edit],
    stop: &CancellationToken,
) -> Result<String, Refusal> {
    let (_turn, place) = turns.wait_for(|| file_place(folder, path), |place| vec![place])?;
    let shown = place.shown();
    let (mut whole, rest, over) = match (place.kind(), edits.split_first()) {
        (None, Some((first, rest))) if first.old.is_empty() => (first.new.clone(), rest, Over::Nothing),
        (None, _) => return Err(PathError::Missing { path: shown }.into()),
        (Some(_), _) => (text_of(&place, stop)?, edits, Over::Anything),
    };
    let mut remarks = Vec::new();
    for (index, edit) in rest.iter().enumerate() {
        if stop.is_cancelled() {
            return Err(Refusal::cancelled());
        }
        let number = index + 1 + edits.len() - rest.len();
        let replaced = edit.apply(&whole).map_err(|error| {
            let Refusal(reason) = error.told(&shown);
            Refusal(format!("edit {number} of {}: {reason}; nothing was changed", edits.len()))
        })?;
        remarks.extend(replaced.remark().map(|remark| format!("\n[edit {number}: {remark}]")));
        whole = replaced.text;
    }
    write(&place, whole.as_bytes(), over, stop)?;
    Ok(format!("Applied {} edit(s) successfully.{}", edits.len(), remarks.concat()))
}

#[cfg(test)]
mod tests;
