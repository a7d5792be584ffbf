//! Rust source with everything that is not code blanked out, so that a forbidden word in a comment or a message is no
//! finding. A scanner, not a parser: it knows comments, literals and lifetimes.

/// The same text with comments and the contents of string and character literals replaced by spaces.
/// Lines keep their numbers; columns may shift where a blanked character was not ASCII.
pub(crate) fn code_view(text: &str) -> String {
    let mut scanner = Scanner { text, at: 0, code: String::with_capacity(text.len()) };
    while scanner.at < text.len() {
        scanner.step();
    }
    scanner.code
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    code: String,
}

impl Scanner<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn step(&mut self) {
        let rest = self.rest();
        if rest.starts_with("//") {
            let length = rest.find('\n').unwrap_or(rest.len());
            self.blank(length);
        } else if rest.starts_with("/*") {
            let length = block_comment(rest);
            self.blank(length);
        } else if let Some(length) = raw_string(rest).filter(|_| !self.after_identifier()) {
            self.blank(length);
        } else if rest.starts_with('"') {
            let length = quoted(rest, '"');
            let closed = length > 1 && rest.get(..length).is_some_and(|literal| literal.ends_with('"'));
            self.keep(1);
            self.blank(length - 1 - usize::from(closed));
            self.keep(usize::from(closed));
        } else if is_character_literal(rest) {
            let length = quoted(rest, '\'');
            self.blank(length);
        } else {
            let length = rest.chars().next().map_or(1, char::len_utf8);
            self.keep(length);
        }
    }

    fn keep(&mut self, length: usize) {
        let end = (self.at + length).min(self.text.len());
        self.code.push_str(self.text.get(self.at..end).unwrap_or_default());
        self.at = end;
    }

    fn blank(&mut self, length: usize) {
        let end = (self.at + length).min(self.text.len());
        let blanked = self.text.get(self.at..end).unwrap_or_default();
        self.code.extend(blanked.chars().map(|character| if character == '\n' { '\n' } else { ' ' }));
        self.at = end;
    }

    /// `r"` ends an identifier in `bar"x"`, which only a macro could accept; `r#"` in `r#type` is no string at all.
    fn after_identifier(&self) -> bool {
        self.code.chars().next_back().is_some_and(|last| last.is_alphanumeric() || last == '_')
    }
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

/// The length of a raw string literal at the start of `text`, prefix and hashes included.
fn raw_string(text: &str) -> Option<usize> {
    let after_r = ["r", "br", "cr"].iter().find_map(|prefix| text.strip_prefix(prefix))?;
    let after_hashes = after_r.trim_start_matches('#');
    let hashes = after_r.len() - after_hashes.len();
    let body = after_hashes.strip_prefix('"')?;
    let terminator = format!("\"{}", "#".repeat(hashes));
    let body_length = body.find(&terminator).map_or(body.len(), |end| end + terminator.len());
    Some(text.len() - body.len() + body_length)
}

/// The length of a quoted literal at the start of `text`, both quotes included.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if character == '\\' {
            escaped = true;
        } else if character == quote {
            return at + 1;
        }
    }
    text.len()
}

/// `'x'` and `'\n'` are literals, `'a` is a lifetime.
fn is_character_literal(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next() == Some('\'')
        && match characters.next() {
            Some('\\') => true,
            Some(_) => characters.next() == Some('\''),
            None => false,
        }
}

#[cfg(test)]
mod tests;
