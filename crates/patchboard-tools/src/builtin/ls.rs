//! `ls`: lists a folder as a tree.

use patchboard_core::tool::{ToolEffect, UnknownOutcomePolicy};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

mod excluded;
mod listing;
mod tree;

use super::file_runtime::ToolRefusal;
use super::file_tool::{FileCall, FileTool};
use super::ignore_rules::IgnoreReader;
use crate::folder::{OpenedPath, WorkFolder};
use crate::text::quoted;
use excluded::ExcludedPatterns;
use listing::FolderListing;

/// The schema rejects more or longer patterns: each is matched against each entry.
const MAX_PATTERNS: usize = 50;
const MAX_PATTERN_CHARACTERS: usize = 200;

pub(super) fn tool() -> FileTool {
    FileTool {
        name: "ls",
        description: "List a folder of the working folder as a tree: folders end with `/` and come first, symlinks \
                      end with `@`, hidden files are included. At most 100 files and 100 folders are shown, upper \
                      levels first, with a count of what is left out. Folders that `.gitignore` excludes, and such as \
                      `node_modules`, `target` or `.git`, are named but not opened unless you list them by `path`; \
                      excluded files are only counted.",
        input_schema: json!({
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "description": "The folder, relative to the working folder; the working folder itself by default."
                },
                "ignore": {
                    "type": "array",
                    "maxItems": MAX_PATTERNS,
                    "items": {"type": "string", "minLength": 1, "maxLength": MAX_PATTERN_CHARACTERS},
                    "description": "Glob patterns of entries to leave out, such as `*.log` or `docs/`, matched \
                                    against names and against paths relative to the listed folder."
                }
            },
            "additionalProperties": false
        }),
        effect: ToolEffect::ReadOnly,
        unknown_outcome: UnknownOutcomePolicy::Retry,
        run,
    }
}

fn run(call: &FileCall<'_>) -> Result<String, ToolRefusal> {
    let excluded = ExcludedPatterns::new(call.list("ignore").iter().filter_map(Value::as_str).take(MAX_PATTERNS));
    list(call.folder, call.optional_text("path").unwrap_or("."), &excluded, call.stop)
}

fn list(
    folder: &WorkFolder,
    path: &str,
    excluded: &ExcludedPatterns,
    stop: &CancellationToken,
) -> Result<String, ToolRefusal> {
    let found = match folder.open_path(path)? {
        OpenedPath::Folder(found) => found,
        OpenedPath::File(_) => return Err(ToolRefusal(format!("{} is a file: use `read` to read it", quoted(path)))),
    };
    let mut reader = IgnoreReader::default();
    let rules = reader.rules_above(folder, &found)?;
    let listing = FolderListing::scan(&found, rules, reader, excluded, stop)
        .map_err(|error| ToolRefusal::unreadable(&quoted(path), &error))?;
    if stop.is_cancelled() {
        return Err(ToolRefusal::cancelled());
    }
    Ok(tree::render(path, &listing))
}

#[cfg(test)]
mod tests;
