//! Wraps words into terminal lines.

use super::MarkupMode;
use super::inline::{self, RESET_SEQUENCE, TextRun, TextStyle, display_width};

/// A longer word is written in parts.
const MAX_PENDING: usize = 4096;

#[derive(Debug)]
pub(super) struct WrappingWriter {
    columns: usize,
    marks: MarkupMode,
    out: String,
    /// Columns used on the current line.
    column: usize,
    is_mid_line: bool,
    /// The prefix of continuation lines, and the base style of the block.
    hanging_indent: String,
    base_style: TextStyle,
    /// Text whose style is not certain yet.
    pending: String,
    /// Spaces before the next word, dropped at a line break.
    spaces: usize,
}

/// A word with the spaces before it.
#[derive(Debug, Default)]
pub(super) struct StyledWord {
    pub(super) spaces: usize,
    pub(super) runs: Vec<TextRun>,
    pub(super) columns: usize,
}

impl WrappingWriter {
    pub(super) fn new(columns: usize, marks: MarkupMode) -> Self {
        Self {
            columns,
            marks,
            out: String::new(),
            column: 0,
            is_mid_line: false,
            hanging_indent: String::new(),
            base_style: TextStyle::PLAIN,
            pending: String::new(),
            spaces: 0,
        }
    }

    pub(super) fn resize(&mut self, columns: usize) {
        self.columns = columns;
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    pub(super) fn is_mid_line(&self) -> bool {
        self.is_mid_line
    }

    /// The output since the previous call.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    /// Starts flowing text; continuation lines begin with `hang`.
    pub(super) fn start_block(&mut self, hang: &str, base: TextStyle) {
        hang.clone_into(&mut self.hanging_indent);
        self.base_style = base;
        self.spaces = 0;
    }

    /// Adds text and writes the part that is certain.
    pub(super) fn push_text(&mut self, text: &str) {
        self.pending.push_str(text);
        let (ready, runs) = match self.marks {
            MarkupMode::Styled => inline::stable_prefix(&self.pending, self.base_style),
            MarkupMode::Literal => {
                let ready = self.pending.rfind([' ', '\t']).unwrap_or(0);
                (ready, unstyled_run(self.pending.get(..ready).unwrap_or_default()))
            }
        };
        if ready > 0 {
            self.pending.drain(..ready);
            self.push_runs(&runs);
        }
        if self.pending.len() > MAX_PENDING {
            self.flush_text();
        }
    }

    /// Writes the pending text; no later text can change its style.
    pub(super) fn flush_text(&mut self) {
        let text = std::mem::take(&mut self.pending);
        let runs = match self.marks {
            MarkupMode::Styled => inline::parse_runs(&text, self.base_style),
            MarkupMode::Literal => unstyled_run(&text),
        };
        self.push_runs(&runs);
    }

    /// Writes text without wrapping.
    pub(super) fn write_text(&mut self, text: &str, style: TextStyle) {
        if text.is_empty() {
            return;
        }
        self.write(text, style);
        self.column += display_width(text);
    }

    pub(super) fn write_runs(&mut self, runs: &[TextRun]) {
        for run in runs {
            self.write_text(&run.text, run.style);
        }
    }

    pub(super) fn end_line(&mut self) {
        if self.is_mid_line {
            self.newline();
        }
    }

    /// Ends the line, even if it is empty.
    pub(super) fn newline(&mut self) {
        self.out.push('\n');
        self.is_mid_line = false;
        self.column = 0;
        self.spaces = 0;
    }

    fn push_runs(&mut self, runs: &[TextRun]) {
        let (words, spaces) = split_words(runs);
        for mut word in words {
            word.spaces += std::mem::take(&mut self.spaces);
            self.write_word(&word);
        }
        self.spaces += spaces;
    }

    fn write_word(&mut self, word: &StyledWord) {
        let hang = display_width(&self.hanging_indent);
        let is_first = !self.is_mid_line || self.column <= hang;
        if !is_first && self.column + word.spaces + word.columns > self.columns {
            self.wrap_line();
        } else if self.is_mid_line && word.spaces > 0 {
            let spaces = " ".repeat(word.spaces);
            self.write_text(&spaces, TextStyle::PLAIN);
        }
        for run in &word.runs {
            // A word longer than a line is broken at the line's end.
            let mut begin = 0;
            for (at, c) in run.text.char_indices() {
                let width = display_width(c.encode_utf8(&mut [0; 4]));
                let so_far = run.text.get(begin..at).unwrap_or_default();
                let taken = display_width(so_far);
                if self.column + taken + width > self.columns && self.column + taken > hang {
                    self.write_text(so_far, run.style);
                    self.wrap_line();
                    begin = at;
                }
            }
            self.write_text(run.text.get(begin..).unwrap_or_default(), run.style);
        }
    }

    fn wrap_line(&mut self) {
        self.newline();
        let hang = self.hanging_indent.clone();
        self.write_text(&hang, TextStyle::DIM);
    }

    fn write(&mut self, text: &str, style: TextStyle) {
        self.is_mid_line = true;
        let begin = match self.marks {
            MarkupMode::Styled if !text.trim().is_empty() => style.begin(),
            MarkupMode::Styled | MarkupMode::Literal => String::new(),
        };
        self.out.push_str(&begin);
        self.out.push_str(&text.replace('\t', "    "));
        if !begin.is_empty() {
            self.out.push_str(RESET_SEQUENCE);
        }
    }
}

/// A run for text whose markup is kept.
fn unstyled_run(text: &str) -> Vec<TextRun> {
    vec![TextRun { text: text.to_owned(), style: TextStyle::PLAIN }]
}

/// Splits runs into words, and returns the number of trailing spaces.
pub(super) fn split_words(runs: &[TextRun]) -> (Vec<StyledWord>, usize) {
    let mut words = Vec::new();
    let mut word = StyledWord::default();
    for run in runs {
        for (number, text) in run.text.split([' ', '\t']).enumerate() {
            if number > 0 {
                if word.runs.is_empty() {
                    word.spaces += 1;
                } else {
                    words.push(std::mem::take(&mut word));
                    word.spaces = 1;
                }
            }
            if !text.is_empty() {
                word.columns += display_width(text);
                word.runs.push(TextRun { text: text.to_owned(), style: run.style });
            }
        }
    }
    if word.runs.is_empty() {
        return (words, word.spaces);
    }
    words.push(word);
    (words, 0)
}

/// Wraps runs into lines of at most `width` columns.
pub(super) fn wrap_runs(runs: &[TextRun], width: usize) -> Vec<(Vec<TextRun>, usize)> {
    let mut lines = Vec::new();
    let (mut line, mut taken): (Vec<TextRun>, usize) = (Vec::new(), 0);
    for word in split_words(runs).0 {
        if taken > 0 && taken + word.spaces + word.columns > width {
            lines.push((std::mem::take(&mut line), taken));
            taken = 0;
        } else if taken > 0 {
            line.push(TextRun { text: " ".repeat(word.spaces), style: TextStyle::PLAIN });
            taken += word.spaces;
        }
        for run in word.runs {
            let mut text = String::new();
            for c in run.text.chars() {
                let one = display_width(c.encode_utf8(&mut [0; 4]));
                if taken + one > width && taken > 0 {
                    line.push(TextRun { text: std::mem::take(&mut text), style: run.style });
                    lines.push((std::mem::take(&mut line), taken));
                    taken = 0;
                }
                text.push(c);
                taken += one;
            }
            line.push(TextRun { text, style: run.style });
        }
    }
    if taken > 0 || lines.is_empty() {
        lines.push((line, taken));
    }
    lines
}
