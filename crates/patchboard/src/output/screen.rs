//! A block of lines on a terminal that is redrawn in place.

use std::os::fd::AsFd;

use super::width::{cut, width};

/// Maximum lines of a block, however tall the terminal: the cursor cannot move above the top of the screen.
const MAX_LINES: usize = 40;
/// Used if the terminal does not report its size.
const DEFAULT_SIZE: TerminalSize = TerminalSize { columns: 80, rows: 24 };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TerminalSize {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

impl TerminalSize {
    /// The current size of a terminal.
    pub(crate) fn of(terminal: impl AsFd) -> Self {
        match rustix::termios::tcgetwinsize(terminal) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Self { columns: size.ws_col.into(), rows: size.ws_row.into() }
            }
            Ok(_) | Err(_) => DEFAULT_SIZE,
        }
    }

    /// The number of lines a block may have.
    pub(crate) fn max_lines(self) -> usize {
        self.rows.saturating_sub(2).clamp(3, MAX_LINES)
    }
}

/// The block as it was last drawn.
#[derive(Debug, Default)]
pub(crate) struct LiveBlock {
    drawn: Vec<String>,
    /// Columns of the terminal at that time.
    columns: usize,
}

impl LiveBlock {
    /// The bytes that replace the block by `lines`. Empty if nothing changed.
    pub(crate) fn draw(&mut self, lines: &[String], size: TerminalSize) -> String {
        let lines = fit_lines(lines, size);
        if lines == self.drawn {
            return String::new();
        }
        let mut bytes = String::new();
        // Lines above the first change are not rewritten, which avoids flicker.
        let same = self.drawn.iter().zip(&lines).take_while(|(old, new)| old == new).count();
        let same = if size.columns == self.columns { same } else { 0 };
        let up: usize = self.drawn.iter().skip(same).map(|line| rows(line, size.columns)).sum();
        if up > 0 {
            bytes.push_str(&format!("\x1b[{up}A\r"));
        }
        // No line may wrap, or the row count would be wrong: long lines are cut, and line wrap is turned off in case
        // the terminal has become narrower.
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

    /// Leaves the drawn lines in place; the next block starts below.
    pub(crate) fn commit(&mut self) {
        self.drawn.clear();
    }
}

/// The lines that fit: the first one and the newest ones.
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

/// Rows a drawn line takes now: a terminal that became narrower has wrapped it.
fn rows(line: &str, columns: usize) -> usize {
    width(line).div_ceil(columns.max(1)).max(1)
}

#[cfg(test)]
mod tests;
