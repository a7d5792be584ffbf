//! `grep`: searches the lines of files for a regular expression.

use std::ffi::OsString;
use std::io::Read;
use std::time::SystemTime;

use patchboard_core::tool::{ToolEffect, UnknownOutcomePolicy};
use regex::bytes::{Regex, RegexBuilder};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::file_runtime::ToolRefusal;
use super::file_scan::{EntryInterest, ScanOmissions, scan_files};
use super::file_tool::{FileCall, FileTool};
use super::glob::workspace_path;
use super::pattern::{MAX_PATTERN_CHARACTERS, PathPattern};
use crate::folder::{EntryKind, OpenFolder, OpenedPath, WorkFolder};
use crate::text::{clipped, escape_control_chars};

/// The search ends after this many matches.
const MAX_MATCHES: usize = 100;
const MAX_REGEX_CHARACTERS: usize = 2000;
/// An expression whose compiled form needs more memory is refused.
const MAX_COMPILED_BYTES: usize = 2 * 1024 * 1024;
/// Only this much of a line is searched, which bounds the time per line for every expression.
const MAX_SEARCHED_BYTES: usize = 64 * 1024;
/// Larger files are not searched, only counted.
const MAX_FILE_BYTES: usize = 10 * 1024 * 1024;
/// The search ends after this many bytes.
const MAX_TOTAL_BYTES: usize = 256 * 1024 * 1024;
/// Longer lines are truncated in the output.
const MAX_LINE_BYTES: usize = 500;
/// Approximate number of bytes between two checks for cancellation.
const CANCEL_CHECK_BYTES: usize = 64 * 1024;

pub(super) fn tool() -> FileTool {
    FileTool {
        name: "grep",
        description: "Search text files of the working folder for lines that match a regular expression (RE2-like \
                      syntax: no look-around, no back-references; `(?i)` ignores case). You get at most 100 lines, \
                      those of recently changed files first; of lines over 64 KiB only the beginning is searched. \
                      Binary files and symlinks are not searched, nor are what `.gitignore` excludes and folders \
                      such as `node_modules`, `target` or `.git`, unless `path` names them.",
        input_schema: json!({
            "type": "object",
            "properties": {
                "pattern": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": MAX_REGEX_CHARACTERS,
                    "description": "The regular expression, matched against one line at a time."
                },
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "description": "The folder or file to search, relative to the working folder; all of it by default."
                },
                "include": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": MAX_PATTERN_CHARACTERS,
                    "description": "Only files that fit this pattern, such as `*.rs` or `src/**/*.{ts,tsx}`; one \
                                    without `/` is about names."
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
    let path = call.optional_text("path").unwrap_or(".");
    grep(call.folder, call.text("pattern"), path, call.optional_text("include"), call.stop)
}

fn grep(
    folder: &WorkFolder,
    pattern: &str,
    path: &str,
    include: Option<&str>,
    stop: &CancellationToken,
) -> Result<String, ToolRefusal> {
    let regex = RegexBuilder::new(pattern).size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_COMPILED_BYTES).build();
    let regex = regex.map_err(|error| ToolRefusal(format!("`pattern` is not a regular expression: {error}")))?;
    let include = include.map(PathPattern::new).transpose().map_err(ToolRefusal)?;
    let mut search = GrepSearch {
        regex,
        stop,
        bytes: 0,
        matches: 0,
        files: Vec::new(),
        too_large: 0,
        ended: SearchEnd::AllSearched,
    };
    let omitted = match folder.open_path(path)? {
        OpenedPath::File(file) => {
            search.search_file(escape_control_chars(path.as_ref()), file)?;
            ScanOmissions::default()
        }
        OpenedPath::Folder(base) => {
            let (candidates, omitted) = candidates(folder, &base, include.as_ref(), stop)?;
            search.search_files(&base, candidates)?;
            omitted
        }
    };
    Ok(search.render(&omitted))
}

/// A file to search.
struct CandidateFile {
    /// Path components from the searched folder, the file name last.
    names: Vec<OsString>,
    path: String,
    modified: SystemTime,
}

/// The files to search, newest first.
fn candidates(
    folder: &WorkFolder,
    base: &OpenFolder,
    include: Option<&PathPattern>,
    stop: &CancellationToken,
) -> Result<(Vec<CandidateFile>, ScanOmissions), ToolRefusal> {
    let mut candidates = Vec::new();
    let omitted = scan_files(
        folder,
        base,
        stop,
        |_, _, _| EntryInterest::Default,
        |met| {
            if met.kind == EntryKind::File && include.is_none_or(|include| include.matches_filter(met.path)) {
                let modified = met.folder.modified(met.name).unwrap_or(SystemTime::UNIX_EPOCH);
                let way = met.folder.trail().iter().skip(base.trail().len());
                let names = way.cloned().chain([met.name.to_owned()]).collect();
                candidates.push(CandidateFile { names, path: met.path.to_owned(), modified });
            }
        },
    )?;
    candidates.sort_by(|left, right| right.modified.cmp(&left.modified).then_with(|| left.path.cmp(&right.path)));
    Ok((candidates, omitted))
}

struct GrepSearch<'a> {
    regex: Regex,
    stop: &'a CancellationToken,
    bytes: usize,
    matches: usize,
    files: Vec<FileMatches>,
    too_large: usize,
    ended: SearchEnd,
}

/// The matching lines of one file.
struct FileMatches {
    path: String,
    lines: Vec<(usize, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchEnd {
    AllSearched,
    EnoughMatches,
    EnoughBytes,
}

impl GrepSearch<'_> {
    fn search_files(&mut self, base: &OpenFolder, candidates: Vec<CandidateFile>) -> Result<(), ToolRefusal> {
        for CandidateFile { names, path, .. } in candidates {
            if self.ended != SearchEnd::AllSearched {
                break;
            }
            let Some((name, folders)) = names.split_last() else { continue };
            // Deleted, protected or replaced by something else since it was listed: skipped.
            let Ok(file) = base.descend(folders).and_then(|folder| folder.open_file(name)) else { continue };
            self.search_file(workspace_path(base, &path), file)?;
        }
        Ok(())
    }

    fn search_file(&mut self, path: String, file: std::fs::File) -> Result<(), ToolRefusal> {
        if self.stop.is_cancelled() {
            return Err(ToolRefusal::cancelled());
        }
        let mut content = Vec::new();
        if file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut content).is_err() {
            return Ok(());
        }
        if content.len() > MAX_FILE_BYTES {
            self.too_large += 1;
            return Ok(());
        }
        self.bytes += content.len();
        if content.is_empty() || content.contains(&0) {
            return Ok(());
        }
        let mut hits = FileMatches { path, lines: Vec::new() };
        let mut since_look = 0;
        // Without this, a trailing newline would yield an extra empty line.
        let content = content.strip_suffix(b"\n").unwrap_or(&content);
        for (index, line) in content.split(|byte| *byte == b'\n').enumerate() {
            since_look += line.len() + 1;
            if since_look > CANCEL_CHECK_BYTES {
                since_look = 0;
                if self.stop.is_cancelled() {
                    return Err(ToolRefusal::cancelled());
                }
            }
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let line = line.get(..MAX_SEARCHED_BYTES).unwrap_or(line);
            if !self.regex.is_match(line) {
                continue;
            }
            hits.lines.push((index + 1, clipped(&String::from_utf8_lossy(line), MAX_LINE_BYTES)));
            self.matches += 1;
            if self.matches == MAX_MATCHES {
                self.ended = SearchEnd::EnoughMatches;
                break;
            }
        }
        if !hits.lines.is_empty() {
            self.files.push(hits);
        }
        if self.bytes >= MAX_TOTAL_BYTES && self.ended == SearchEnd::AllSearched {
            self.ended = SearchEnd::EnoughBytes;
        }
        Ok(())
    }

    fn render(&self, omitted: &ScanOmissions) -> String {
        let mut text = match self.matches {
            0 => "No files found".to_owned(),
            count => format!("Found {count} matches"),
        };
        for FileMatches { path, lines } in &self.files {
            text.push_str(&format!("\n{path}:"));
            for (number, line) in lines {
                text.push_str(&format!("\n  Line {number}: {line}"));
            }
        }
        match self.ended {
            SearchEnd::AllSearched => {}
            SearchEnd::EnoughMatches => {
                text.push_str(&format!(
                    "\n[the search ended at {MAX_MATCHES} matches; use a narrower `pattern`, `path` or `include`]"
                ));
            }
            SearchEnd::EnoughBytes => {
                text.push_str(&format!("\n[the search ended after {MAX_TOTAL_BYTES} bytes; name a folder in `path`]"));
            }
        }
        if self.too_large > 0 {
            text.push_str(&format!("\n[files over {MAX_FILE_BYTES} bytes, not searched: {}]", self.too_large));
        }
        for remark in omitted.remarks() {
            text.push('\n');
            text.push_str(&remark);
        }
        text
    }
}

#[cfg(test)]
mod tests;
