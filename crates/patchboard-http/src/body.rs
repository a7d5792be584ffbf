//! Bounded reading of response bodies.

use reqwest::Response;

/// Where reading stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyEnd {
    Complete,
    /// The body is longer than the limit; the bytes up to it were read.
    Cut,
}

/// Appends the body to `into` until its end or until `into` holds `limit` bytes. Bytes read before an error, or before
/// the future is dropped, stay in `into`.
pub async fn read_body(response: &mut Response, limit: usize, into: &mut Vec<u8>) -> Result<BodyEnd, reqwest::Error> {
    while let Some(chunk) = response.chunk().await? {
        let room = limit.saturating_sub(into.len());
        match chunk.get(..room) {
            Some(fitting) if fitting.len() < chunk.len() => {
                into.extend_from_slice(fitting);
                return Ok(BodyEnd::Cut);
            }
            Some(_) | None => into.extend_from_slice(&chunk),
        }
    }
    Ok(BodyEnd::Complete)
}

#[cfg(test)]
mod tests;
