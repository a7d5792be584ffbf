//! Recovers the id of a malformed request. Considers only strings, brackets, colons and commas, so that it works
//! whatever else is malformed.

/// Returns the first string under the key `id` at the top level.
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
                // An id within an array does not belong to the request.
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

/// The token before the current position.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PrecedingToken {
    Nothing,
    Id,
    IdColon,
}

/// The end of the string whose content begins at `at`, closing quote included.
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
    // Each of the two letters may be a six-byte escape; no longer string can mean `id`.
    string.len() <= 14 && serde_json::from_str::<String>(string).is_ok_and(|key| key == "id")
}
