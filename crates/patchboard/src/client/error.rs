//! Why a connection to a server failed, in terms of the address the user typed.

use std::io;

use tokio_tungstenite::tungstenite::Error as Broken;
use tokio_tungstenite::tungstenite::error::UrlError;
use tokio_tungstenite::tungstenite::http::{StatusCode, Uri};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("`{0}` is not the address of a server")]
    BadAddress(String),
    #[error("encrypted connections such as `{0}` are not supported here")]
    NoTls(String),
    #[error("no server answers at {authority}: {why}")]
    Unreachable { authority: String, why: String },
    #[error("something answers at {authority}, but it is not Patchboard's {surface}")]
    WrongServer { authority: String, surface: &'static str },
    #[error("the server at {authority} wants a token")]
    TokenMissing { authority: String },
    #[error("the server at {authority} does not accept this token")]
    TokenRejected { authority: String },
    #[error("the server at {authority} refuses the connection ({status})")]
    Refused { authority: String, status: StatusCode },
}

impl ConnectError {
    /// What the user can do about it.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::BadAddress(_) => "write it like ws://127.0.0.1:7200",
            Self::NoTls(_) => "use ws:// or http://, over an SSH tunnel where the network is not your own",
            Self::Unreachable { .. } => {
                "is the server running, and is that its address? `patchboard doctor` shows the addresses of the one on \
                 this data directory"
            }
            Self::WrongServer { surface: "gateway", .. } => {
                "--url takes the address of the gateway; `patchboard doctor` shows the addresses of the server on this \
                 data directory"
            }
            Self::WrongServer { .. } => {
                "--url takes the address of the runs surface; `patchboard doctor` shows the addresses of the server on \
                 this data directory"
            }
            Self::TokenMissing { .. } => "set PATCHBOARD_TOKEN to it, or leave out --url to be the operator",
            Self::TokenRejected { .. } => {
                "PATCHBOARD_TOKEN must be what `gateway.token` of that server refers to; leave out --url to be the operator"
            }
            Self::Refused { .. } => "the server's log says why; it may not know itself by that name (`allowed_hosts`)",
        }
    }

    /// Whether a server answered and rejected the credentials.
    pub(crate) fn is_auth(&self) -> bool {
        matches!(self, Self::TokenMissing { .. } | Self::TokenRejected { .. } | Self::Refused { .. })
    }

    /// Whether the address itself is invalid.
    pub(crate) fn is_address(&self) -> bool {
        matches!(self, Self::BadAddress(_) | Self::NoTls(_))
    }

    /// Maps a failed WebSocket handshake.
    pub(super) fn from_handshake(error: Broken, url: &str, surface: &'static str, has_token: bool) -> Self {
        let authority = host_and_port(url);
        match error {
            Broken::Io(error) => Self::Unreachable { authority, why: io_reason(&error) },
            Broken::Url(UrlError::TlsFeatureNotEnabled) => Self::NoTls(url.to_owned()),
            Broken::Url(UrlError::UnableToConnect(_)) => {
                Self::Unreachable { authority, why: "it cannot be connected to".to_owned() }
            }
            Broken::Url(_) => Self::BadAddress(url.to_owned()),
            Broken::Http(answer) => match answer.status() {
                StatusCode::UNAUTHORIZED if has_token => Self::TokenRejected { authority },
                StatusCode::UNAUTHORIZED => Self::TokenMissing { authority },
                status @ (StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) => {
                    Self::Refused { authority, status }
                }
                _ => Self::WrongServer { authority, surface },
            },
            Broken::ConnectionClosed
            | Broken::AlreadyClosed
            | Broken::Tls(_)
            | Broken::Capacity(_)
            | Broken::Protocol(_)
            | Broken::WriteBufferFull(_)
            | Broken::Utf8(_)
            | Broken::AttackAttempt
            | Broken::HttpFormat(_) => Self::WrongServer { authority, surface },
        }
    }
}

/// `host:port` of an address, if it has one.
pub(super) fn host_and_port(url: &str) -> String {
    let authority = url.parse::<Uri>().ok().and_then(|uri| Some(uri.authority()?.to_string()));
    authority.unwrap_or_else(|| url.to_owned())
}

/// An I/O error as text, without the number of the system's error.
pub(crate) fn io_reason(error: &io::Error) -> String {
    const CLOSED: [io::ErrorKind; 3] =
        [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe, io::ErrorKind::UnexpectedEof];
    let kind = error.kind();
    if kind == io::ErrorKind::ConnectionRefused {
        return "nobody listens there".to_owned();
    }
    if kind == io::ErrorKind::TimedOut {
        return "it took too long".to_owned();
    }
    if CLOSED.contains(&kind) {
        return "it was closed at the other end".to_owned();
    }
    let text = error.to_string();
    if text.starts_with("failed to lookup address") {
        return "there is no machine of that name".to_owned();
    }
    text.split_once(" (os error").map_or(text.as_str(), |(words, _)| words).to_lowercase()
}

/// Why an established connection broke.
pub(super) fn disconnect_reason(error: &Broken) -> String {
    if let Broken::Io(error) = error {
        return io_reason(error);
    }
    match matches!(error, Broken::ConnectionClosed | Broken::AlreadyClosed) {
        true => "it was closed at the other end".to_owned(),
        false => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
