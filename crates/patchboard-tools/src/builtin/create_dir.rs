//! `create_dir`: a folder, and those on the way to it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::tool::{Effect, ToolOutput, ToolScope, ToolSpec, UnknownOutcome};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::bench::{Refusal, Workbench, flag, text};
use super::{BuiltinTool, KIND};
use crate::folder::{Aim, EntryKind, LastSymlink, PathError, WorkFolder};
use crate::words::quoted;

#[derive(Debug)]
pub(crate) struct CreateDir {
    bench: Arc<Workbench>,
}

impl CreateDir {
    pub(crate) fn new(bench: Arc<Workbench>) -> Self {
        Self { bench }
    }
}

impl BuiltinTool for CreateDir {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "create_dir".into(),
            description:
                "Make a folder in the working folder, and the folders on the way to it. That it exists already is fine \
                          unless `exist_ok` is false."
                    .into(),
            input_schema: Arc::new(json!({
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
            })),
            effect: Effect::Writes,
            unknown_outcome: UnknownOutcome::Retry,
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
        let existing = if flag(arguments, "exist_ok") == Some(false) { Existing::Refused } else { Existing::Fine };
        Box::pin(self.bench.blocking(scope, stop, move |folder, _| create(folder, &path, existing)))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Existing {
    Fine,
    Refused,
}

fn create(folder: &WorkFolder, path: &str, existing: Existing) -> Result<String, Refusal> {
    let ok = Ok("ok".to_owned());
    let place = match folder.aim(path, LastSymlink::Followed)? {
        Aim::Place(place) => place,
        Aim::Nameless if existing == Existing::Fine => return ok,
        Aim::Nameless => return Err(PathError::Exists { path: quoted(path) }.into()),
    };
    match (place.kind(), existing) {
        (Some(EntryKind::Folder), Existing::Fine) => return ok,
        (Some(EntryKind::Folder), Existing::Refused) => {
            return Err(PathError::Exists { path: place.shown() }.into());
        }
        (Some(_), _) => return Err(Refusal(format!("{} already exists and is not a folder", place.shown()))),
        (None, _) => {}
    }
    match (place.make_folder(), existing) {
        // Somebody was faster; a folder is a folder.
        (Err(PathError::Exists { .. }), Existing::Fine) if is_folder(folder, path) => ok,
        (Err(error), _) => Err(error.into()),
        (Ok(()), _) => ok,
    }
}

fn is_folder(folder: &WorkFolder, path: &str) -> bool {
    match folder.aim(path, LastSymlink::Followed) {
        Ok(Aim::Nameless) => true,
        Ok(Aim::Place(place)) => place.kind() == Some(EntryKind::Folder),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests;
