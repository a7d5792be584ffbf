//! The line editor with keys, history and completion. It has its own thread, as reading keys blocks.

use std::borrow::Cow;
use std::cell::Cell;
use std::io::stdin;
use std::path::PathBuf;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::{Hint, Hinter};
use rustyline::history::{FileHistory, History};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Context, Editor, Helper};
use tokio::sync::{mpsc, oneshot};

use super::lists::SharedChatFacts;
use super::slash;
use crate::output::{self, TextRole, paint};
use crate::telemetry::LogColour;

/// Limits of the history: number of entries, and length of one. A longer paste is sent but not stored.
const MAX_HISTORY: usize = 1_000;
const MAX_ENTRY: usize = 16 * 1024;
const PROMPT: &str = "> ";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum EditorInput {
    Line(String),
    /// Ctrl-C; the typed text is discarded.
    Interrupted {
        was_empty: bool,
    },
    /// Ctrl-D, or the terminal was closed.
    End,
}

pub(super) struct LineEditor {
    requests: mpsc::Sender<oneshot::Sender<EditorInput>>,
    /// The terminal mode before the editor, restored if the editor is dropped while it reads keys.
    saved_mode: Option<Termios>,
}

impl LineEditor {
    /// `history`: the history file, if there is a data directory.
    pub(super) fn start(history: Option<PathBuf>, facts: SharedChatFacts, colour: LogColour) -> anyhow::Result<Self> {
        let before = tcgetattr(stdin()).ok();
        let config = Config::builder()
            .max_history_size(MAX_HISTORY)?
            .history_ignore_space(true)
            .completion_type(rustyline::CompletionType::List)
            .completion_show_all_if_ambiguous(true)
            .bell_style(rustyline::config::BellStyle::None)
            .build();
        let (sender, mut receiver) = mpsc::channel::<oneshot::Sender<EditorInput>>(1);
        std::thread::Builder::new().name("line-editor".to_owned()).spawn(move || {
            let Ok(mut editor) = Editor::<EditorHelper, FileHistory>::with_config(config) else { return };
            editor.set_helper(Some(EditorHelper { facts, colour, is_empty: Cell::new(true) }));
            if let Some(file) = &history {
                // A history that cannot be read is started anew.
                drop(editor.load_history(file));
            }
            while let Some(answer) = receiver.blocking_recv() {
                if answer.send(read(&mut editor, history.as_ref())).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { requests: sender, saved_mode: before })
    }

    pub(super) async fn read(&self) -> EditorInput {
        let (answer, input) = oneshot::channel();
        if self.requests.send(answer).await.is_err() {
            return EditorInput::End;
        }
        input.await.unwrap_or(EditorInput::End)
    }
}

impl Drop for LineEditor {
    fn drop(&mut self) {
        if let Some(before) = &self.saved_mode {
            // The thread may be in the middle of a line: restore line mode and turn off bracketed paste.
            tcsetattr(stdin(), OptionalActions::Now, before).ok();
            output::print("\x1b[?2004l");
        }
    }
}

fn read(editor: &mut Editor<EditorHelper, FileHistory>, history: Option<&PathBuf>) -> EditorInput {
    if let Some(helper) = editor.helper() {
        helper.is_empty.set(true);
    }
    match editor.readline(PROMPT) {
        Ok(line) => {
            let is_kept = !line.trim().is_empty() && line.len() <= MAX_ENTRY;
            if is_kept
                && editor.add_history_entry(line.as_str()).unwrap_or(false)
                && let Some(file) = history
            {
                // A failed write only loses the entry for later chats. The file's mode is owner only.
                drop(editor.history_mut().append(file));
            }
            EditorInput::Line(line)
        }
        Err(ReadlineError::Interrupted) => {
            EditorInput::Interrupted { was_empty: editor.helper().is_none_or(|helper| helper.is_empty.get()) }
        }
        Err(_) => EditorInput::End,
    }
}

/// The editor's callbacks for completion, hints, highlighting and validation.
struct EditorHelper {
    facts: SharedChatFacts,
    colour: LogColour,
    /// Whether the line was empty, stored here because Ctrl-C does not report the line it ends.
    is_empty: Cell<bool>,
}

impl Helper for EditorHelper {}

impl Completer for EditorHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = line.get(..pos).unwrap_or(line);
        let (start, candidates) = slash::completions(before, &self.facts.lock().choices);
        let pair = |word: String| Pair { display: word.trim_end().to_owned(), replacement: word };
        Ok((start, candidates.into_iter().map(pair).collect()))
    }
}

struct CompletionHint {
    display: String,
    completion: String,
}

impl Hint for CompletionHint {
    fn display(&self) -> &str {
        &self.display
    }

    fn completion(&self) -> Option<&str> {
        Some(&self.completion).filter(|rest| !rest.is_empty()).map(String::as_str)
    }
}

impl Hinter for EditorHelper {
    type Hint = CompletionHint;

    fn hint(&self, line: &str, pos: usize, _: &Context<'_>) -> Option<CompletionHint> {
        self.is_empty.set(line.is_empty());
        let (rest, about) = slash::hint(line).filter(|_| pos == line.len())?;
        Some(CompletionHint { display: format!("{rest}{about}"), completion: rest })
    }
}

impl Highlighter for EditorHelper {
    /// Replaces terminal control characters in the display; a paste may contain them, and it is sent unchanged.
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if line.contains(is_terminal_control) {
            Cow::Owned(line.replace(is_terminal_control, "\u{fffd}"))
        } else {
            Cow::Borrowed(line)
        }
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(paint(hint, TextRole::Faint, self.colour))
    }

    fn highlight_char(&self, line: &str, _: usize, _: CmdKind) -> bool {
        line.contains(is_terminal_control)
    }
}

fn is_terminal_control(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
}

impl Validator for EditorHelper {
    fn validate(&self, typed: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let goes_on = typed.input().ends_with('\\') && !typed.input().ends_with("\\\\");
        Ok(if goes_on { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}
