use std::io;

use tokio_tungstenite::tungstenite::Error as Broken;
use tokio_tungstenite::tungstenite::error::{ProtocolError, UrlError};
use tokio_tungstenite::tungstenite::http::Response;

use super::ConnectError;

#[track_caller]
fn check(error: Broken, has_token: bool, expected: &str) {
    let error_found = ConnectError::from_handshake(error, "ws://127.0.0.1:7200/ws", "gateway", has_token);
    assert_eq!(error_found.to_string(), expected);
    assert!(!error_found.hint().is_empty());
}

fn answered(status: u16) -> Broken {
    Broken::Http(Box::new(Response::builder().status(status).body(None).unwrap()))
}

#[test]
fn troubles_are_told_in_words() {
    let io = |kind: io::ErrorKind| Broken::Io(kind.into());
    let silent = "no server answers at 127.0.0.1:7200: nobody listens there";
    check(io(io::ErrorKind::ConnectionRefused), true, silent);
    let unknown = io::Error::other("failed to lookup address information: Name or service not known");
    check(Broken::Io(unknown), true, "no server answers at 127.0.0.1:7200: there is no machine of that name");
    let away = io::Error::from_raw_os_error(101);
    check(Broken::Io(away), true, "no server answers at 127.0.0.1:7200: network is unreachable");
    check(answered(401), false, "the server at 127.0.0.1:7200 wants a token");
    check(answered(401), true, "the server at 127.0.0.1:7200 does not accept this token");
    check(answered(403), true, "the server at 127.0.0.1:7200 refuses the connection (403 Forbidden)");
    let foreign = "something answers at 127.0.0.1:7200, but it is not Patchboard's gateway";
    check(answered(200), true, foreign);
    check(Broken::Protocol(ProtocolError::HandshakeIncomplete), true, foreign);
    let encrypted = "encrypted connections such as `ws://127.0.0.1:7200/ws` are not supported here";
    check(Broken::Url(UrlError::TlsFeatureNotEnabled), true, encrypted);
    check(Broken::Url(UrlError::UnsupportedUrlScheme), true, "`ws://127.0.0.1:7200/ws` is not the address of a server");
}
