//! Maps the indentation in an edit to the indentation in the text, so that new lines are indented like the text.

use std::collections::BTreeMap;

/// From indentations in the edit to those in the text.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::builtin) struct IndentMap<'a> {
    replacements: BTreeMap<&'a str, &'a str>,
}

impl<'a> IndentMap<'a> {
    /// `None` if one indentation of the edit corresponds to two in the text: then the indentation of new lines is
    /// unclear.
    pub(in crate::builtin) fn from_pairs(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Option<Self> {
        let mut real = BTreeMap::new();
        for (told, there) in pairs.filter(|(told, there)| !told.trim().is_empty() && !there.trim().is_empty()) {
            let (told, there) = (indentation(told), indentation(there));
            if *real.entry(told).or_insert(there) != there {
                return None;
            }
        }
        Some(Self { replacements: real })
    }

    /// Re-indents a new line, as far as its indentation is known.
    pub(in crate::builtin) fn apply(&self, line: &str) -> String {
        if line.trim().is_empty() {
            return line.to_owned();
        }
        let told = indentation(line);
        let known = self.replacements.iter().filter(|(known, _)| told.starts_with(**known));
        match known.max_by_key(|(known, _)| known.len()) {
            Some((known, there)) => format!("{there}{}", line.get(known.len()..).unwrap_or_default()),
            None => line.to_owned(),
        }
    }
}

fn indentation(line: &str) -> &str {
    let rest = line.trim_start_matches([' ', '\t']);
    line.get(..line.len() - rest.len()).unwrap_or_default()
}
