//! Path patterns: `*` and `?` match within a name, `**` matches any number of folders, `[a-z]` and `{a,b}` are
//! alternatives.
//!
//! Patterns are translated to regular expressions of a linear-time engine, so no pattern can stall a call.

use regex::{Regex, RegexBuilder};

use crate::text::quoted;

/// The schemas of the tools refuse longer patterns.
pub(super) const MAX_PATTERN_CHARACTERS: usize = 500;
/// A pattern whose compiled form needs more memory is refused.
const MAX_COMPILED_BYTES: usize = 1024 * 1024;
/// Deeper nesting of `{…{…}…}` is refused.
const MAX_NESTING: usize = 8;

#[derive(Debug)]
pub(super) struct PathPattern {
    regex: Regex,
    /// Leading folder names without wildcards: other folders need not be searched.
    fixed_folders: Vec<String>,
    has_folders: bool,
}

impl PathPattern {
    /// The error is a message for the model.
    pub(super) fn new(pattern: &str) -> Result<Self, String> {
        let trimmed = pattern.trim_start_matches("./");
        if trimmed.starts_with('/') {
            return Err(format!("{} is absolute: patterns are relative to the folder searched", quoted(pattern)));
        }
        if trimmed.split('/').any(|name| name == "..") {
            return Err(format!("{} holds `..`, which leads out of the folder searched", quoted(pattern)));
        }
        let wrong = |reason: &str| format!("{} is not a pattern: {reason}", quoted(pattern));
        let source = RegexTranslator::of(trimmed).map_err(wrong)?;
        let regex = RegexBuilder::new(&source).size_limit(MAX_COMPILED_BYTES).build();
        let regex = regex.map_err(|_| wrong("it is too large"))?;
        let names: Vec<&str> = trimmed.split('/').collect();
        let folders = names.split_last().map_or(&[][..], |(_, folders)| folders);
        let way =
            folders.iter().take_while(|name| !name.contains(['*', '?', '[', '{', '\\'])).map(|name| (*name).to_owned());
        Ok(Self { regex, fixed_folders: way.collect(), has_folders: !folders.is_empty() })
    }

    /// Matches the whole path, relative to the searched folder.
    pub(super) fn matches(&self, path: &str) -> bool {
        self.regex.is_match(path)
    }

    /// Matches as a filter: a pattern without folders applies to file names at any depth.
    pub(super) fn matches_filter(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.matches(if self.has_folders { path } else { name })
    }

    /// The folder name that the pattern requires at this depth.
    pub(super) fn required_folder(&self, depth: usize) -> Option<&str> {
        self.fixed_folders.get(depth).map(String::as_str)
    }
}

/// Translates a pattern to a regular expression.
struct RegexTranslator<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    regex: String,
    open_choices: usize,
    /// At the beginning of the pattern or after `/`.
    begins_name: bool,
}

impl<'a> RegexTranslator<'a> {
    fn of(pattern: &'a str) -> Result<String, &'static str> {
        let rest = pattern.chars().peekable();
        let mut translation = Self { rest, regex: r"(?s)\A".to_owned(), open_choices: 0, begins_name: true };
        while let Some(character) = translation.rest.next() {
            translation.take(character)?;
        }
        if translation.open_choices > 0 {
            return Err("a `{` is not closed");
        }
        Ok(translation.regex + r"\z")
    }

    fn take(&mut self, character: char) -> Result<(), &'static str> {
        let began_name = std::mem::replace(&mut self.begins_name, character == '/');
        match character {
            '*' if self.rest.next_if_eq(&'*').is_some() => {
                while self.rest.next_if_eq(&'*').is_some() {}
                if began_name && self.rest.next_if_eq(&'/').is_some() {
                    self.regex.push_str("(?:.*/)?");
                    self.begins_name = true;
                } else {
                    self.regex.push_str(".*");
                }
            }
            '*' => self.regex.push_str("[^/]*"),
            '?' => self.regex.push_str("[^/]"),
            '[' => self.class()?,
            '{' => {
                self.open_choices += 1;
                if self.open_choices > MAX_NESTING {
                    return Err("`{` is nested too deeply");
                }
                self.regex.push_str("(?:");
                self.begins_name = began_name;
            }
            '}' if self.open_choices > 0 => {
                self.open_choices -= 1;
                self.regex.push(')');
            }
            ',' if self.open_choices > 0 => self.regex.push('|'),
            '\\' => match self.rest.next() {
                Some(escaped) => self.literal(escaped),
                None => return Err("nothing follows `\\`"),
            },
            other => self.literal(other),
        }
        Ok(())
    }

    fn class(&mut self) -> Result<(), &'static str> {
        let is_negated = self.rest.next_if(|character| matches!(character, '!' | '^')).is_some();
        self.regex.push_str(if is_negated { "[^/" } else { "[" });
        let mut is_first = true;
        loop {
            let from = match self.rest.next() {
                Some(']') if !is_first => break,
                Some('\\') => self.rest.next(),
                other => other,
            };
            let from = from.ok_or("a `[` is not closed")?;
            is_first = false;
            self.literal(from);
            if self.rest.next_if_eq(&'-').is_some() {
                match self.rest.next() {
                    Some(']') => {
                        self.literal('-');
                        break;
                    }
                    Some(to) if from <= to => {
                        self.regex.push('-');
                        self.literal(to);
                    }
                    Some(_) => return Err("a range in `[…]` runs backwards"),
                    None => return Err("a `[` is not closed"),
                }
            }
        }
        self.regex.push(']');
        Ok(())
    }

    fn literal(&mut self, character: char) {
        self.regex.push_str(&regex::escape(character.encode_utf8(&mut [0; 4])));
    }
}

#[cfg(test)]
mod tests;
