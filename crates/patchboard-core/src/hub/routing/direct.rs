//! `name: text` and `name, text`.

/// The name a text begins with and the words after it. The name stands at the very beginning, begins with an ASCII
/// letter and goes on with letters, digits, `-` and `_`; `:` or `,` follows at once; something must be left to say.
pub fn split_address(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|character: char| !(character.is_ascii_alphanumeric() || matches!(character, '-' | '_')))?;
    let (name, after) = text.split_at(end);
    if !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return None;
    }
    let rest = after.strip_prefix([':', ','])?.trim();
    (!rest.is_empty()).then_some((name, rest))
}

#[cfg(test)]
mod tests;
