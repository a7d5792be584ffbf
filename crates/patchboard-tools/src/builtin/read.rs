//! `read`: a text file, or some lines of it, with line numbers.

use std::io::{self, BufReader, Read as _};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::tool::{Effect, ToolOutput, ToolScope, ToolSpec, UnknownOutcome};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

mod page;

use super::bench::{Refusal, Workbench, integer, text};
use super::{BuiltinTool, KIND};
use crate::folder::{Found, WorkFolder};
use crate::words::quoted;
use page::{Page, PageError, Request};

const DEFAULT_LINES: u64 = 2000;
/// Further into a file than this nobody looks: lines beyond are not reached and not counted.
const MAX_SCAN_BYTES: u64 = 64 * 1024 * 1024;
const BUFFER_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Read {
    bench: Arc<Workbench>,
}

impl Read {
    pub(crate) fn new(bench: Arc<Workbench>) -> Self {
        Self { bench }
    }
}

impl BuiltinTool for Read {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read".into(),
            description: "Read a text file of the working folder. Every line is preceded by its number and a tab; the \
                          numbers are not part of the file. Without `offset` and `limit` you get up to 2000 lines from \
                          the start. Long answers are cut and end with the `offset` to go on from; lines over 2000 \
                          bytes are cut. Binary files are refused. Use `ls` for folders."
                .into(),
            input_schema: Arc::new(json!({
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
            })),
            effect: Effect::ReadOnly,
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
        let request = Request {
            offset: integer(arguments, "offset").unwrap_or(0),
            limit: integer(arguments, "limit").unwrap_or(DEFAULT_LINES).max(1),
        };
        Box::pin(self.bench.blocking(scope, stop, move |folder, stop| read(folder, &path, request, stop)))
    }
}

fn read(folder: &WorkFolder, path: &str, request: Request, stop: &CancellationToken) -> Result<String, Refusal> {
    let file = match folder.find(path)? {
        Found::File(file) => file,
        Found::Folder(_) => return Err(Refusal(format!("{} is a folder: use `ls` to list it", quoted(path)))),
    };
    let watched = Watched { reader: file.take(MAX_SCAN_BYTES), stop };
    let page = Page::read(&mut BufReader::with_capacity(BUFFER_BYTES, watched), request, MAX_SCAN_BYTES);
    let path = quoted(path);
    page.map_err(|error| match error {
        PageError::Read(_) if stop.is_cancelled() => Refusal::cancelled(),
        PageError::Read(error) => Refusal::because(&path, &error),
        PageError::Binary => Refusal(format!("{path} is not text: it holds NUL bytes")),
        PageError::PastEnd { lines } => {
            let offset = request.offset;
            Refusal(format!("{path} has {lines} lines, so nothing is left after an `offset` of {offset}"))
        }
        PageError::TooFar => Refusal(format!("that `offset` lies more than {MAX_SCAN_BYTES} bytes into {path}")),
    })
}

/// Ends reading with an error when `stop` is cancelled.
struct Watched<'a, R> {
    reader: R,
    stop: &'a CancellationToken,
}

impl<R: io::Read> io::Read for Watched<'_, R> {
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
