//! Markdown of a model as a terminal shows it: headings, lists, quotes, code, tables, wrapped at words.
//!
//! Pure: pieces of text in, words for the terminal out. What was put out is never taken back: a word appears once it is
//! certain how it looks, a table once it is whole. The result does not depend on how the text was cut. Nothing of the text
//! acts on the terminal: control characters are shown as what they are.

use block::{Block, ItemMark, block, is_certain};
use flow::Flow;
use inline::Style;
use table::Table;

use super::output::plain;

mod block;
mod flow;
mod inline;
mod table;

/// Lines are wrapped no wider than this, however wide the terminal: longer ones are hard to read.
const WIDEST: usize = 100;
/// Narrower than this nothing is laid out.
const NARROWEST: usize = 10;
/// A line that is kept until its end (code, a heading, a row) is shown in parts from this length on.
const MAX_KEPT: usize = 16 * 1024;

/// How it may look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) columns: usize,
    pub(super) marks: Marks,
}

/// What becomes of marks such as `**`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marks {
    /// They become bold, colour and the like.
    Styled,
    /// They stay: colour is not wanted. Only lines are laid out.
    Kept,
}

#[derive(Debug)]
pub(super) struct Markdown {
    flow: Flow,
    marks: Marks,
    /// What has arrived of a line that is not understood yet.
    line: String,
    /// A carriage return, which says nothing before a line's end.
    had_return: bool,
    /// The line is a paragraph's, an item's or a quote's: its words go out as they come.
    is_flowing: bool,
    fence: Option<Fence>,
    table: Option<Table>,
    items: Vec<Item>,
    /// Something stands above, and a blank line was asked for.
    has_begun: bool,
    wants_blank: bool,
}

#[derive(Debug)]
struct Fence {
    mark: char,
    length: usize,
    indent: usize,
    /// Before every line of it.
    lead: String,
}

/// An open item of a list.
#[derive(Debug, Clone, Copy)]
struct Item {
    /// Where its mark stands in the text.
    indent: usize,
    /// Where its words stand on the terminal.
    content: usize,
}

impl Markdown {
    pub(super) fn new(look: Look) -> Self {
        Self {
            flow: Flow::new(width(look.columns), look.marks),
            marks: look.marks,
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

    /// For what comes from now on.
    pub(super) fn resize(&mut self, columns: usize) {
        self.flow.resize(width(columns));
    }

    /// What can be shown now.
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
        self.flow.take()
    }

    /// The end: the rest, and a line's end if one is open. What is pushed then begins anew.
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
        self.flow.end_line();
        self.flow.take()
    }

    /// Whether something stands on the last line that was put out.
    pub(super) fn is_mid_line(&self) -> bool {
        self.flow.is_mid_line()
    }

    /// Goes as far as the line is understood. `whole`: nothing more comes on it.
    fn advance(&mut self, whole: bool) {
        if self.is_flowing {
            let line = std::mem::take(&mut self.line);
            self.flow.words(&line);
        } else if self.fence.is_some() {
            if whole || self.line.len() > MAX_KEPT {
                let line = std::mem::take(&mut self.line);
                self.code(&line, whole);
            }
            return;
        } else if whole || is_certain(&self.line) || self.line.len() > MAX_KEPT {
            let line = std::mem::take(&mut self.line);
            self.begin(&line, whole);
        }
        if whole && self.is_flowing {
            self.is_flowing = false;
            self.flow.end_words();
            self.flow.end_line();
        }
    }

    /// A line whose kind is certain.
    fn begin(&mut self, line: &str, whole: bool) {
        let trimmed = line.trim_start();
        let indent = inline::columns(line.strip_suffix(trimmed).unwrap_or_default());
        let block = block(trimmed);
        if !matches!(block, Block::Row) {
            self.end_table();
        }
        match block {
            Block::Blank => {
                self.wants_blank = self.has_begun;
            }
            Block::Heading { level, text } => {
                self.items.clear();
                self.above();
                if self.marks == Marks::Kept {
                    self.flow.put(&"#".repeat(level), Style::PLAIN);
                    self.flow.put(" ", Style::PLAIN);
                }
                let style = if level == 1 { Style::BOLD.with(Style::UNDERLINE) } else { Style::BOLD };
                self.flow.start("", style);
                self.flow.words(text);
                self.flow.end_words();
                self.flow.end_line();
            }
            Block::Rule => {
                self.above();
                let rule = "─".repeat(self.flow.columns().min(40));
                self.flow.put(&rule, Style::DIM);
                self.flow.end_line();
            }
            Block::Fence { mark, length, language } => {
                self.above();
                let lead = " ".repeat(self.inside(indent));
                self.flow.put(&format!("{lead}──"), Style::DIM);
                if !language.is_empty() {
                    self.flow.put(&format!(" {}", language.trim()), Style::DIM);
                }
                self.flow.end_line();
                self.fence = Some(Fence { mark, length, indent, lead });
            }
            Block::Row => {
                if self.table.is_none() {
                    self.above();
                }
                let mut table = self.table.take().unwrap_or_else(|| Table::new(self.inside(indent)));
                // A table that never ends is shown in parts.
                if table.is_full() {
                    self.table = Some(table);
                    self.end_table();
                    table = Table::new(self.inside(indent));
                }
                table.push(trimmed.trim_end());
                self.table = Some(table);
            }
            Block::Item { mark, text } => self.item(indent, &mark, text),
            Block::Quote { text } => {
                self.items.clear();
                self.above();
                self.flow.put("│ ", Style::DIM);
                self.flow.start("│ ", Style::ITALIC);
                self.flow.words(text);
                self.is_flowing = true;
            }
            Block::Paragraph => {
                let lead = " ".repeat(self.inside(indent));
                self.above();
                self.flow.put(&lead, Style::PLAIN);
                self.flow.start(&lead, Style::PLAIN);
                self.flow.words(trimmed);
                self.is_flowing = true;
            }
        }
        // Too long to be kept: what more comes of it is ordinary text.
        if !whole && !self.is_flowing && self.fence.is_none() {
            self.flow.start("", Style::PLAIN);
            self.is_flowing = true;
        }
    }

    fn item(&mut self, indent: usize, mark: &ItemMark<'_>, text: &str) {
        self.items.retain(|item| item.indent < indent);
        self.above();
        let depth = self.items.len();
        let lead = self.items.last().map_or(0, |item| item.content);
        let mark = match mark {
            ItemMark::Bullet => ["•", "◦", "▪"].get(depth).copied().unwrap_or("▪").to_owned(),
            ItemMark::Number(number) => (*number).to_owned(),
        };
        let (mark, text) = match (text.strip_prefix("[ ] "), text.strip_prefix("[x] ").or(text.strip_prefix("[X] "))) {
            (Some(open), _) => ("☐".to_owned(), open),
            (_, Some(done)) => ("☑".to_owned(), done),
            (None, None) => (mark, text),
        };
        let content = lead + inline::columns(&mark) + 1;
        self.items.push(Item { indent, content });
        self.flow.put(&" ".repeat(lead), Style::PLAIN);
        self.flow.put(&mark, Style::MARK);
        self.flow.put(" ", Style::PLAIN);
        self.flow.start(&" ".repeat(content), Style::PLAIN);
        self.flow.words(text);
        self.is_flowing = true;
    }

    /// A line inside a fence, or the one that ends it.
    fn code(&mut self, line: &str, whole: bool) {
        let Some(fence) = &self.fence else { return };
        // The beginning of a line too long to be kept was shown already.
        let goes_on = self.flow.is_mid_line();
        let rest = line.trim();
        let is_end = rest.chars().count() >= fence.length && rest.chars().all(|c| c == fence.mark);
        if whole && is_end && !goes_on {
            if let Some(fence) = self.fence.take() {
                self.end_fence(&fence);
            }
            return;
        }
        let most = if goes_on { 0 } else { fence.indent };
        let spaces = line.chars().take_while(|c| *c == ' ').count().min(most);
        let code = line.get(spaces..).unwrap_or(line).replace('\t', "    ");
        // Never wrapped here: what is copied must stay what it is.
        if !goes_on && !code.is_empty() {
            let lead = format!("{}  ", fence.lead);
            self.flow.put(&lead, Style::PLAIN);
        }
        self.flow.put(&code, Style::CODE);
        if whole {
            self.flow.blank();
        }
    }

    fn end_fence(&mut self, fence: &Fence) {
        self.flow.end_line();
        self.flow.put(&format!("{}──", fence.lead), Style::DIM);
        self.flow.end_line();
    }

    fn end_table(&mut self) {
        let Some(table) = self.table.take() else { return };
        match table.lines(self.flow.columns(), self.marks) {
            Some(lines) => {
                for line in lines {
                    self.flow.put_runs(&line);
                    self.flow.end_line();
                }
            }
            None => {
                for row in table.rows() {
                    self.flow.start("", Style::PLAIN);
                    self.flow.words(row);
                    self.flow.end_words();
                    self.flow.end_line();
                }
            }
        }
    }

    /// The blank line before a block, if there was one in the text.
    fn above(&mut self) {
        if std::mem::take(&mut self.wants_blank) {
            self.flow.blank();
        }
        self.has_begun = true;
    }

    /// Where a line that is indented so far stands: under the item it belongs to, or where it is.
    fn inside(&mut self, indent: usize) -> usize {
        self.items.retain(|item| item.indent + 1 < indent);
        match self.items.last() {
            Some(item) => item.content,
            None => indent.min(self.flow.columns() / 2),
        }
    }
}

/// Columns that are written on: the last stays empty, so that no terminal wraps by itself.
fn width(columns: usize) -> usize {
    columns.saturating_sub(1).clamp(NARROWEST, WIDEST)
}

#[cfg(test)]
mod tests;
