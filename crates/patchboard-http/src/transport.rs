//! Error texts of transport failures that are safe to show: the library's own text repeats the whole URL, which may
//! contain credentials.

use std::error::Error as _;
use std::io;

use patchboard_core::text::clipped;
use reqwest::{Error, Url};

const MAX_CAUSE_BYTES: usize = 200;

/// Host and port as written in the URL. Messages show nothing else of it, because the rest may contain credentials.
pub fn host_label(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    Some(match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}

/// Whether it failed before anything was sent, so that a retry cannot deliver twice.
pub fn is_unsent(error: &Error) -> bool {
    error.is_connect() || error.is_builder()
}

/// The kind of failure in a fixed phrase.
pub fn reason(error: &Error) -> &'static str {
    match is_unsent(error) {
        false => "connection closed before an answer",
        true if is_io(error, &[io::ErrorKind::ConnectionRefused]) => "connection refused",
        true if is_io(error, &[io::ErrorKind::HostUnreachable, io::ErrorKind::NetworkUnreachable]) => {
            "host unreachable"
        }
        true if error.is_timeout() => "connection timed out",
        true if error.is_dns() => "cannot resolve host name",
        true if causes(error).any(|cause| cause.is::<rustls::Error>()) => "TLS handshake failed",
        true => "connection failed",
    }
}

/// The innermost error alone: the outer ones repeat the attempted operation.
pub fn root_cause(error: &Error) -> String {
    let Some(mut cause) = error.source() else {
        return if error.is_timeout() { "it took too long" } else { "the request failed" }.to_owned();
    };
    while let Some(source) = cause.source() {
        cause = source;
    }
    clipped(&cause, MAX_CAUSE_BYTES)
}

/// All causes, down to the root. I/O errors hide the wrapped error from `source`.
fn causes(error: &Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(error.source(), |cause: &&(dyn std::error::Error + 'static)| {
        match cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => (*cause).source(),
        }
    })
}

fn is_io(error: &Error, kinds: &[io::ErrorKind]) -> bool {
    causes(error).filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|cause| kinds.contains(&cause.kind()))
}

#[cfg(test)]
mod tests;
