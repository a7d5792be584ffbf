//! Direct address: `name: text` and `name, text`.

/// Splits a text into the leading name and the rest. The name must stand at the very beginning, begin with an ASCII
/// letter and go on with ASCII letters, digits, `-` and `_`; `:` or `,` must follow directly, and the rest must not be
/// empty.
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
