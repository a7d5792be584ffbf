//! Renders Markdown from a model for a terminal: headings, lists, quotes, code, tables, wrapped at words.
//!
//! Pure: chunks of text in, terminal output out. Output is never revised: a word is written once its style is certain,
//! a table once it is complete. The result does not depend on the chunk boundaries. Control characters in the text are
//! escaped, so none reaches the terminal.

use block::{BlockStart, ListMarker, is_certain, parse_block_start};
use inline::TextStyle;
use table::MarkdownTable;
use wrapping::WrappingWriter;

use crate::output::plain;

mod block;
mod inline;
mod table;
mod wrapping;

/// Maximum line width, however wide the terminal: longer lines are hard to read.
const MAX_COLUMNS: usize = 100;
/// Minimum line width.
const MIN_COLUMNS: usize = 10;
/// A line that is buffered until its end (code, a heading, a row) is written in parts past this length.
const MAX_BUFFERED_LINE: usize = 16 * 1024;

/// The layout of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MarkdownLayout {
    pub(super) columns: usize,
    pub(super) marks: MarkupMode,
}

/// How markup such as `**` is rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkupMode {
    /// As bold, colour and the like.
    Styled,
    /// Unchanged, for output without colour. Only lines are laid out.
    Literal,
}

#[derive(Debug)]
pub(super) struct MarkdownRenderer {
    writer: WrappingWriter,
    marks: MarkupMode,
    /// The received part of a line whose kind is not certain yet.
    line: String,
    /// The last character was a carriage return, which is dropped before a line break.
    had_return: bool,
    /// The line belongs to a paragraph, item or quote: its words are written as they arrive.
    is_flowing: bool,
    fence: Option<CodeFence>,
    table: Option<MarkdownTable>,
    items: Vec<ListItem>,
    /// There is output above, and the text had a blank line.
    has_begun: bool,
    wants_blank: bool,
}

#[derive(Debug)]
struct CodeFence {
    mark: char,
    length: usize,
    indent: usize,
    /// Written before every line of the code.
    prefix: String,
}

/// An open list item.
#[derive(Debug, Clone, Copy)]
struct ListItem {
    /// The column of its marker in the text.
    indent: usize,
    /// The column of its text on the terminal.
    content_column: usize,
}

impl MarkdownRenderer {
    pub(super) fn new(layout: MarkdownLayout) -> Self {
        Self {
            writer: WrappingWriter::new(width(layout.columns), layout.marks),
            marks: layout.marks,
            line: String::new(),
            had_return: false,
            is_flowing: false,
            fence: None,
            table: None,
            items: Vec::new(),
            has_begun: false,
            wants_blank: false,
        }
    }

    /// Applies to later output.
    pub(super) fn resize(&mut self, columns: usize) {
        self.writer.resize(width(columns));
    }

    /// Returns the output that is certain now.
    pub(super) fn push(&mut self, text: &str) -> String {
        for piece in text.split_inclusive(['\n', '\r']) {
            let (words, end) = match piece.strip_suffix(['\n', '\r']) {
                Some(words) => (words, piece.chars().next_back()),
                None => (piece, None),
            };
            if self.had_return && !piece.starts_with('\n') {
                self.line.push_str(&plain("\r"));
            }
            self.had_return = end == Some('\r');
            self.line.push_str(&plain(words));
            self.advance(end == Some('\n'));
        }
        self.writer.take()
    }

    /// Ends the text: returns the rest, with a line break if a line is open. Later text starts anew.
    pub(super) fn finish(&mut self) -> String {
        if self.is_flowing || !self.line.is_empty() {
            self.advance(true);
        }
        self.end_table();
        if let Some(fence) = self.fence.take() {
            self.end_fence(&fence);
        }
        self.items.clear();
        self.wants_blank = false;
        self.has_begun = false;
        self.had_return = false;
        self.writer.end_line();
        self.writer.take()
    }

    /// Whether the last line of the output is not empty.
    pub(super) fn is_mid_line(&self) -> bool {
        self.writer.is_mid_line()
    }

    /// Processes the line as far as it is certain. `whole`: the line is complete.
    fn advance(&mut self, whole: bool) {
        if self.is_flowing {
            let line = std::mem::take(&mut self.line);
            self.writer.push_text(&line);
        } else if self.fence.is_some() {
            if whole || self.line.len() > MAX_BUFFERED_LINE {
                let line = std::mem::take(&mut self.line);
                self.code(&line, whole);
            }
            return;
        } else if whole || is_certain(&self.line) || self.line.len() > MAX_BUFFERED_LINE {
            let line = std::mem::take(&mut self.line);
            self.begin_block(&line, whole);
        }
        if whole && self.is_flowing {
            self.is_flowing = false;
            self.writer.flush_text();
            self.writer.end_line();
        }
    }

    /// Starts the block of a line whose kind is certain.
    fn begin_block(&mut self, line: &str, whole: bool) {
        let trimmed = line.trim_start();
        let indent = inline::display_width(line.strip_suffix(trimmed).unwrap_or_default());
        let block = parse_block_start(trimmed);
        if !matches!(block, BlockStart::Row) {
            self.end_table();
        }
        match block {
            BlockStart::Blank => {
                self.wants_blank = self.has_begun;
            }
            BlockStart::Heading { level, text } => {
                self.items.clear();
                self.separate_block();
                if self.marks == MarkupMode::Literal {
                    self.writer.write_text(&"#".repeat(level), TextStyle::PLAIN);
                    self.writer.write_text(" ", TextStyle::PLAIN);
                }
                let style = if level == 1 { TextStyle::BOLD.with(TextStyle::UNDERLINE) } else { TextStyle::BOLD };
                self.writer.start_block("", style);
                self.writer.push_text(text);
                self.writer.flush_text();
                self.writer.end_line();
            }
            BlockStart::Rule => {
                self.separate_block();
                let rule = "─".repeat(self.writer.columns().min(40));
                self.writer.write_text(&rule, TextStyle::DIM);
                self.writer.end_line();
            }
            BlockStart::Fence { mark, length, language } => {
                self.separate_block();
                let lead = " ".repeat(self.content_indent(indent));
                self.writer.write_text(&format!("{lead}──"), TextStyle::DIM);
                if !language.is_empty() {
                    self.writer.write_text(&format!(" {}", language.trim()), TextStyle::DIM);
                }
                self.writer.end_line();
                self.fence = Some(CodeFence { mark, length, indent, prefix: lead });
            }
            BlockStart::Row => {
                if self.table.is_none() {
                    self.separate_block();
                }
                let mut table = self.table.take().unwrap_or_else(|| MarkdownTable::new(self.content_indent(indent)));
                // A very long table is written in parts.
                if table.is_full() {
                    self.table = Some(table);
                    self.end_table();
                    table = MarkdownTable::new(self.content_indent(indent));
                }
                table.push(trimmed.trim_end());
                self.table = Some(table);
            }
            BlockStart::Item { mark, text } => self.item(indent, &mark, text),
            BlockStart::Quote { text } => {
                self.items.clear();
                self.separate_block();
                self.writer.write_text("│ ", TextStyle::DIM);
                self.writer.start_block("│ ", TextStyle::ITALIC);
                self.writer.push_text(text);
                self.is_flowing = true;
            }
            BlockStart::Paragraph => {
                let lead = " ".repeat(self.content_indent(indent));
                self.separate_block();
                self.writer.write_text(&lead, TextStyle::PLAIN);
                self.writer.start_block(&lead, TextStyle::PLAIN);
                self.writer.push_text(trimmed);
                self.is_flowing = true;
            }
        }
        // The line exceeded the buffer: its rest is written as ordinary text.
        if !whole && !self.is_flowing && self.fence.is_none() {
            self.writer.start_block("", TextStyle::PLAIN);
            self.is_flowing = true;
        }
    }

    fn item(&mut self, indent: usize, mark: &ListMarker<'_>, text: &str) {
        self.items.retain(|item| item.indent < indent);
        self.separate_block();
        let depth = self.items.len();
        let lead = self.items.last().map_or(0, |item| item.content_column);
        let mark = match mark {
            ListMarker::Bullet => ["•", "◦", "▪"].get(depth).copied().unwrap_or("▪").to_owned(),
            ListMarker::Number(number) => (*number).to_owned(),
        };
        let (mark, text) = match (text.strip_prefix("[ ] "), text.strip_prefix("[x] ").or(text.strip_prefix("[X] "))) {
            (Some(open), _) => ("☐".to_owned(), open),
            (_, Some(done)) => ("☑".to_owned(), done),
            (None, None) => (mark, text),
        };
        let content = lead + inline::display_width(&mark) + 1;
        self.items.push(ListItem { indent, content_column: content });
        self.writer.write_text(&" ".repeat(lead), TextStyle::PLAIN);
        self.writer.write_text(&mark, TextStyle::MARK);
        self.writer.write_text(" ", TextStyle::PLAIN);
        self.writer.start_block(&" ".repeat(content), TextStyle::PLAIN);
        self.writer.push_text(text);
        self.is_flowing = true;
    }

    /// A line inside a fence, or the closing fence.
    fn code(&mut self, line: &str, whole: bool) {
        let Some(fence) = &self.fence else { return };
        // The first part of a line that exceeded the buffer has been written already.
        let goes_on = self.writer.is_mid_line();
        let rest = line.trim();
        let is_end = rest.chars().count() >= fence.length && rest.chars().all(|c| c == fence.mark);
        if whole && is_end && !goes_on {
            if let Some(fence) = self.fence.take() {
                self.end_fence(&fence);
            }
            return;
        }
        let max_indent = if goes_on { 0 } else { fence.indent };
        let spaces = line.chars().take_while(|c| *c == ' ').count().min(max_indent);
        let code = line.get(spaces..).unwrap_or(line).replace('\t', "    ");
        // Code is never wrapped, so that it can be copied unchanged.
        if !goes_on && !code.is_empty() {
            let lead = format!("{}  ", fence.prefix);
            self.writer.write_text(&lead, TextStyle::PLAIN);
        }
        self.writer.write_text(&code, TextStyle::CODE);
        if whole {
            self.writer.newline();
        }
    }

    fn end_fence(&mut self, fence: &CodeFence) {
        self.writer.end_line();
        self.writer.write_text(&format!("{}──", fence.prefix), TextStyle::DIM);
        self.writer.end_line();
    }

    fn end_table(&mut self) {
        let Some(table) = self.table.take() else { return };
        match table.lines(self.writer.columns(), self.marks) {
            Some(lines) => {
                for line in lines {
                    self.writer.write_runs(&line);
                    self.writer.end_line();
                }
            }
            None => {
                for row in table.rows() {
                    self.writer.start_block("", TextStyle::PLAIN);
                    self.writer.push_text(row);
                    self.writer.flush_text();
                    self.writer.end_line();
                }
            }
        }
    }

    /// Writes the blank line before a block, if the text had one.
    fn separate_block(&mut self) {
        if std::mem::take(&mut self.wants_blank) {
            self.writer.newline();
        }
        self.has_begun = true;
    }

    /// The indentation of a line on the terminal: below its list item, or as in the text.
    fn content_indent(&mut self, indent: usize) -> usize {
        self.items.retain(|item| item.indent + 1 < indent);
        match self.items.last() {
            Some(item) => item.content_column,
            None => indent.min(self.writer.columns() / 2),
        }
    }
}

/// The usable columns: the last one stays empty, so that the terminal does not wrap by itself.
fn width(columns: usize) -> usize {
    columns.saturating_sub(1).clamp(MIN_COLUMNS, MAX_COLUMNS)
}

#[cfg(test)]
mod tests;
