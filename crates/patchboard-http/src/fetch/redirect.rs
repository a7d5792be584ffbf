//! Builds the next request after a redirect. Pure.

use patchboard_core::port::FetchError;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION, CONTENT_TYPE,
    HeaderMap, HeaderName, LOCATION, USER_AGENT,
};
use reqwest::{Method, StatusCode};

use super::outgoing::{OutgoingRequest, read_url};

/// Headers that may be sent to another origin. Any other header may contain a secret, whatever its name.
const CROSS_ORIGIN_HEADERS: [HeaderName; 7] =
    [ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, USER_AGENT];
/// Headers of the body, removed when the body is not sent again.
const BODY_HEADERS: [HeaderName; 4] = [CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION, CONTENT_TYPE];

/// Returns `None` if the response is final.
pub(super) fn redirect_request(
    from: &OutgoingRequest,
    status: StatusCode,
    answer: &HeaderMap,
) -> Result<Option<OutgoingRequest>, FetchError> {
    let keeps_method = match status {
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => from.method != Method::POST,
        StatusCode::SEE_OTHER => matches!(from.method, Method::GET | Method::HEAD),
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
        _ => return Ok(None),
    };
    let Some(location) = answer.get(LOCATION) else { return Ok(None) };
    let location = std::str::from_utf8(location.as_bytes())
        .map_err(|_| FetchError::Failed("the answer points to a URL that cannot be read".to_owned()))?;
    let url = read_url(location, Some(&from.url))
        .map_err(|why| FetchError::Refused(format!("the redirect is not followed: {why}")))?;
    let mut next = OutgoingRequest { url, ..from.clone() };
    if !keeps_method {
        next.method = Method::GET;
        next.body = None;
        for name in &BODY_HEADERS {
            next.headers.remove(name);
        }
    }
    if next.url.origin() != from.url.origin() {
        let (mut all, mut kept) = (std::mem::take(&mut next.headers), HeaderMap::new());
        for name in CROSS_ORIGIN_HEADERS {
            if let Some(value) = all.remove(&name) {
                kept.insert(name, value);
            }
        }
        next.headers = kept;
    }
    Ok(Some(next))
}

#[cfg(test)]
mod tests;
