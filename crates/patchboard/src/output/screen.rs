//! A block of lines on a terminal that is drawn again in its place.

use std::os::fd::AsFd;

use super::width::{cut, width};

/// Lines of a block at most, however tall the terminal is: a block taller than the screen cannot be gone back over.
const MAX_LINES: usize = 40;
/// Where the terminal does not tell.
const DEFAULT_SIZE: TerminalSize = TerminalSize { columns: 80, rows: 24 };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TerminalSize {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

impl TerminalSize {
    /// Of the terminal that is written to, now.
    pub(crate) fn of(terminal: impl AsFd) -> Self {
        match rustix::termios::tcgetwinsize(terminal) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Self { columns: size.ws_col.into(), rows: size.ws_row.into() }
            }
            Ok(_) | Err(_) => DEFAULT_SIZE,
        }
    }

    /// How many lines a block may have.
    pub(crate) fn max_lines(self) -> usize {
        self.rows.saturating_sub(2).clamp(3, MAX_LINES)
    }
}

/// What is drawn now.
#[derive(Debug, Default)]
pub(crate) struct LiveBlock {
    drawn: Vec<String>,
    /// Of the terminal, when it was drawn.
    columns: usize,
}

impl LiveBlock {
    /// The bytes that put `lines` where the block was. Empty when nothing changed.
    pub(crate) fn draw(&mut self, lines: &[String], size: TerminalSize) -> String {
        let lines = fit_lines(lines, size);
        if lines == self.drawn {
            return String::new();
        }
        let mut bytes = String::new();
        // What stays as it is above the first change is not touched, so that a spinner moves without a flicker.
        let same = self.drawn.iter().zip(&lines).take_while(|(old, new)| old == new).count();
        let same = if size.columns == self.columns { same } else { 0 };
        let up: usize = self.drawn.iter().skip(same).map(|line| rows(line, size.columns)).sum();
        if up > 0 {
            bytes.push_str(&format!("\x1b[{up}A\r"));
        }
        // No line may wrap, or the block would be taller than it is counted: long ones are cut, and the terminal, which
        // may have become narrower, is told not to.
        bytes.push_str("\x1b[?7l");
        for line in lines.iter().skip(same) {
            bytes.push_str(line);
            bytes.push_str("\x1b[K\n");
        }
        bytes.push_str("\x1b[J\x1b[?7h");
        self.drawn = lines;
        self.columns = size.columns;
        bytes
    }

    /// Leaves what is drawn where it is; the next block begins below it.
    pub(crate) fn commit(&mut self) {
        self.drawn.clear();
    }
}

/// As many lines as there is room for: the first, and the newest at the end.
fn fit_lines(lines: &[String], size: TerminalSize) -> Vec<String> {
    let room = size.max_lines();
    let width = size.columns.saturating_sub(1).max(1);
    let cut_line = |line: &String| cut(line, width);
    if lines.len() <= room {
        return lines.iter().map(cut_line).collect();
    }
    let hidden = lines.len() - (room - 1);
    let first = lines.iter().take(1).map(cut_line);
    let rest = lines.iter().skip(hidden + 1).map(cut_line);
    first.chain([cut(&format!("  … {hidden} more lines"), width)]).chain(rest).collect()
}

/// How many rows a drawn line takes now: a terminal that has become narrower has wrapped it.
fn rows(line: &str, columns: usize) -> usize {
    width(line).div_ceil(columns.max(1)).max(1)
}

#[cfg(test)]
mod tests;
