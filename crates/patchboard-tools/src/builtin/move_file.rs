//! `move_file`: a file or folder gets another name or place.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::tool::{Effect, ToolOutput, ToolScope, ToolSpec, UnknownOutcome};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::bench::content::entry_place;
use super::bench::{Refusal, Turns, Workbench, text};
use super::{BuiltinTool, KIND};
use crate::folder::{EntryKind, WorkFolder};

#[derive(Debug)]
pub(crate) struct MoveFile {
    bench: Arc<Workbench>,
}

impl MoveFile {
    pub(crate) fn new(bench: Arc<Workbench>) -> Self {
        Self { bench }
    }
}

impl BuiltinTool for MoveFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "move_file".into(),
            description:
                "Move or rename a file or folder of the working folder. `target` is the new path itself, not a folder \
                          to put it in, and nothing may be there yet; folders on the way to it are made. A symlink is \
                          moved itself, not what it leads to."
                    .into(),
            input_schema: Arc::new(json!({
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
            })),
            effect: Effect::Writes,
            // A second time the source is gone, or is by now something else.
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
        let source = text(arguments, "source").unwrap_or_default().to_owned();
        let target = text(arguments, "target").unwrap_or_default().to_owned();
        let bench = self.bench.clone();
        Box::pin(
            self.bench
                .blocking(scope, stop, move |folder, stop| move_entry(bench.turns(), folder, &source, &target, stop)),
        )
    }
}

fn move_entry(
    turns: &Turns,
    folder: &WorkFolder,
    source: &str,
    target: &str,
    stop: &CancellationToken,
) -> Result<String, Refusal> {
    let look = || Ok((entry_place(folder, source)?, entry_place(folder, target)?));
    let (_turn, (from, to)) = turns.wait_for(look, |(from, to)| vec![from, to])?;
    if from.kind().is_none() {
        return Err(Refusal(format!("{} does not exist", from.shown())));
    }
    if from.key() == to.key() {
        return Err(Refusal(format!("`source` and `target` are both {}", from.shown())));
    }
    match to.kind() {
        Some(EntryKind::Folder) => {
            return Err(Refusal(format!("{} is a folder: name the new path in it", to.shown())));
        }
        Some(_) => return Err(Refusal(format!("{} already exists", to.shown()))),
        None => {}
    }
    if stop.is_cancelled() {
        return Err(Refusal::cancelled());
    }
    from.move_to(&to, &folder.holders()?)?;
    Ok("ok".to_owned())
}

#[cfg(test)]
mod tests;
