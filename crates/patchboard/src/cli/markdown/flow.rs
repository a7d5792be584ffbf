//! Words put on lines of a terminal, one after the other.

use super::Marks;
use super::inline::{self, END, Run, Style, columns};

/// A word that never ends is shown in parts.
const MAX_WAITING: usize = 4096;

#[derive(Debug)]
pub(super) struct Flow {
    columns: usize,
    marks: Marks,
    out: String,
    /// Columns taken on the last line.
    column: usize,
    is_open: bool,
    /// What further lines of the block begin with, and how its words look.
    hang: String,
    base: Style,
    /// Text whose look is not certain yet.
    waiting: String,
    /// Spaces before the next word, which a line's end swallows.
    spaces: usize,
}

/// What stands between two spaces, and the spaces before it.
#[derive(Debug, Default)]
pub(super) struct Word {
    pub(super) spaces: usize,
    pub(super) runs: Vec<Run>,
    pub(super) columns: usize,
}

impl Flow {
    pub(super) fn new(columns: usize, marks: Marks) -> Self {
        Self {
            columns,
            marks,
            out: String::new(),
            column: 0,
            is_open: false,
            hang: String::new(),
            base: Style::PLAIN,
            waiting: String::new(),
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
        self.is_open
    }

    /// What was put out since the last time.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    /// Begins words that flow; further lines begin with `hang`.
    pub(super) fn start(&mut self, hang: &str, base: Style) {
        hang.clone_into(&mut self.hang);
        self.base = base;
        self.spaces = 0;
    }

    /// As many of them as are certain.
    pub(super) fn words(&mut self, text: &str) {
        self.waiting.push_str(text);
        let (ready, runs) = match self.marks {
            Marks::Styled => inline::ready(&self.waiting, self.base),
            Marks::Kept => {
                let ready = self.waiting.rfind([' ', '\t']).unwrap_or(0);
                (ready, as_they_are(self.waiting.get(..ready).unwrap_or_default()))
            }
        };
        if ready > 0 {
            self.waiting.drain(..ready);
            self.lay(&runs);
        }
        if self.waiting.len() > MAX_WAITING {
            self.end_words();
        }
    }

    /// Nothing more comes that could change how they look.
    pub(super) fn end_words(&mut self) {
        let text = std::mem::take(&mut self.waiting);
        let runs = match self.marks {
            Marks::Styled => inline::runs(&text, self.base),
            Marks::Kept => as_they_are(&text),
        };
        self.lay(&runs);
    }

    /// Text as it is, wherever it ends.
    pub(super) fn put(&mut self, text: &str, style: Style) {
        if text.is_empty() {
            return;
        }
        self.write(text, style);
        self.column += columns(text);
    }

    pub(super) fn put_runs(&mut self, runs: &[Run]) {
        for run in runs {
            self.put(&run.text, run.style);
        }
    }

    pub(super) fn end_line(&mut self) {
        if self.is_open {
            self.blank();
        }
    }

    /// A line's end, whatever stands on it.
    pub(super) fn blank(&mut self) {
        self.out.push('\n');
        self.is_open = false;
        self.column = 0;
        self.spaces = 0;
    }

    fn lay(&mut self, runs: &[Run]) {
        let (words, spaces) = words(runs);
        for mut word in words {
            word.spaces += std::mem::take(&mut self.spaces);
            self.word(&word);
        }
        self.spaces += spaces;
    }

    fn word(&mut self, word: &Word) {
        let hang = columns(&self.hang);
        let is_first = !self.is_open || self.column <= hang;
        if !is_first && self.column + word.spaces + word.columns > self.columns {
            self.next_line();
        } else if self.is_open && word.spaces > 0 {
            let spaces = " ".repeat(word.spaces);
            self.put(&spaces, Style::PLAIN);
        }
        for run in &word.runs {
            // A word longer than a line goes on where the line ends.
            let mut begin = 0;
            for (at, c) in run.text.char_indices() {
                let width = columns(c.encode_utf8(&mut [0; 4]));
                let so_far = run.text.get(begin..at).unwrap_or_default();
                let taken = columns(so_far);
                if self.column + taken + width > self.columns && self.column + taken > hang {
                    self.put(so_far, run.style);
                    self.next_line();
                    begin = at;
                }
            }
            self.put(run.text.get(begin..).unwrap_or_default(), run.style);
        }
    }

    fn next_line(&mut self) {
        self.blank();
        let hang = self.hang.clone();
        self.put(&hang, Style::DIM);
    }

    fn write(&mut self, text: &str, style: Style) {
        self.is_open = true;
        let begin = match self.marks {
            Marks::Styled if !text.trim().is_empty() => style.begin(),
            Marks::Styled | Marks::Kept => String::new(),
        };
        self.out.push_str(&begin);
        self.out.push_str(&text.replace('\t', "    "));
        if !begin.is_empty() {
            self.out.push_str(END);
        }
    }
}

/// Words whose marks stay.
fn as_they_are(text: &str) -> Vec<Run> {
    vec![Run { text: text.to_owned(), style: Style::PLAIN }]
}

/// The words of these runs, and the spaces after the last one.
pub(super) fn words(runs: &[Run]) -> (Vec<Word>, usize) {
    let mut words = Vec::new();
    let mut word = Word::default();
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
                word.columns += columns(text);
                word.runs.push(Run { text: text.to_owned(), style: run.style });
            }
        }
    }
    if word.runs.is_empty() {
        return (words, word.spaces);
    }
    words.push(word);
    (words, 0)
}

/// The same words on lines of so many columns.
pub(super) fn wrapped(runs: &[Run], width: usize) -> Vec<(Vec<Run>, usize)> {
    let mut lines = Vec::new();
    let (mut line, mut taken): (Vec<Run>, usize) = (Vec::new(), 0);
    for word in words(runs).0 {
        if taken > 0 && taken + word.spaces + word.columns > width {
            lines.push((std::mem::take(&mut line), taken));
            taken = 0;
        } else if taken > 0 {
            line.push(Run { text: " ".repeat(word.spaces), style: Style::PLAIN });
            taken += word.spaces;
        }
        for run in word.runs {
            let mut text = String::new();
            for c in run.text.chars() {
                let one = columns(c.encode_utf8(&mut [0; 4]));
                if taken + one > width && taken > 0 {
                    line.push(Run { text: std::mem::take(&mut text), style: run.style });
                    lines.push((std::mem::take(&mut line), taken));
                    taken = 0;
                }
                text.push(c);
                taken += one;
            }
            line.push(Run { text, style: run.style });
        }
    }
    if taken > 0 || lines.is_empty() {
        lines.push((line, taken));
    }
    lines
}
