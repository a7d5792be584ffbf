//! Tables. On a terminal they use its width: columns that may be cut or wrapped are, and values that must stay whole
//! but do not fit get a line below their row. Elsewhere every value is whole.

use std::io::{IsTerminal, stdout};

use super::paint::{OutputStream, TextRole, colour, paint};
use super::screen::TerminalSize;
use super::width::{cut, width, wrap};
use super::{one_line, print_line};
use crate::telemetry::LogColour;

/// Columns between two table columns.
const GAP: usize = 2;
/// Minimum width of a column that may be shortened, unless its values are narrower.
const MIN_COLUMN_WIDTH: usize = 16;
/// Indentation of lines below a row.
const INDENT: &str = "  ";

/// The layout of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageLayout {
    /// `None`: unlimited.
    pub(crate) columns: Option<usize>,
    pub(crate) colour: LogColour,
}

impl PageLayout {
    pub(crate) fn of_stdout() -> Self {
        let columns = stdout().is_terminal().then(|| TerminalSize::of(stdout()).columns);
        Self { columns, colour: colour(OutputStream::Out) }
    }

    /// The same layout for lines indented by `by` columns.
    pub(crate) fn inset(self, by: usize) -> Self {
        Self { columns: self.columns.map(|columns| columns.saturating_sub(by)), ..self }
    }
}

/// How values that do not fit are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnFit {
    /// Moved below their row: names and ids, which users copy.
    Whole,
    Cut,
    Wrap,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextAlign {
    Left,
    Right,
}

#[derive(Debug, Clone)]
pub(crate) struct Column {
    title: String,
    fit: ColumnFit,
    side: TextAlign,
}

impl Column {
    pub(crate) fn whole(title: &str) -> Self {
        Self { title: title.to_owned(), fit: ColumnFit::Whole, side: TextAlign::Left }
    }

    pub(crate) fn number(title: &str) -> Self {
        Self { side: TextAlign::Right, ..Self::whole(title) }
    }

    pub(crate) fn cut(title: &str) -> Self {
        Self { fit: ColumnFit::Cut, ..Self::whole(title) }
    }

    pub(crate) fn wrap(title: &str) -> Self {
        Self { fit: ColumnFit::Wrap, ..Self::whole(title) }
    }
}

/// A sanitised value.
#[derive(Debug, Clone)]
pub(crate) struct TableCell {
    text: String,
    role: Option<TextRole>,
}

impl TableCell {
    pub(crate) fn painted(text: &str, role: TextRole) -> Self {
        Self { role: Some(role), ..text.into() }
    }
}

impl From<&str> for TableCell {
    fn from(text: &str) -> Self {
        Self { text: one_line(text), role: None }
    }
}

impl From<String> for TableCell {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

#[derive(Debug)]
struct TableRow {
    cells: Vec<TableCell>,
    remarks: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct TextTable {
    columns: Vec<Column>,
    rows: Vec<TableRow>,
}

impl TextTable {
    pub(crate) fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self { columns: columns.into(), rows: Vec::new() }
    }

    /// Adds a row, with one cell per column.
    pub(crate) fn push_row(&mut self, cells: impl Into<Vec<TableCell>>) {
        let cells = cells.into();
        debug_assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(TableRow { cells, remarks: Vec::new() });
    }

    /// Adds a remark below the newest row.
    pub(crate) fn add_remark(&mut self, remark: &str) {
        if let Some(row) = self.rows.last_mut() {
            row.remarks.push(one_line(remark));
        }
    }

    /// Prints to standard output.
    pub(crate) fn print(&self) {
        self.lines(PageLayout::of_stdout()).iter().for_each(|shown| print_line(shown));
    }

    pub(crate) fn lines(&self, page: PageLayout) -> Vec<String> {
        let widths = self.widths(page.columns);
        let head: Vec<TableCell> =
            self.columns.iter().map(|column| TableCell::painted(&column.title, TextRole::Title)).collect();
        let mut lines = self.row_lines(&head, &widths, page.colour);
        for row in &self.rows {
            lines.extend(self.row_lines(&row.cells, &widths, page.colour));
            lines.extend(self.overflow_lines(row, &widths, page));
        }
        lines
    }

    /// The width of each column; `None` if its values are moved below their rows.
    fn widths(&self, columns: Option<usize>) -> Vec<Option<usize>> {
        let natural: Vec<usize> = self.columns.iter().enumerate().map(|(index, _)| self.natural_width(index)).collect();
        let mut widths: Vec<Option<usize>> = natural.iter().copied().map(Some).collect();
        let Some(room) = columns else { return widths };
        let least = |index: usize, natural: usize| match self.fit(index) {
            ColumnFit::Whole => natural,
            ColumnFit::Cut | ColumnFit::Wrap => natural.min(MIN_COLUMN_WIDTH),
        };
        loop {
            let shown = || widths.iter().enumerate().filter_map(|(index, width)| Some((index, (*width)?)));
            let gaps = GAP * shown().count().saturating_sub(1);
            let needed: usize = shown().map(|(index, width)| least(index, width)).sum();
            if needed + gaps <= room {
                self.share_width(room - gaps, &mut widths);
                return widths;
            }
            // The first column identifies the row and is never moved.
            let others = || shown().filter(|(index, _)| *index > 0);
            let flexible =
                others().filter(|(index, _)| self.fit(*index) != ColumnFit::Whole).map(|(index, _)| index).next_back();
            let widest = || others().max_by_key(|(_, width)| *width).map(|(index, _)| index);
            match flexible.or_else(widest).and_then(|index| widths.get_mut(index)) {
                Some(width) => *width = None,
                None => return widths,
            }
        }
    }

    /// Distributes the remaining width evenly to the flexible columns, up to what each can use.
    fn share_width(&self, room: usize, widths: &mut [Option<usize>]) {
        let is_whole = |index: usize| self.fit(index) == ColumnFit::Whole;
        let taken: usize =
            widths.iter().enumerate().filter(|(index, _)| is_whole(*index)).filter_map(|(_, width)| *width).sum();
        let mut left = room.saturating_sub(taken);
        let mut flexible: Vec<&mut usize> = widths
            .iter_mut()
            .enumerate()
            .filter(|(index, _)| !is_whole(*index))
            .filter_map(|(_, width)| width.as_mut())
            .collect();
        flexible.sort();
        let mut count = flexible.len();
        for width in flexible {
            *width = (*width).min(left / count);
            left -= *width;
            count -= 1;
        }
    }

    fn natural_width(&self, index: usize) -> usize {
        let title = self.columns.get(index).map(|column| width(&column.title));
        let cells = self.rows.iter().filter_map(|row| row.cells.get(index)).map(|cell| width(&cell.text));
        cells.chain(title).max().unwrap_or(0)
    }

    fn fit(&self, index: usize) -> ColumnFit {
        self.columns.get(index).map_or(ColumnFit::Whole, |column| column.fit)
    }

    /// The lines of a row, with its columns side by side.
    fn row_lines(&self, cells: &[TableCell], widths: &[Option<usize>], colour: LogColour) -> Vec<String> {
        let shown: Vec<(Vec<String>, usize, TextAlign, Option<TextRole>)> = cells
            .iter()
            .zip(widths)
            .zip(&self.columns)
            .filter_map(|((cell, width), column)| {
                let width = (*width)?;
                let lines = match column.fit {
                    ColumnFit::Whole => vec![cell.text.clone()],
                    ColumnFit::Cut => vec![cut(&cell.text, width)],
                    ColumnFit::Wrap => wrap(&cell.text, width),
                };
                Some((lines, width, column.side, cell.role))
            })
            .collect();
        let height = shown.iter().map(|(lines, ..)| lines.len()).max().unwrap_or(0);
        (0..height)
            .map(|line| {
                let mut text = String::new();
                // Spaces are written only before text, so that no line has trailing spaces.
                let mut owed = 0;
                for (lines, columns, side, role) in &shown {
                    let part = lines.get(line).map_or("", String::as_str);
                    let spare = columns.saturating_sub(width(part));
                    let (before, after) = match side {
                        TextAlign::Left => (0, spare),
                        TextAlign::Right => (spare, 0),
                    };
                    if !part.is_empty() {
                        text.extend(std::iter::repeat_n(' ', owed + before));
                        match role {
                            Some(role) => text.push_str(&paint(part, *role, colour)),
                            None => text.push_str(part),
                        }
                        owed = 0;
                    } else {
                        owed += before;
                    }
                    owed += after + GAP;
                }
                text
            })
            .collect()
    }

    /// The values of a row that do not fit beside the others, and its remarks.
    fn overflow_lines(&self, row: &TableRow, widths: &[Option<usize>], page: PageLayout) -> Vec<String> {
        let room = page.columns.map(|columns| columns.saturating_sub(INDENT.len()).max(MIN_COLUMN_WIDTH));
        let moved = row.cells.iter().zip(widths).zip(&self.columns).filter(|((_, width), _)| width.is_none());
        let moved = moved.filter(|((cell, _), _)| !cell.text.is_empty()).flat_map(|((cell, _), column)| {
            match (room, column.fit) {
                (None, _) | (_, ColumnFit::Whole) => vec![cell.text.clone()],
                (Some(room), ColumnFit::Cut) => vec![cut(&cell.text, room)],
                (Some(room), ColumnFit::Wrap) => wrap(&cell.text, room),
            }
        });
        let remarks = row.remarks.iter().flat_map(|remark| match room {
            Some(room) => wrap(remark, room),
            None => vec![remark.clone()],
        });
        moved.chain(remarks).map(|text| format!("{INDENT}{text}")).collect()
    }
}

#[cfg(test)]
mod tests;
