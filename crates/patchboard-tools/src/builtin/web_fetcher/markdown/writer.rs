//! Writes Markdown from a stream of opened and closed elements, in any order.

mod table;

/// Elements nested deeper are not distinguished: their text belongs to the innermost one within the limit.
const MAX_OPEN: usize = 48;
/// Tables nested deeper in table cells are written as lines.
const MAX_TABLES: usize = 4;

/// The separator between the text written so far and the next text. Requests merge into the widest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Break {
    None,
    Space,
    Line,
    Blank,
}

/// An open element that affects how text is written.
#[derive(Debug)]
pub(super) enum Element {
    Heading(usize),
    Quote,
    /// `next` is the number of the next item, for numbered lists.
    List {
        next: Option<u32>,
    },
    /// The marker is written once, before the first text; later lines are indented by its width.
    Item {
        marker: String,
        is_marked: bool,
    },
    Strong,
    Emphasis,
    Link {
        url: String,
    },
    /// `start` is where its text begins in the output.
    Code {
        start: Option<usize>,
    },
    Table(table::TableState),
    /// A cell's text is collected separately: it begins at `start` of the output, and its row is preceded by `before`.
    Cell {
        start: usize,
        before: Break,
    },
}

/// An element, and whether its opening mark has been written. Marks are written with the first text, so that empty
/// elements produce no output.
#[derive(Debug)]
struct OpenElement {
    element: Element,
    is_begun: bool,
}

/// The text of a `<pre>`, kept unchanged.
#[derive(Debug, Default)]
struct CodeBlock {
    text: String,
    language: Option<String>,
}

#[derive(Debug)]
pub(super) struct MarkdownWriter {
    output: String,
    pending: Break,
    open: Vec<OpenElement>,
    code_block: Option<CodeBlock>,
    max_bytes: usize,
}

impl MarkdownWriter {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { output: String::new(), pending: Break::None, open: Vec::new(), code_block: None, max_bytes }
    }

    pub(super) fn is_full(&self) -> bool {
        self.output.len() + self.code_block.as_ref().map_or(0, |block| block.text.len()) > self.max_bytes
    }

    /// The text, and whether the size limit was reached.
    pub(super) fn finish(mut self) -> (String, bool) {
        let is_full = self.is_full();
        self.close_code_block();
        while !self.open.is_empty() {
            self.pop();
        }
        let is_truncated = is_full || self.output.len() > self.max_bytes;
        self.output.truncate(self.output.floor_char_boundary(self.max_bytes));
        (self.output, is_truncated)
    }

    /// Text outside of `<pre>`, in which whitespace is collapsed.
    pub(super) fn text(&mut self, text: &str) {
        if let Some(block) = &mut self.code_block {
            // HTML ignores a line break right after the tag.
            let text = if block.text.is_empty() { text.strip_prefix('\n').unwrap_or(text) } else { text };
            block.text.push_str(text);
            return;
        }
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            if character.is_whitespace() {
                rest = rest.trim_start();
                self.pending = self.pending.max(Break::Space);
            } else {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                let (word, after) = rest.split_at(end);
                self.literal(word);
                rest = after;
            }
        }
    }

    /// Text written unchanged, on the current line.
    pub(super) fn literal(&mut self, text: &str) {
        if let Some(block) = &mut self.code_block {
            block.text.push_str(text);
            return;
        }
        self.write_break();
        self.begin_elements();
        self.output.push_str(text);
    }

    /// Requests a break before the next text. Headings and links stay on one line.
    pub(super) fn request(&mut self, wanted: Break) {
        if let Some(block) = &mut self.code_block {
            if wanted >= Break::Line && !block.text.is_empty() && !block.text.ends_with('\n') {
                block.text.push('\n');
            }
            return;
        }
        let stays_on_line = |open: &OpenElement| matches!(open.element, Element::Heading(_) | Element::Link { .. });
        if wanted >= Break::Line && self.inline().iter().any(stays_on_line) {
            self.pending = self.pending.max(Break::Space);
            return;
        }
        if wanted >= Break::Line {
            self.close_all_inline();
        }
        // A paragraph at the start of an item begins on the item's line.
        let begins_item = matches!(self.innermost_block(), Some(Element::Item { is_marked: false, .. }));
        self.pending = self.pending.max(if begins_item { wanted.min(Break::Line) } else { wanted });
    }

    /// `<br>`: two in a row produce a blank line.
    pub(super) fn line_break(&mut self) {
        match &mut self.code_block {
            Some(block) => block.text.push('\n'),
            None if self.pending >= Break::Line => self.request(Break::Blank),
            None => self.request(Break::Line),
        }
    }

    pub(super) fn rule(&mut self) {
        self.close_all_inline();
        self.request(Break::Blank);
        self.literal("---");
        self.request(Break::Blank);
    }

    /// Opens a block.
    pub(super) fn open(&mut self, element: Element) {
        if self.code_block.is_some() {
            return;
        }
        // A heading in a link is only text, and a heading that was not closed ends here.
        if matches!(element, Element::Heading(_)) && self.inline().iter().any(|open| is_link(&open.element)) {
            return self.request(Break::Space);
        }
        self.close_all_inline();
        let is_nested_list = matches!(element, Element::List { .. }) && self.innermost_block().is_some_and(is_item);
        self.request(if is_nested_list { Break::Line } else { Break::Blank });
        self.push(element);
    }

    /// Closes the innermost block that matches and all elements opened in it; does nothing if there is none.
    pub(super) fn close(&mut self, fits: impl Fn(&Element) -> bool) {
        let cell = self.cell_index();
        let Some(index) = self.open.iter().rposition(|open| fits(&open.element)).filter(|index| *index >= cell) else {
            return;
        };
        self.pop_to(index);
        let is_in_item = self.innermost_block().is_some_and(is_item);
        self.request(if is_in_item { Break::Line } else { Break::Blank });
    }

    pub(super) fn open_item(&mut self) {
        self.close_item();
        self.close_all_inline();
        let marker = match self.open.last_mut().map(|open| &mut open.element) {
            Some(Element::List { next: Some(number) }) => {
                let marker = format!("{number}. ");
                *number = number.saturating_add(1);
                marker
            }
            _ => "- ".to_owned(),
        };
        self.request(Break::Line);
        self.push(Element::Item { marker, is_marked: false });
    }

    /// A term of a description list.
    pub(super) fn open_term(&mut self) {
        self.close_item();
        self.request(Break::Line);
    }

    pub(super) fn open_description(&mut self) {
        self.close_item();
        self.close_all_inline();
        self.request(Break::Line);
        self.push(Element::Item { marker: ": ".to_owned(), is_marked: false });
    }

    /// Closes the item of the innermost list.
    pub(super) fn close_item(&mut self) {
        let stop = self.open.iter().rposition(|open| {
            matches!(
                open.element,
                Element::List { .. } | Element::Item { .. } | Element::Cell { .. } | Element::Table(_)
            )
        });
        if let Some(index) = stop
            && self.open.get(index).is_some_and(|open| is_item(&open.element))
        {
            self.pop_to(index);
            self.request(Break::Line);
        }
    }

    pub(super) fn open_code_block(&mut self, language: Option<String>) {
        if self.code_block.is_none() {
            self.close_all_inline();
            self.request(Break::Blank);
            self.code_block = Some(CodeBlock { text: String::new(), language });
        }
    }

    /// `<pre><code class="language-x">` names the language inside.
    pub(super) fn code_language(&mut self, language: Option<String>) {
        if let Some(block) = &mut self.code_block
            && block.text.is_empty()
            && language.is_some()
        {
            block.language = language;
        }
    }

    pub(super) fn close_code_block(&mut self) {
        let Some(CodeBlock { text, language }) = self.code_block.take() else { return };
        let text = text.trim_end();
        if text.is_empty() {
            return;
        }
        let fence = "`".repeat(longest_backticks(text).max(2) + 1);
        self.write_lines(&format!("{fence}{}\n{text}\n{fence}", language.unwrap_or_default()));
        self.request(Break::Blank);
    }

    pub(super) fn open_inline(&mut self, element: Element) {
        let is_in_code = self.inline().iter().any(|open| matches!(open.element, Element::Code { .. }));
        if self.code_block.is_none() && !is_in_code {
            self.push(element);
        }
    }

    /// Closes the innermost inline element that fits, and those opened in it.
    pub(super) fn close_inline(&mut self, fits: impl Fn(&Element) -> bool) {
        let first = self.open.len() - self.inline().len();
        if let Some(index) = self.open.iter().rposition(|open| fits(&open.element)).filter(|index| *index >= first) {
            self.pop_to(index);
        }
    }

    pub(super) fn close_link(&mut self) {
        self.close_inline(is_link);
    }

    /// Writes each line of `text` on a line of its own.
    fn write_lines(&mut self, text: &str) {
        for line in text.lines() {
            if self.is_full() {
                break;
            }
            self.write_break();
            self.output.push_str(line);
            self.pending = Break::Line;
        }
    }

    fn write_break(&mut self) {
        let is_at_start = self.output.len() == self.text_start();
        match std::mem::replace(&mut self.pending, Break::None) {
            _ if is_at_start => self.write_prefix(),
            Break::None => {}
            Break::Space => self.output.push(' '),
            Break::Line => {
                self.output.push('\n');
                self.write_prefix();
            }
            Break::Blank => {
                self.output.push('\n');
                // A quote continues across a blank line.
                let quotes = self.line_elements().iter().filter(|open| matches!(open.element, Element::Quote)).count();
                self.output.push_str(">".repeat(quotes).as_str());
                self.output.push('\n');
                self.write_prefix();
            }
        }
    }

    /// Marks of quotes and items at the beginning of a line.
    fn write_prefix(&mut self) {
        let first = self.cell_index();
        for open in self.open.iter_mut().skip(first) {
            match &mut open.element {
                Element::Quote => self.output.push_str("> "),
                Element::Item { marker, is_marked: false } => self.output.push_str(marker),
                Element::Item { marker, is_marked: true } => self.output.push_str(&" ".repeat(marker.len())),
                Element::Heading(_)
                | Element::List { .. }
                | Element::Strong
                | Element::Emphasis
                | Element::Link { .. }
                | Element::Code { .. }
                | Element::Table(_)
                | Element::Cell { .. } => {}
            }
            if let Element::Item { is_marked, .. } = &mut open.element {
                *is_marked = true;
            }
        }
    }

    /// Opening marks of elements that have no text yet.
    fn begin_elements(&mut self) {
        for open in self.open.iter_mut().filter(|open| !open.is_begun) {
            open.is_begun = true;
            match &mut open.element {
                Element::Heading(level) => {
                    self.output.push_str(&"#".repeat(*level));
                    self.output.push(' ');
                }
                Element::Strong => self.output.push_str("**"),
                Element::Emphasis => self.output.push('*'),
                Element::Link { .. } => self.output.push('['),
                Element::Code { start } => *start = Some(self.output.len()),
                Element::Quote
                | Element::List { .. }
                | Element::Item { .. }
                | Element::Table(_)
                | Element::Cell { .. } => {}
            }
        }
    }

    fn push(&mut self, element: Element) {
        if self.open.len() < MAX_OPEN {
            self.open.push(OpenElement { element, is_begun: false });
        }
    }

    fn pop_to(&mut self, index: usize) {
        while self.open.len() > index {
            self.pop();
        }
    }

    fn pop(&mut self) {
        let Some(OpenElement { element, is_begun }) = self.open.pop() else { return };
        match element {
            Element::Strong if is_begun => self.output.push_str("**"),
            Element::Emphasis if is_begun => self.output.push('*'),
            Element::Link { url } if is_begun => self.output.push_str(&format!("]({url})")),
            Element::Code { start: Some(start) } => {
                let text = self.output.split_off(start);
                let fence = "`".repeat(longest_backticks(&text) + 1);
                let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
                self.output.push_str(&format!("{fence}{space}{text}{space}{fence}"));
            }
            Element::Cell { start, before } => self.end_cell(start, before),
            Element::Table(table) => self.end_table(table),
            Element::Heading(_) => self.pending = self.pending.max(Break::Blank),
            Element::Strong
            | Element::Emphasis
            | Element::Link { .. }
            | Element::Code { start: None }
            | Element::Quote
            | Element::List { .. }
            | Element::Item { .. } => {}
        }
    }

    /// The open elements of the current line: those since the innermost block, a heading among them.
    fn inline(&self) -> &[OpenElement] {
        let blocks = self.open.iter().rposition(|open| is_block(&open.element)).map_or(0, |index| index + 1);
        self.open.get(blocks..).unwrap_or_default()
    }

    fn close_all_inline(&mut self) {
        self.pop_to(self.open.len() - self.inline().len());
    }

    fn innermost_block(&self) -> Option<&Element> {
        self.open.iter().map(|open| &open.element).rfind(|element| is_block(element))
    }

    /// Index of the first element that affects line prefixes: elements around a cell do not affect its content.
    fn cell_index(&self) -> usize {
        self.open.iter().rposition(|open| matches!(open.element, Element::Cell { .. })).map_or(0, |index| index + 1)
    }

    fn line_elements(&self) -> &[OpenElement] {
        self.open.get(self.cell_index()..).unwrap_or_default()
    }

    /// Offset at which the text of the current cell, or of the page, begins.
    fn text_start(&self) -> usize {
        let cell = self.cell_index().checked_sub(1).and_then(|index| self.open.get(index));
        match cell.map(|open| &open.element) {
            Some(Element::Cell { start, .. }) => *start,
            _ => 0,
        }
    }
}

fn is_block(element: &Element) -> bool {
    match element {
        Element::Quote | Element::List { .. } | Element::Item { .. } | Element::Table(_) | Element::Cell { .. } => true,
        Element::Heading(_) | Element::Strong | Element::Emphasis | Element::Link { .. } | Element::Code { .. } => {
            false
        }
    }
}

fn is_item(element: &Element) -> bool {
    matches!(element, Element::Item { .. })
}

fn is_link(element: &Element) -> bool {
    matches!(element, Element::Link { .. })
}

fn longest_backticks(text: &str) -> usize {
    text.split(|character| character != '`').map(str::len).max().unwrap_or(0)
}
