//! Transports frames between a client and the checker; all judgement is in the checker.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::header::{HOST, HeaderName, ORIGIN, SEC_WEBSOCKET_PROTOCOL};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Error};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config};

use super::checker::{ClientEvent, ConformanceChecker, HubAction};
use super::finding::{Tally, TimedFinding};
use super::frame::FrameEncoding;
use super::handshake::Handshake;

/// The hub's maximum message size.
const MAX_MESSAGE: usize = 1024 * 1024;
/// For the handshake, and for the client to accept a frame.
const IO_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a closed connection is read, so that the client receives the close frame before the connection ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

type ClientSocket = WebSocketStream<TcpStream>;

/// Output of a check.
#[derive(Debug)]
pub enum CheckOutput {
    Finding(TimedFinding),
    Note(String),
}

/// Runs a mock hub until the checker is finished.
pub async fn run_mock_hub(
    listener: &TcpListener,
    mut judge: ConformanceChecker,
    mut say: impl FnMut(CheckOutput),
) -> Tally {
    let started = Instant::now();
    let mut socket: Option<ClientSocket> = None;
    let mut seen: VecDeque<ClientEvent> = VecDeque::new();
    loop {
        let next = match seen.pop_front() {
            Some(next) => next,
            None => next_event(listener, &mut socket, started + judge.deadline(), &mut seen).await,
        };
        for act in judge.handle_event(started.elapsed(), next) {
            match act {
                HubAction::Report(verdict) => say(CheckOutput::Finding(verdict)),
                HubAction::Note(note) => say(CheckOutput::Note(note)),
                HubAction::Send(text) => send(&mut socket, Message::text(text)).await,
                HubAction::Ping(payload) => send(&mut socket, Message::Ping(payload.into())).await,
                HubAction::Close => {
                    let frame = CloseFrame { code: CloseCode::Away, reason: "Server shutting down".into() };
                    send(&mut socket, Message::Close(Some(frame))).await;
                }
                HubAction::Drop => socket = None,
                HubAction::Finish => {
                    if let Some(socket) = &mut socket {
                        drop(timeout(CLOSE_TIMEOUT, async { while let Some(Ok(_)) = socket.next().await {} }).await);
                    }
                    return judge.tally();
                }
            }
        }
    }
}

/// The next event. Data of the open connection takes precedence over a new connection, so that a client that reconnects
/// is not mistaken for two.
async fn next_event(
    listener: &TcpListener,
    socket: &mut Option<ClientSocket>,
    deadline: Instant,
    seen: &mut VecDeque<ClientEvent>,
) -> ClientEvent {
    tokio::select! {
        biased;
        message = next(socket) => read_event(message, socket, seen).await,
        accepted = listener.accept() => match accepted {
            Ok(_) if socket.is_some() => ClientEvent::SecondConnection,
            Ok((stream, _)) => {
                let (made, what) = accept_handshake(stream).await;
                *socket = made;
                what
            }
            Err(error) => ClientEvent::HandshakeFailed(error.to_string()),
        },
        () = tokio::time::sleep_until(deadline) => ClientEvent::Tick,
    }
}

async fn next(socket: &mut Option<ClientSocket>) -> Option<Result<Message, Error>> {
    match socket {
        Some(socket) => socket.next().await,
        None => std::future::pending().await,
    }
}

async fn read_event(
    message: Option<Result<Message, Error>>,
    socket: &mut Option<ClientSocket>,
    seen: &mut VecDeque<ClientEvent>,
) -> ClientEvent {
    match message {
        Some(Ok(Message::Text(text))) => ClientEvent::Data(FrameEncoding::Text, text.as_bytes().to_vec()),
        Some(Ok(Message::Binary(bytes))) => ClientEvent::Data(FrameEncoding::Binary, bytes.to_vec()),
        Some(Ok(Message::Pong(payload))) => ClientEvent::Pong(payload.to_vec()),
        Some(Ok(Message::Ping(_) | Message::Frame(_))) => ClientEvent::Tick,
        Some(Ok(Message::Close(frame))) => {
            // Flushes the reply to the client's close frame before the connection is dropped.
            if let Some(mut socket) = socket.take() {
                drop(timeout(CLOSE_TIMEOUT, socket.flush()).await);
            }
            ClientEvent::Closed(frame.map(|frame| frame.code.into()))
        }
        None | Some(Err(Error::ConnectionClosed | Error::AlreadyClosed | Error::Io(_))) => {
            *socket = None;
            ClientEvent::Closed(None)
        }
        Some(Err(Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake))) => {
            *socket = None;
            ClientEvent::Closed(None)
        }
        Some(Err(error)) => {
            let frame = CloseFrame { code: close_code(&error), reason: "".into() };
            send(socket, Message::Close(Some(frame))).await;
            *socket = None;
            seen.push_back(ClientEvent::Closed(None));
            ClientEvent::ProtocolError(error.to_string())
        }
    }
}

fn close_code(error: &Error) -> CloseCode {
    if matches!(error, Error::Capacity(_)) {
        CloseCode::Size
    } else if matches!(error, Error::Utf8(_)) {
        CloseCode::Invalid
    } else {
        CloseCode::Protocol
    }
}

/// On timeout the checker notices the missing answer, so the error is dropped.
async fn send(socket: &mut Option<ClientSocket>, message: Message) {
    if let Some(socket) = socket {
        drop(timeout(IO_TIMEOUT, socket.send(message)).await);
    }
}

async fn accept_handshake(stream: TcpStream) -> (Option<ClientSocket>, ClientEvent) {
    let mut handshake = None;
    #[expect(clippy::result_large_err, reason = "the library's signature")]
    let callback = |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        // As the hub does: selects the first one offered.
        let offered = read_handshake(request);
        let first = offered.protocols.first().and_then(|first| first.parse().ok());
        if let Some(first) = first {
            response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, first);
        }
        handshake = Some(offered);
        Ok(response)
    };
    let config = WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE));
    let accepted = timeout(IO_TIMEOUT, accept_hdr_async_with_config(stream, callback, Some(config))).await;
    match accepted {
        Ok(Ok(socket)) => (Some(socket), ClientEvent::Connected(handshake.unwrap_or_default())),
        Ok(Err(error)) => (None, ClientEvent::HandshakeFailed(error.to_string())),
        Err(_) => (None, ClientEvent::HandshakeFailed("the handshake takes too long".to_owned())),
    }
}

fn read_handshake(request: &Request) -> Handshake {
    let text = |name: HeaderName| {
        let value = request.headers().get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let offered = request.headers().get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    let protocols = offered.filter_map(|value| value.to_str().ok()).flat_map(|list| list.split(','));
    Handshake {
        path: request.uri().path().to_owned(),
        host: text(HOST),
        origin: text(ORIGIN),
        protocols: protocols.map(|protocol| protocol.trim().to_owned()).filter(|one| !one.is_empty()).collect(),
    }
}

#[cfg(test)]
mod tests;
