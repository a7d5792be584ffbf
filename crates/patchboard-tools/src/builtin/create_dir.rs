//! `create_dir`: creates a folder and its missing parents.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::port::ToolScope;
use patchboard_core::tool::{ToolEffect, ToolOutput, ToolSpec, UnknownOutcomePolicy};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::file_runtime::{FileToolRuntime, ToolRefusal, flag_argument, text_argument};
use super::{BuiltinTool, TOOL_KIND};
use crate::folder::{EntryKind, LastSymlink, PathError, TargetLookup, WorkFolder};
use crate::text::quoted;

#[derive(Debug)]
pub(crate) struct CreateDirTool {
    runtime: Arc<FileToolRuntime>,
}

impl CreateDirTool {
    pub(crate) fn new(bench: Arc<FileToolRuntime>) -> Self {
        Self { runtime: bench }
    }
}

impl BuiltinTool for CreateDirTool {
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
            effect: ToolEffect::Writes,
            unknown_outcome: UnknownOutcomePolicy::Retry,
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
        let existing = if flag_argument(arguments, "exist_ok") == Some(false) {
            ExistingFolder::Refused
        } else {
            ExistingFolder::Accepted
        };
        Box::pin(self.runtime.blocking(scope, stop, move |folder, _| create(folder, &path, existing)))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExistingFolder {
    Accepted,
    Refused,
}

fn create(folder: &WorkFolder, path: &str, existing: ExistingFolder) -> Result<String, ToolRefusal> {
    let ok = Ok("ok".to_owned());
    let place = match folder.resolve_target(path, LastSymlink::Followed)? {
        TargetLookup::Target(place) => place,
        TargetLookup::Unnamed if existing == ExistingFolder::Accepted => return ok,
        TargetLookup::Unnamed => return Err(PathError::Exists { path: quoted(path) }.into()),
    };
    match (place.kind(), existing) {
        (Some(EntryKind::Folder), ExistingFolder::Accepted) => return ok,
        (Some(EntryKind::Folder), ExistingFolder::Refused) => {
            return Err(PathError::Exists { path: place.display_path() }.into());
        }
        (Some(_), _) => {
            return Err(ToolRefusal(format!("{} already exists and is not a folder", place.display_path())));
        }
        (None, _) => {}
    }
    match (place.make_folder(), existing) {
        // Created concurrently by another call; an existing folder is accepted.
        (Err(PathError::Exists { .. }), ExistingFolder::Accepted) if is_folder(folder, path) => ok,
        (Err(error), _) => Err(error.into()),
        (Ok(()), _) => ok,
    }
}

fn is_folder(folder: &WorkFolder, path: &str) -> bool {
    match folder.resolve_target(path, LastSymlink::Followed) {
        Ok(TargetLookup::Unnamed) => true,
        Ok(TargetLookup::Target(place)) => place.kind() == Some(EntryKind::Folder),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests;
