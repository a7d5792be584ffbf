//! `glob`: finds files by path pattern.

use std::path::Path;

use patchboard_core::tool::{ToolEffect, UnknownOutcomePolicy};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::file_runtime::ToolRefusal;
use super::file_scan::{EntryInterest, scan_files};
use super::file_tool::{FileCall, FileTool};
use super::ignore_rules::RuleTarget;
use super::pattern::{MAX_PATTERN_CHARACTERS, PathPattern};
use crate::folder::{OpenFolder, OpenedPath, WorkFolder};
use crate::text::{escape_control_chars, quoted};

/// Further paths are counted, not shown.
const MAX_PATHS: usize = 1000;
const MAX_SHOWN_BYTES: usize = 60 * 1024;
const MAX_FILTERS: usize = 50;

pub(super) fn tool() -> FileTool {
    FileTool {
        name: "glob",
        description: "Find files of the working folder by a pattern of their path, such as `*.md`, `src/**/*.rs` or \
                      `**/{a,b}.ts`: `*` and `?` stay within a name, `**` stands for any number of folders. You get \
                      sorted paths relative to the working folder, at most 1000. What `.gitignore` excludes, and \
                      folders such as `node_modules`, `target` or `.git`, are searched only when `pattern` or \
                      `path` names them.",
        input_schema: json!({
            "type": "object",
            "properties": {
                "pattern": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": MAX_PATTERN_CHARACTERS,
                    "description": "The pattern, relative to the folder searched and without `..`."
                },
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "description": "The folder to search, relative to the working folder; all of it by default."
                },
                "include": {
                    "type": "array",
                    "maxItems": MAX_FILTERS,
                    "items": {"type": "string", "minLength": 1, "maxLength": MAX_PATTERN_CHARACTERS},
                    "description": "Only files that also fit one of these patterns; one without `/` is about names."
                }
            },
            "required": ["pattern"],
            "additionalProperties": false
        }),
        effect: ToolEffect::ReadOnly,
        unknown_outcome: UnknownOutcomePolicy::Retry,
        run,
    }
}

fn run(call: &FileCall<'_>) -> Result<String, ToolRefusal> {
    let include: Vec<_> = call.list("include").iter().filter_map(Value::as_str).take(MAX_FILTERS).collect();
    glob(call.folder, call.text("pattern"), call.optional_text("path").unwrap_or("."), &include, call.stop)
}

fn glob(
    folder: &WorkFolder,
    pattern: &str,
    path: &str,
    include: &[&str],
    stop: &CancellationToken,
) -> Result<String, ToolRefusal> {
    let pattern = PathPattern::new(pattern).map_err(ToolRefusal)?;
    let filters = include.iter().map(|filter| PathPattern::new(filter));
    let filters = filters.collect::<Result<Vec<_>, _>>().map_err(ToolRefusal)?;
    let base = match folder.open_path(path)? {
        OpenedPath::Folder(base) => base,
        OpenedPath::File(_) => return Err(ToolRefusal(format!("{} is a file: `path` names a folder", quoted(path)))),
    };
    let interest = |depth: usize, name: &str, target: RuleTarget| match (target, pattern.required_folder(depth)) {
        (RuleTarget::Folder, Some(required)) if required == name => EntryInterest::Explicit,
        (RuleTarget::Folder | RuleTarget::Other, Some(_)) => EntryInterest::None,
        (RuleTarget::Other, None) if pattern.is_literal() => EntryInterest::Explicit,
        (RuleTarget::Folder | RuleTarget::Other, None) => EntryInterest::Default,
    };
    let mut paths = Vec::new();
    let omitted = scan_files(folder, &base, stop, interest, |met| {
        let fits =
            pattern.matches(met.path) && (filters.is_empty() || filters.iter().any(|one| one.matches_filter(met.path)));
        if fits {
            paths.push(workspace_path(&base, met.path));
        }
    })?;
    paths.sort_unstable();
    let mut room = MAX_SHOWN_BYTES;
    let shown: Vec<&str> = paths
        .iter()
        .take(MAX_PATHS)
        .take_while(|path| {
            let fits = room > path.len();
            room = room.saturating_sub(path.len() + 1);
            fits
        })
        .map(String::as_str)
        .collect();
    let mut lines: Vec<String> = shown.iter().map(|path| (*path).to_owned()).collect();
    if paths.is_empty() {
        lines.push("No files found".to_owned());
    }
    if shown.len() < paths.len() {
        lines.push(format!("[{} of {} files shown; use a narrower pattern]", shown.len(), paths.len()));
    }
    lines.extend(omitted.remarks());
    Ok(lines.join("\n"))
}

/// The path in the form that other tools accept, on one line.
pub(super) fn workspace_path(base: &OpenFolder, path: &str) -> String {
    let mut whole: String = base.trail().iter().map(|name| name.to_string_lossy() + "/").collect();
    whole.push_str(path);
    escape_control_chars(Path::new(&whole).as_os_str())
}

#[cfg(test)]
mod tests;
