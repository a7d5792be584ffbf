//! `skill`: returns instructions that a working folder provides for a kind of work.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::port::ToolScope;
use patchboard_core::text::cut;
use patchboard_core::tool::{ToolEffect, ToolOutput, ToolSpec, UnknownOutcomePolicy};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::file_runtime::{FileToolRuntime, ToolRefusal, text_argument};
use super::{BuiltinTool, TOOL_KIND};
use crate::folder::{EntryKind, OpenedPath, PathError, WorkFolder};
use crate::text::quoted;

/// Folders with skills; the first has priority.
const SKILL_FOLDERS: [&str; 2] = [".patchboard/skills", ".loom/skills"];
const SKILL_EXTENSIONS: [&str; 3] = ["md", "txt", "markdown"];
const MAX_NAME_BYTES: usize = 64;
/// Names listed in the description; further skills can still be requested.
const MAX_OFFERED: usize = 50;
/// At most this many entries of a folder are read to list names.
const MAX_SCANNED: usize = 1000;
/// A longer skill is truncated: it becomes part of the conversation.
const MAX_SKILL_BYTES: usize = 48 * 1024;

#[derive(Debug)]
pub(crate) struct SkillTool {
    runtime: Arc<FileToolRuntime>,
    spec: ToolSpec,
}

impl SkillTool {
    pub(crate) fn new(bench: Arc<FileToolRuntime>) -> Self {
        Self { runtime: bench, spec: spec() }
    }
}

impl BuiltinTool for SkillTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    /// Reads the folders every time: checking whether they changed would cost as much.
    fn spec_in(&self, folder: Option<&Path>) -> Option<ToolSpec> {
        let folder = self.runtime.workspaces().open_named(folder).ok()?;
        let names = SkillNames::of(&folder);
        if names.offered.is_empty() {
            return None;
        }
        let description = format!("{} Skills of this working folder: {names}.", self.spec.description);
        Some(ToolSpec { description: description.into(), ..self.spec.clone() })
    }

    fn run<'a>(
        &'a self,
        scope: &'a ToolScope,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        let name = text_argument(arguments, "name").unwrap_or_default().to_owned();
        Box::pin(self.runtime.blocking(scope, stop, move |folder, _| read_skill(folder, &name)))
    }
}

fn spec() -> ToolSpec {
    ToolSpec {
        name: "skill".into(),
        description: "Read a skill: instructions that the working folder keeps for a kind of work. Ask for one before \
                      you begin work it is about."
            .into(),
        input_schema: Arc::new(json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1, "description": "The name of the skill."}
            },
            "required": ["name"],
            "additionalProperties": false
        })),
        effect: ToolEffect::ReadOnly,
        unknown_outcome: UnknownOutcomePolicy::Retry,
        kind: TOOL_KIND,
        traits: None,
        timeout: None,
    }
}

fn read_skill(folder: &WorkFolder, name: &str) -> Result<String, ToolRefusal> {
    if !is_name(name) {
        return Err(ToolRefusal(format!(
            "{} is not the name of a skill: names are letters, digits, `-`, `_`, `.` and spaces",
            quoted(name)
        )));
    }
    for place in SKILL_FOLDERS {
        for ending in SKILL_EXTENSIONS {
            let path = format!("{place}/{name}.{ending}");
            match folder.open_path(&path) {
                Ok(OpenedPath::File(file)) => {
                    return content(file).map_err(|error| ToolRefusal::unreadable(&quoted(&path), &error));
                }
                Ok(OpenedPath::Folder(_)) | Err(PathError::Missing { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    let names = SkillNames::of(folder);
    Err(ToolRefusal(if names.offered.is_empty() {
        format!("no skill is named {}: this working folder has none", quoted(name))
    } else {
        format!("no skill is named {}: there are {names}", quoted(name))
    }))
}

fn content(file: std::fs::File) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    file.take(MAX_SKILL_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let (text, remark) = if bytes.len() > MAX_SKILL_BYTES {
        let kept = cut(&text, MAX_SKILL_BYTES);
        (kept, format!("\n[the skill is longer than {MAX_SKILL_BYTES} bytes and was cut]"))
    } else {
        (&*text, String::new())
    };
    Ok(format!("<skill_content>\n{}\n</skill_content>{remark}", text.trim_end_matches('\n')))
}

/// The names of a folder's skills.
struct SkillNames {
    offered: Vec<String>,
    more: usize,
}

impl SkillNames {
    fn of(folder: &WorkFolder) -> Self {
        let mut names = BTreeSet::new();
        for place in SKILL_FOLDERS {
            let Ok(OpenedPath::Folder(found)) = folder.open_path(place) else { continue };
            let Ok(entries) = found.entries() else { continue };
            for entry in entries.take(MAX_SCANNED).filter_map(Result::ok) {
                let is_readable = matches!(entry.kind, EntryKind::File | EntryKind::Symlink);
                let name = entry.name.to_str().and_then(|name| name.rsplit_once('.'));
                if let Some((name, ending)) = name
                    && is_readable
                    && SKILL_EXTENSIONS.contains(&ending)
                    && is_name(name)
                {
                    names.insert(name.to_owned());
                }
            }
        }
        let more = names.len().saturating_sub(MAX_OFFERED);
        Self { offered: names.into_iter().take(MAX_OFFERED).collect(), more }
    }
}

impl std::fmt::Display for SkillNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.offered.join(", "))?;
        if self.more > 0 { write!(f, " and {} more", self.more) } else { Ok(()) }
    }
}

/// Restricted, because names become part of a path and of every model's prompt.
fn is_name(name: &str) -> bool {
    let fits = |character: char| character.is_alphanumeric() || matches!(character, '-' | '_' | '.' | ' ');
    !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && !name.starts_with(['.', ' '])
        && !name.ends_with(' ')
        && !name.contains("..")
        && name.chars().all(fits)
}

#[cfg(test)]
mod tests;
