//! As much of an HTTP request as the instant model has to understand.

/// The length of the first request, once all of it is there.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    let head_length = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = bytes.get(..head_length)?;
    let length = head_length + body_length(head).unwrap_or(0);
    (bytes.len() >= length).then_some(length)
}

fn body_length(head: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"content-length:";
    let mut lines = head.split(|byte| *byte == b'\n');
    let line = lines.find(|line| line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME)))?;
    std::str::from_utf8(line.get(NAME.len()..)?).ok()?.trim().parse().ok()
}

/// The name of the model, which stands first in the body of a well-behaved client.
pub(super) fn model(request: &[u8]) -> Option<&[u8]> {
    const MODEL: &[u8] = b"\"model\":\"";
    let at = request.windows(MODEL.len()).position(|window| window == MODEL)?;
    let name = request.get(at + MODEL.len()..)?;
    name.get(..name.iter().position(|byte| *byte == b'"')?)
}

#[cfg(test)]
mod tests;
