//! The id of a request that is broken elsewhere. Looks at strings, brackets, colons and commas only, so that it sees
//! past whatever is wrong with the rest.

/// The first string under the key `id` at the top level.
pub(super) fn recover_id(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut depth = 0usize;
    let mut before = PrecedingToken::Nothing;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => {
                let end = string_end(bytes, at)?;
                let string = text.get(at - 1..end)?;
                at = end;
                before = match before {
                    PrecedingToken::IdColon => return serde_json::from_str(string).ok(),
                    PrecedingToken::Nothing if depth == 1 && is_id(string) => PrecedingToken::Id,
                    PrecedingToken::Nothing | PrecedingToken::Id => PrecedingToken::Nothing,
                };
            }
            b'{' | b'[' => {
                // The id of the first element of an array is not the request's.
                if depth == 0 && byte == b'[' {
                    return None;
                }
                depth += 1;
                before = PrecedingToken::Nothing;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                before = PrecedingToken::Nothing;
            }
            b':' if before == PrecedingToken::Id => before = PrecedingToken::IdColon,
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => before = PrecedingToken::Nothing,
        }
    }
    None
}

/// What stands right before the present place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PrecedingToken {
    Nothing,
    Id,
    IdColon,
}

/// Where the string that begins before `at` ends, its closing quote included.
fn string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

fn is_id(string: &str) -> bool {
    // Each letter may be written as an escape of six bytes; nothing longer can mean `id`.
    string.len() <= 14 && serde_json::from_str::<String>(string).is_ok_and(|key| key == "id")
}
