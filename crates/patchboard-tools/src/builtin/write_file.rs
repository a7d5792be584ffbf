//! `write_file`: a file written whole, or added to.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::tool::{Effect, ToolOutput, ToolScope, ToolSpec, UnknownOutcome};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::bench::content::{bytes_of, file_place, write as put};
use super::bench::{Refusal, Turns, Workbench, flag, text};
use super::{BuiltinTool, KIND};
use crate::folder::{Over, PathError, WorkFolder};
use crate::words::quoted;

/// A file that comes and goes between the tries is left alone.
const MAX_TRIES: usize = 8;

#[derive(Debug)]
pub(crate) struct WriteFile {
    bench: Arc<Workbench>,
}

impl WriteFile {
    pub(crate) fn new(bench: Arc<Workbench>) -> Self {
        Self { bench }
    }
}

impl BuiltinTool for WriteFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "write_file".into(),
            description: "Write a file of the working folder: `content` replaces what was there, or with `append` is added \
                          at its end. Folders on the way are made. The file is replaced in one step, so nobody sees half \
                          of it; at most 10 MiB. To change parts of a file use `edit`."
                .into(),
            input_schema: Arc::new(json!({
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
            })),
            effect: Effect::Writes,
            // Repeating `append` would add twice.
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
        let content = text(arguments, "content").unwrap_or_default().to_owned();
        let keep = if flag(arguments, "append") == Some(true) { Keep::WhatIsThere } else { Keep::Nothing };
        let bench = self.bench.clone();
        Box::pin(
            self.bench
                .blocking(scope, stop, move |folder, stop| write(bench.turns(), folder, &path, &content, keep, stop)),
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    Nothing,
    WhatIsThere,
}

fn write(
    turns: &Turns,
    folder: &WorkFolder,
    path: &str,
    content: &str,
    keep: Keep,
    stop: &CancellationToken,
) -> Result<String, Refusal> {
    for _ in 0..MAX_TRIES {
        let (_turn, place) = turns.wait_for(|| file_place(folder, path), |place| vec![place])?;
        let done = match (keep, place.kind()) {
            (Keep::Nothing, _) => put(&place, content.as_bytes(), Over::Anything, stop),
            (Keep::WhatIsThere, None) => put(&place, content.as_bytes(), Over::Nothing, stop),
            (Keep::WhatIsThere, Some(_)) => {
                let mut whole = bytes_of(&place, stop)?;
                whole.extend_from_slice(content.as_bytes());
                put(&place, &whole, Over::Anything, stop)
            }
        };
        match done {
            Ok(()) => return Ok("ok".to_owned()),
            // Somebody else made it just now, perhaps together with its folder: add to that.
            Err(PathError::Exists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Refusal(format!("{} keeps appearing and going away", quoted(path))))
}

#[cfg(test)]
mod tests;
