//! One exchange with a bus: authenticate, `Hello`, call, read the reply.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::wire::{self, BusMessage, BusMessageKind, MethodCall, NotifyArguments};
use crate::text::clipped;

/// Unrelated messages, such as signals, that are skipped before a reply; past this the call fails.
const MAX_SKIPPED_MESSAGES: usize = 64;
const MAX_LINE: usize = 512;
const MAX_SHOWN_BYTES: usize = 200;

/// Whether the notification service interprets markup in bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkupSupport {
    Supported,
    Unsupported,
}

#[derive(Debug)]
pub(super) struct BusConnection<S> {
    stream: S,
    serial: u32,
}

impl<S: AsyncRead + AsyncWrite + Unpin> BusConnection<S> {
    /// Authenticates as the user of this process; the bus verifies that through the socket.
    pub(super) async fn open(mut stream: S, user: u32) -> Result<Self, String> {
        let identity = hex::encode(user.to_string());
        let opening = format!("\0AUTH EXTERNAL {identity}\r\n");
        stream.write_all(opening.as_bytes()).await.map_err(broken)?;
        let answer = read_line(&mut stream).await?;
        if !answer.starts_with("OK ") {
            return Err("the session bus does not let this user in".to_owned());
        }
        stream.write_all(b"BEGIN\r\n").await.map_err(broken)?;
        let mut link = Self { stream, serial: 0 };
        link.call_method(&MethodCall::HELLO, &[]).await?;
        Ok(link)
    }

    pub(super) async fn markup(&mut self) -> Result<MarkupSupport, String> {
        let answer = self.call_method(&MethodCall::GET_CAPABILITIES, &[]).await?;
        let capabilities = answer.strings().map_err(|error| error.to_string())?;
        match capabilities.iter().any(|capability| *capability == "body-markup") {
            true => Ok(MarkupSupport::Supported),
            false => Ok(MarkupSupport::Unsupported),
        }
    }

    pub(super) async fn notify(&mut self, toast: &NotifyArguments<'_>) -> Result<(), String> {
        self.call_method(&MethodCall::NOTIFY, &toast.marshalled()).await.map(drop)
    }

    async fn call_method(&mut self, call: &MethodCall, body: &[u8]) -> Result<BusMessage, String> {
        self.serial += 1;
        let bytes = call.marshalled(self.serial, body);
        self.stream.write_all(&bytes).await.map_err(broken)?;
        for _ in 0..MAX_SKIPPED_MESSAGES {
            let message = self.read().await?;
            if message.reply_to != Some(self.serial) {
                continue;
            }
            return match message.kind {
                BusMessageKind::Return => Ok(message),
                BusMessageKind::Error => Err(refusal(call, &message)),
                BusMessageKind::Other => continue,
            };
        }
        Err(format!("the session bus did not answer `{}`", call.member))
    }

    async fn read(&mut self) -> Result<BusMessage, String> {
        let mut bytes = vec![0; wire::HEADER_BYTES];
        self.stream.read_exact(&mut bytes).await.map_err(broken)?;
        let length = wire::length(&bytes).map_err(|error| error.to_string())?;
        bytes.resize(length, 0);
        let rest = bytes.get_mut(wire::HEADER_BYTES..).unwrap_or_default();
        self.stream.read_exact(rest).await.map_err(broken)?;
        wire::read(&bytes).map_err(|error| error.to_string())
    }
}

/// Formats an error reply. Its text comes from a third party, so it is escaped and bounded.
fn refusal(call: &MethodCall, message: &BusMessage) -> String {
    let name = message.error.as_deref().unwrap_or("an error");
    let said = message.first_string().unwrap_or_default();
    let shown = |text: &str| clipped(&text.escape_debug(), MAX_SHOWN_BYTES);
    format!("the desktop refused `{}`: {} {}", call.member, shown(name), shown(&said)).trim_end().to_owned()
}

/// Reads byte by byte, because what follows the line belongs to the next reader.
async fn read_line(stream: &mut (impl AsyncRead + Unpin)) -> Result<String, String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        if line.len() >= MAX_LINE {
            return Err("the session bus sent too long a line during authentication".to_owned());
        }
        line.push(stream.read_u8().await.map_err(broken)?);
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn broken(error: std::io::Error) -> String {
    format!("the connection to the session bus failed: {error}")
}
