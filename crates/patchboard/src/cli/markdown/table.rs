//! A table: rows are buffered until it is complete, then laid out for the available width.

use super::MarkupMode;
use super::inline::{TextRun, TextStyle, parse_runs};
use super::wrapping::{split_words, wrap_runs};

/// A longer table is written in parts.
const MAX_ROWS: usize = 300;
const MAX_BYTES: usize = 64 * 1024;
/// Columns between two table columns.
const GAP: usize = 3;
/// Minimum width of a column, unless its cells are narrower.
const MIN_COLUMN_WIDTH: usize = 6;
/// Upper bound of a cell's width before columns are shrunk.
const MAX_CELL_WIDTH: usize = 400;

#[derive(Debug)]
pub(super) struct MarkdownTable {
    indent: usize,
    rows: Vec<String>,
    bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnAlign {
    Left,
    Centre,
    Right,
}

impl MarkdownTable {
    pub(super) fn new(indent: usize) -> Self {
        Self { indent, rows: Vec::new(), bytes: 0 }
    }

    pub(super) fn push(&mut self, row: &str) {
        self.bytes += row.len();
        self.rows.push(row.to_owned());
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows.len() >= MAX_ROWS || self.bytes >= MAX_BYTES
    }

    pub(super) fn rows(&self) -> &[String] {
        &self.rows
    }

    /// Returns `None` if the second row is not a delimiter row.
    pub(super) fn lines(&self, columns: usize, marks: MarkupMode) -> Option<Vec<Vec<TextRun>>> {
        let (head, rest) = self.rows.split_first()?;
        let (second, body) = rest.split_first()?;
        let aligns: Vec<ColumnAlign> = cells(second).iter().map(|cell| align(cell)).collect::<Option<_>>()?;
        let read = |row: &String, base: TextStyle| -> Vec<Vec<TextRun>> {
            let mut cells: Vec<Vec<TextRun>> = cells(row)
                .iter()
                .map(|cell| match marks {
                    MarkupMode::Styled => parse_runs(cell, base),
                    MarkupMode::Literal => vec![TextRun { text: cell.clone(), style: TextStyle::PLAIN }],
                })
                .collect();
            cells.resize(aligns.len(), Vec::new());
            cells
        };
        let head = read(head, TextStyle::BOLD);
        let body: Vec<_> = body.iter().map(|row| read(row, TextStyle::PLAIN)).collect();
        let room = columns.saturating_sub(self.indent);
        let lines = match widths(&head, &body, room) {
            Some(widths) => grid(&head, &body, &widths, &aligns),
            None => list(&head, &body, room),
        };
        let lead = TextRun { text: " ".repeat(self.indent), style: TextStyle::PLAIN };
        Some(lines.into_iter().map(|line| std::iter::once(lead.clone()).chain(line).collect()).collect())
    }
}

/// The width of each column; `None` if there are too many for the available width.
fn widths(head: &[Vec<TextRun>], body: &[Vec<Vec<TextRun>>], room: usize) -> Option<Vec<usize>> {
    let rows = || std::iter::once(head).chain(body.iter().map(Vec::as_slice));
    let widest = |column: usize| rows().filter_map(|row| row.get(column)).map(|cell| length(cell)).max().unwrap_or(0);
    let mut widths: Vec<usize> = (0..head.len()).map(|column| widest(column).clamp(1, MAX_CELL_WIDTH)).collect();
    let room = room.checked_sub(GAP * (widths.len().saturating_sub(1)))?;
    while widths.iter().sum::<usize>() > room {
        let widest = widths.iter_mut().max()?;
        if *widest <= MIN_COLUMN_WIDTH {
            return None;
        }
        *widest -= 1;
    }
    Some(widths)
}

fn length(cell: &[TextRun]) -> usize {
    split_words(cell).0.iter().map(|word| word.spaces + word.columns).sum()
}

fn grid(
    head: &[Vec<TextRun>],
    body: &[Vec<Vec<TextRun>>],
    widths: &[usize],
    aligns: &[ColumnAlign],
) -> Vec<Vec<TextRun>> {
    let mut lines = row(head, widths, aligns);
    let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
    lines.push(vec![TextRun { text: rule.join("─┼─"), style: TextStyle::DIM }]);
    for cells in body {
        lines.extend(row(cells, widths, aligns));
    }
    lines
}

/// The lines of a row, as many as its tallest cell needs.
fn row(cells: &[Vec<TextRun>], widths: &[usize], aligns: &[ColumnAlign]) -> Vec<Vec<TextRun>> {
    let cells: Vec<_> = cells.iter().zip(widths).map(|(cell, width)| wrap_runs(cell, *width)).collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let spaces = |count: usize| TextRun { text: " ".repeat(count), style: TextStyle::PLAIN };
    let line = |number: usize| {
        let mut line = Vec::new();
        for (column, ((cell, width), align)) in cells.iter().zip(widths).zip(aligns).enumerate() {
            let (runs, taken) = cell.get(number).cloned().unwrap_or_default();
            let free = width.saturating_sub(taken);
            let before = match align {
                ColumnAlign::Left => 0,
                ColumnAlign::Centre => free / 2,
                ColumnAlign::Right => free,
            };
            line.push(spaces(before));
            line.extend(runs);
            if column + 1 < widths.len() {
                line.push(spaces(free - before));
                line.push(TextRun { text: " │ ".to_owned(), style: TextStyle::DIM });
            }
        }
        line
    };
    (0..height).map(line).collect()
}

/// Used if the columns do not fit side by side: each row as a list of its cells.
fn list(head: &[Vec<TextRun>], body: &[Vec<Vec<TextRun>>], room: usize) -> Vec<Vec<TextRun>> {
    let mut lines = Vec::new();
    for (number, cells) in body.iter().enumerate() {
        if number > 0 {
            lines.push(vec![TextRun { text: "─".repeat(room.min(8)), style: TextStyle::DIM }]);
        }
        for (title, cell) in head.iter().zip(cells).filter(|(_, cell)| !cell.is_empty()) {
            let colon = TextRun { text: ": ".to_owned(), style: TextStyle::PLAIN };
            let both: Vec<TextRun> = title.iter().cloned().chain([colon]).chain(cell.iter().cloned()).collect();
            lines.extend(wrap_runs(&both, room.max(1)).into_iter().map(|(line, _)| line));
        }
    }
    lines
}

/// The cells of a row; a `\|` and a bar inside code are text.
fn cells(row: &str) -> Vec<String> {
    let row = row.strip_prefix('|').unwrap_or(row);
    let mut cells = vec![String::new()];
    let (mut in_code, mut chars) = (false, row.chars().peekable());
    while let Some(c) = chars.next() {
        if c == '|' && !in_code {
            // The final bar ends the row.
            if chars.peek().is_some() {
                cells.push(String::new());
            }
            continue;
        }
        let Some(cell) = cells.last_mut() else { continue };
        if c == '\\' && chars.peek() == Some(&'|') {
            cell.extend(chars.next());
            continue;
        }
        in_code ^= c == '`';
        cell.push(c);
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

fn align(cell: &str) -> Option<ColumnAlign> {
    let bare = cell.trim_start_matches(':').trim_end_matches(':');
    if bare.is_empty() || bare.chars().any(|c| c != '-') {
        return None;
    }
    Some(match (cell.starts_with(':'), cell.ends_with(':')) {
        (true, true) => ColumnAlign::Centre,
        (false, true) => ColumnAlign::Right,
        (_, false) => ColumnAlign::Left,
    })
}
