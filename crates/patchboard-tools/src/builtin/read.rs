//! `read`: returns lines of a text file with line numbers.

use std::io::{self, BufReader, Read as _};

use patchboard_core::tool::{ToolEffect, UnknownOutcomePolicy};
use serde_json::json;
use tokio_util::sync::CancellationToken;

mod page;

use super::file_runtime::ToolRefusal;
use super::file_tool::{FileCall, FileTool};
use crate::folder::{OpenedPath, WorkFolder};
use crate::text::quoted;
use page::{LineRange, PageError, TextPage};

const DEFAULT_LINES: u64 = 2000;
/// At most this much of a file is scanned: lines beyond are neither reachable nor counted.
const MAX_SCAN_BYTES: u64 = 64 * 1024 * 1024;
const BUFFER_BYTES: usize = 64 * 1024;

pub(super) fn tool() -> FileTool {
    FileTool {
        name: "read",
        description: "Read a text file of the working folder. Every line is preceded by its number and a tab; the \
                      numbers are not part of the file. Without `offset` and `limit` you get up to 2000 lines from \
                      the start. Long answers are cut and end with the `offset` to go on from; lines over 2000 \
                      bytes are cut. Binary files are refused. Use `ls` for folders.",
        input_schema: json!({
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "description": "The file, relative to the working folder."
                },
                "offset": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "How many lines to skip: 0, the default, starts at line 1."
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "How many lines to return at most; 2000 by default."
                },
                "encoding": {
                    "type": "string",
                    "description": "Accepted and not used: files are read as UTF-8."
                }
            },
            "required": ["path"],
            "additionalProperties": false
        }),
        effect: ToolEffect::ReadOnly,
        unknown_outcome: UnknownOutcomePolicy::Retry,
        run,
    }
}

fn run(call: &FileCall<'_>) -> Result<String, ToolRefusal> {
    let range = LineRange {
        offset: call.integer("offset").unwrap_or(0),
        limit: call.integer("limit").unwrap_or(DEFAULT_LINES).max(1),
    };
    read(call.folder, call.text("path"), range, call.stop)
}

fn read(folder: &WorkFolder, path: &str, request: LineRange, stop: &CancellationToken) -> Result<String, ToolRefusal> {
    let file = match folder.open_path(path)? {
        OpenedPath::File(file) => file,
        OpenedPath::Folder(_) => return Err(ToolRefusal(format!("{} is a folder: use `ls` to list it", quoted(path)))),
    };
    let watched = CancellableReader { reader: file.take(MAX_SCAN_BYTES), stop };
    let page = TextPage::read(&mut BufReader::with_capacity(BUFFER_BYTES, watched), request, MAX_SCAN_BYTES);
    let path = quoted(path);
    page.map_err(|error| match error {
        PageError::Read(_) if stop.is_cancelled() => ToolRefusal::cancelled(),
        PageError::Read(error) => ToolRefusal::unreadable(&path, &error),
        PageError::Binary => ToolRefusal(format!("{path} is not text: it holds NUL bytes")),
        PageError::PastEnd { lines } => {
            let offset = request.offset;
            ToolRefusal(format!("{path} has {lines} lines, so nothing is left after an `offset` of {offset}"))
        }
        PageError::TooFar => ToolRefusal(format!("that `offset` lies more than {MAX_SCAN_BYTES} bytes into {path}")),
    })
}

/// Fails with an error when `stop` is cancelled.
struct CancellableReader<'a, R> {
    reader: R,
    stop: &'a CancellationToken,
}

impl<R: io::Read> io::Read for CancellableReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.stop.is_cancelled() {
                return Err(io::Error::other("cancelled"));
            }
            match self.reader.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

#[cfg(test)]
mod tests;
