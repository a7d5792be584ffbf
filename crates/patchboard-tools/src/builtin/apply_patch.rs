//! `apply_patch`: changes of several files in one text, all validated before the first is applied.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::port::ToolScope;
use patchboard_core::tool::{ToolEffect, ToolOutput, ToolSpec, UnknownOutcomePolicy};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

mod chunk;
mod parse;
mod plan;

use super::file_runtime::{FileLocks, FileToolRuntime, ToolRefusal, text_argument};
use super::{BuiltinTool, TOOL_KIND};
use crate::folder::WorkFolder;
use parse::Patch;

#[derive(Debug)]
pub(crate) struct ApplyPatchTool {
    runtime: Arc<FileToolRuntime>,
}

impl ApplyPatchTool {
    pub(crate) fn new(bench: Arc<FileToolRuntime>) -> Self {
        Self { runtime: bench }
    }
}

impl BuiltinTool for ApplyPatchTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "apply_patch".into(),
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
                          file may be named once. Everything is checked before anything is changed."
                .into(),
            input_schema: Arc::new(json!({
                "type": "object",
                "properties": {
                    "patchText": {"type": "string", "minLength": 1, "description": "The whole patch."}
                },
                "required": ["patchText"],
                "additionalProperties": false
            })),
            effect: ToolEffect::Writes,
            // The files of a patch change one after the other, so some may have been changed.
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
        let patch = text_argument(arguments, "patchText").unwrap_or_default().to_owned();
        let bench = self.runtime.clone();
        Box::pin(self.runtime.blocking(scope, stop, move |folder, stop| apply(bench.locks(), folder, &patch, stop)))
    }
}

fn apply(turns: &FileLocks, folder: &WorkFolder, patch: &str, stop: &CancellationToken) -> Result<String, ToolRefusal> {
    let patch = Patch::parse(patch).map_err(|error| ToolRefusal(format!("{error}; nothing was changed")))?;
    plan::execute(turns, folder, &patch, stop)?;
    Ok(format!("Applied {} hunk(s) successfully.", patch.changes.len()))
}

#[cfg(test)]
mod tests;
