//! HTML as Markdown for a model: headings, paragraphs, lists, links, emphasis, code, quotes and tables. Pure.
//!
//! The tokenizer is `html5gum`; no tree of the page is built and nothing recurses, so time and memory grow with the page's
//! size alone, however deeply or wrongly its tags are nested. Text is not escaped: its reader needs no exact rendering.

use html5gum::{DefaultEmitter, HtmlString, StartTag, Token, Tokenizer};
use patchboard_http::Url;

mod writer;

use writer::{Break, Element, MarkdownWriter};

/// Longer addresses are dropped, and their text is kept. Images embedded as `data:` addresses are the usual case.
const MAX_URL_BYTES: usize = 2000;

/// A page in Markdown, its title first.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MarkdownPage {
    pub(super) text: String,
    /// The rest was omitted at the size limit.
    pub(super) is_truncated: bool,
}

/// At most about `max_bytes` of Markdown. Links are made absolute if `page_url` is valid.
pub(super) fn to_markdown(html: &str, page_url: &str, max_bytes: usize) -> MarkdownPage {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let mut converter = Converter {
        writer: MarkdownWriter::new(max_bytes),
        page_url: Url::parse(page_url).ok(),
        skipped: None,
        title: PageTitle::Awaited,
    };
    for Ok(token) in Tokenizer::new_with_emitter(html, emitter) {
        if converter.writer.is_full() {
            break;
        }
        match token {
            Token::StartTag(tag) => converter.start(&tag),
            Token::EndTag(tag) => converter.end(&text_of(&tag.name)),
            Token::String(text) => converter.text(&text_of(&text.value)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
    }
    converter.finish()
}

struct Converter {
    writer: MarkdownWriter,
    page_url: Option<Url>,
    skipped: Option<SkippedElement>,
    title: PageTitle,
}

/// An element without readable text, with the number of open elements of that name.
struct SkippedElement {
    name: String,
    depth: usize,
}

enum PageTitle {
    Awaited,
    Open,
    Read(String),
}

/// Elements whose whole content is omitted.
fn is_skipped(name: &str) -> bool {
    matches!(
        name,
        "script"
            | "style"
            | "noscript"
            | "template"
            | "svg"
            | "nav"
            | "iframe"
            | "noembed"
            | "object"
            | "canvas"
            | "audio"
            | "video"
            | "select"
            | "datalist"
            | "textarea"
    )
}

impl Converter {
    fn start(&mut self, tag: &StartTag<()>) {
        let name = text_of(&tag.name);
        if let Some(skipped) = &mut self.skipped {
            if name == skipped.name {
                skipped.depth += 1;
            }
            // If the end tag is missing, the page's own content must not be lost with the element.
            if !matches!(name.as_str(), "main" | "article" | "body") {
                return;
            }
            self.skipped = None;
        }
        if is_skipped(&name) {
            // Of these, only elements of SVG can be closed by `/>`.
            if !(tag.self_closing && name == "svg") {
                self.skipped = Some(SkippedElement { name, depth: 1 });
            }
            return;
        }
        let writer = &mut self.writer;
        match name.as_str() {
            "title" => match self.title {
                PageTitle::Awaited => self.title = PageTitle::Open,
                PageTitle::Open | PageTitle::Read(_) => self.skipped = Some(SkippedElement { name, depth: 1 }),
            },
            "br" => writer.line_break(),
            "hr" => writer.rule(),
            "p" => writer.request(Break::Blank),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => writer.open(Element::Heading(heading_level(&name))),
            "ul" | "menu" | "dir" | "dl" => writer.open(Element::List { next: None }),
            "ol" => {
                let start = attribute(tag, "start").and_then(|start| start.trim().parse::<u32>().ok());
                writer.open(Element::List { next: Some(start.unwrap_or(1)) });
            }
            "li" => writer.open_item(),
            "dt" => writer.open_term(),
            "dd" => writer.open_description(),
            "blockquote" => writer.open(Element::Quote),
            "pre" | "xmp" | "listing" | "plaintext" => writer.open_code_block(language(tag)),
            "code" | "kbd" | "samp" | "tt" => {
                writer.code_language(language(tag));
                writer.open_inline(Element::Code { start: None });
            }
            "b" | "strong" => writer.open_inline(Element::Strong),
            "i" | "em" => writer.open_inline(Element::Emphasis),
            "a" => {
                writer.close_link();
                if let Some(url) = attribute(tag, "href").and_then(|href| self.absolute(&href)) {
                    self.writer.open_inline(Element::Link { url });
                }
            }
            "img" => {
                let alt = attribute(tag, "alt").unwrap_or_default();
                let alt = alt.split_whitespace().collect::<Vec<_>>().join(" ");
                let url = attribute(tag, "src").and_then(|source| self.absolute(&source));
                if let (false, Some(url)) = (alt.is_empty(), url) {
                    self.writer.literal(&format!("![{alt}]({url})"));
                }
            }
            "table" => writer.open_table(),
            "tr" => writer.open_row(),
            "th" => writer.open_cell(true),
            "td" => writer.open_cell(false),
            other if is_block(other) => writer.request(Break::Line),
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        if let Some(skipped) = &mut self.skipped {
            if name == skipped.name {
                skipped.depth -= 1;
                if skipped.depth == 0 {
                    self.skipped = None;
                }
            }
            return;
        }
        let writer = &mut self.writer;
        match name {
            "title" => {
                if matches!(self.title, PageTitle::Open) {
                    self.title = PageTitle::Read(String::new());
                }
            }
            "br" => writer.line_break(),
            "p" => writer.request(Break::Blank),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => writer.close(|open| matches!(open, Element::Heading(_))),
            "ul" | "ol" | "menu" | "dir" | "dl" => writer.close(|open| matches!(open, Element::List { .. })),
            "li" | "dd" => writer.close_item(),
            "blockquote" => writer.close(|open| matches!(open, Element::Quote)),
            "pre" | "xmp" | "listing" => writer.close_code_block(),
            "code" | "kbd" | "samp" | "tt" => writer.close_inline(|open| matches!(open, Element::Code { .. })),
            "b" | "strong" => writer.close_inline(|open| matches!(open, Element::Strong)),
            "i" | "em" => writer.close_inline(|open| matches!(open, Element::Emphasis)),
            "a" => writer.close_link(),
            "table" => writer.close_table(),
            "tr" => writer.close_row(),
            "th" | "td" => writer.close_cell(),
            other if is_block(other) => writer.request(Break::Line),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.skipped.is_some() {
            return;
        }
        match self.title {
            PageTitle::Open => self.title = PageTitle::Read(text.split_whitespace().collect::<Vec<_>>().join(" ")),
            PageTitle::Awaited | PageTitle::Read(_) => self.writer.text(text),
        }
    }

    fn finish(self) -> MarkdownPage {
        let (body, is_truncated) = self.writer.finish();
        let text = match self.title {
            PageTitle::Read(title) if !title.is_empty() => format!("Title: {title}\n\n{body}").trim_end().to_owned(),
            PageTitle::Awaited | PageTitle::Open | PageTitle::Read(_) => body,
        };
        MarkdownPage { text, is_truncated }
    }

    /// `None` for addresses that a reader cannot follow.
    fn absolute(&self, address: &str) -> Option<String> {
        let address = address.trim();
        if address.is_empty() || address.starts_with('#') || address.len() > MAX_URL_BYTES {
            return None;
        }
        let url = match &self.page_url {
            Some(page) => page.join(address).ok()?,
            None => Url::parse(address).ok()?,
        };
        let is_followed = matches!(url.scheme(), "http" | "https" | "ftp" | "mailto" | "tel");
        is_followed.then(|| url.as_str().replace('(', "%28").replace(')', "%29"))
    }
}

/// Elements that begin and end a line of their own.
fn is_block(name: &str) -> bool {
    matches!(
        name,
        "address"
            | "article"
            | "aside"
            | "body"
            | "caption"
            | "center"
            | "details"
            | "dialog"
            | "div"
            | "dt"
            | "fieldset"
            | "figcaption"
            | "figure"
            | "footer"
            | "form"
            | "header"
            | "hgroup"
            | "html"
            | "legend"
            | "main"
            | "option"
            | "search"
            | "section"
            | "summary"
            | "tbody"
            | "tfoot"
            | "thead"
    )
}

fn heading_level(name: &str) -> usize {
    name.bytes().last().map_or(1, |digit| usize::from(digit.saturating_sub(b'0')))
}

/// The language of a code block, as highlighters put it in `class`.
fn language(tag: &StartTag<()>) -> Option<String> {
    let classes = attribute(tag, "class")?;
    let mut named = classes.split_whitespace().filter_map(|class| {
        class
            .strip_prefix("language-")
            .or_else(|| class.strip_prefix("lang-"))
            .or_else(|| class.strip_prefix("highlight-source-"))
    });
    let name = named.next()?;
    let is_plain = name.len() <= 30
        && name.chars().all(|character| character.is_ascii_alphanumeric() || "+-#_.".contains(character));
    is_plain.then(|| name.to_owned())
}

fn attribute(tag: &StartTag<()>, name: &str) -> Option<String> {
    tag.attributes.get(name.as_bytes()).map(|value| text_of(&value.value))
}

fn text_of(bytes: &HtmlString) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests;
