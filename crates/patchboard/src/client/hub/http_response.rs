//! Parses a complete HTTP/1.1 response.

use serde::Deserialize;
use serde_json::Value;

use super::HubError;

/// The body of a successful response, or the error of another one.
pub(super) fn parse_response(bytes: &[u8]) -> Result<Value, HubError> {
    let (status, body) = split_response(bytes).map_err(|why| HubError::Unreadable(why.to_owned()))?;
    if (200..300).contains(&status) {
        if body.is_empty() {
            return Ok(Value::Null);
        }
        return serde_json::from_slice(&body).map_err(|error| HubError::Unreadable(error.to_string()));
    }
    Err(HubError::Refused { status, message: error_message(status, &body) })
}

/// The hub's error message. Layers in front of the hub send plain text.
fn error_message(status: u16, body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct ErrorBody {
        error: ErrorDetails,
    }
    #[derive(Deserialize)]
    struct ErrorDetails {
        message: String,
    }
    if let Ok(wrong) = serde_json::from_slice::<ErrorBody>(body) {
        return wrong.error.message;
    }
    let text = String::from_utf8_lossy(body);
    match text.lines().next().map(str::trim) {
        Some(line) if !line.is_empty() => line.chars().take(300).collect(),
        Some(_) | None => format!("the hub refused with status {status}"),
    }
}

fn split_response(bytes: &[u8]) -> Result<(u16, Vec<u8>), &'static str> {
    const END: &[u8] = b"\r\n\r\n";
    let end = bytes.windows(END.len()).position(|window| window == END).ok_or("it has no end of its head")?;
    let (head, rest) = bytes.split_at(end);
    let body = rest.get(END.len()..).unwrap_or_default();
    let head = std::str::from_utf8(head).map_err(|_| "its head is not text")?;
    let mut lines = head.split("\r\n");
    let status = lines.next().filter(|line| line.starts_with("HTTP/1.")).ok_or("it is not HTTP")?;
    let status = status.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or("it has no status")?;
    let header = |name: &str| {
        lines.clone().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    };
    if header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        return Ok((status, decode_chunked(body).ok_or("it was cut short")?));
    }
    let body = match header("content-length") {
        Some(length) => {
            let length: usize = length.parse().map_err(|_| "its length is not a number")?;
            body.get(..length).ok_or("it was cut short")?
        }
        None => body,
    };
    Ok((status, body.to_owned()))
}

/// Decodes a chunked body; `None` if the last chunk is missing.
fn decode_chunked(mut chunks: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = chunks.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(chunks.get(..end)?).ok()?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        chunks = chunks.get(end + 2..)?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(chunks.get(..size)?);
        chunks = chunks.get(size..)?.strip_prefix(b"\r\n")?;
    }
}

#[cfg(test)]
mod tests;
