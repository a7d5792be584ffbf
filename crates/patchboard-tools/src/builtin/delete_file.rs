//! `delete_file`: a file, or with `recursive` a folder and all that lies in it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::tool::{Effect, ToolOutput, ToolScope, ToolSpec, UnknownOutcome};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::bench::content::entry_place;
use super::bench::{Refusal, Turns, Workbench, flag, text};
use super::{BuiltinTool, KIND};
use crate::folder::{EntryKind, WorkFolder};

#[derive(Debug)]
pub(crate) struct DeleteFile {
    bench: Arc<Workbench>,
}

impl DeleteFile {
    pub(crate) fn new(bench: Arc<Workbench>) -> Self {
        Self { bench }
    }
}

impl BuiltinTool for DeleteFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "delete_file".into(),
            description: "Delete a file or an empty folder of the working folder; with `recursive` a folder and all that lies in \
                          it, up to 50000 entries. A symlink is deleted itself, not what it leads to. There is no way \
                          back."
                .into(),
            input_schema: Arc::new(json!({
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
            })),
            effect: Effect::Writes,
            // By the time of a second attempt something else may be there.
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
        let reach = if flag(arguments, "recursive") == Some(true) { Reach::Everything } else { Reach::Itself };
        let bench = self.bench.clone();
        Box::pin(
            self.bench.blocking(scope, stop, move |folder, stop| delete(bench.turns(), folder, &path, reach, stop)),
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Itself,
    Everything,
}

fn delete(
    turns: &Turns,
    folder: &WorkFolder,
    path: &str,
    reach: Reach,
    stop: &CancellationToken,
) -> Result<String, Refusal> {
    let (_turn, place) = turns.wait_for(|| entry_place(folder, path), |place| vec![place])?;
    let holders = folder.holders()?;
    if stop.is_cancelled() {
        return Err(Refusal::cancelled());
    }
    match place.kind() {
        Some(EntryKind::Folder) if reach == Reach::Everything => place.delete_tree(&holders, stop)?,
        Some(_) => place.delete(&holders)?,
        None => return Err(Refusal(format!("{} does not exist", place.shown()))),
    }
    Ok("ok".to_owned())
}

#[cfg(test)]
mod tests;
