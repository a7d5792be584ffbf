//! Tables. A row whose cells hold one line each becomes a Markdown row; any other, as in pages with table layout,
//! becomes the lines of its cells in sequence.

use super::{Break, Element, MAX_TABLES, MarkdownWriter};

#[derive(Debug, Default)]
pub(in super::super) struct TableState {
    /// The finished cells of the open row.
    cells: Vec<String>,
    /// A table with header cells contains data: the content of each cell is put on one line.
    has_header: bool,
    /// The line that follows the first row has been written.
    has_separator: bool,
}

impl MarkdownWriter {
    pub(in super::super) fn open_table(&mut self) {
        let tables = self.open.iter().filter(|open| matches!(open.element, Element::Table(_))).count();
        if tables < MAX_TABLES {
            self.open(Element::Table(TableState::default()));
        }
    }

    pub(in super::super) fn close_table(&mut self) {
        // The table's own cell may be open; a cell around the table stays.
        let table = self.open.iter().rposition(|open| matches!(open.element, Element::Table(_)));
        if let (Some(index), None) = (table, &self.code_block) {
            self.pop_to(index);
            self.request(Break::Blank);
        }
    }

    pub(in super::super) fn open_row(&mut self) {
        self.close_row();
    }

    pub(in super::super) fn close_row(&mut self) {
        self.close_cell();
        self.request(Break::Line);
        let Some(table) = self.innermost_table() else { return };
        let cells = std::mem::take(&mut table.cells);
        let is_data = table.has_header || cells.iter().all(|cell| !cell.contains('\n'));
        let is_row = is_data && cells.len() > 1;
        let needs_separator = is_row && !std::mem::replace(&mut table.has_separator, is_row);
        if !is_row {
            let between = if cells.iter().any(|cell| cell.contains('\n')) { Break::Blank } else { Break::Line };
            for cell in cells.iter().filter(|cell| !cell.is_empty()) {
                self.request(between);
                self.write_lines(cell);
            }
            return;
        }
        let on_one_line = |cell: &String| cell.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
        let shown: Vec<_> = cells.iter().map(on_one_line).collect();
        self.write_lines(&format!("| {} |", shown.join(" | ")));
        if needs_separator {
            self.write_lines(&format!("|{}", " --- |".repeat(cells.len())));
        }
    }

    pub(in super::super) fn open_cell(&mut self, is_header: bool) {
        self.close_cell();
        self.close_all_inline();
        if self.innermost_table().is_none() {
            // A cell without a table around it, or in one that is nested too deeply.
            return self.request(Break::Line);
        }
        if let Some(table) = self.innermost_table() {
            table.has_header |= is_header;
        }
        let before = std::mem::replace(&mut self.pending, Break::None);
        self.push(Element::Cell { start: self.output.len(), before });
    }

    /// Closes the cell of the innermost table.
    pub(in super::super) fn close_cell(&mut self) {
        let innermost =
            self.open.iter().rposition(|open| matches!(open.element, Element::Cell { .. } | Element::Table(_)));
        if let (Some(index), None) = (innermost, &self.code_block)
            && self.open.get(index).is_some_and(|open| matches!(open.element, Element::Cell { .. }))
        {
            self.pop_to(index);
        }
    }

    pub(super) fn end_cell(&mut self, start: usize, before: Break) {
        let text = self.output.split_off(start);
        self.pending = before;
        if let Some(table) = self.innermost_table() {
            table.cells.push(text.trim().to_owned());
        }
    }

    /// Writes a row that was not closed.
    pub(super) fn end_table(&mut self, table: TableState) {
        if !table.cells.is_empty() {
            self.push(Element::Table(table));
            self.close_row();
            self.open.pop();
        }
    }

    /// The table right around the current position, if it is the innermost block.
    fn innermost_table(&mut self) -> Option<&mut TableState> {
        self.close_all_inline();
        match self.open.last_mut().map(|open| &mut open.element) {
            Some(Element::Table(table)) => Some(table),
            _ => None,
        }
    }
}
