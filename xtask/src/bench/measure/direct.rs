//! The baseline of everything a model says: the instant model read directly, without a server in between.

use std::net::SocketAddr;

use anyhow::{Context, ensure};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::inbox::Inbox;

/// The last event and the end of a chunked body.
const END: &[u8] = b"data: [DONE]\n\n\r\n0\r\n\r\n";

#[derive(Debug)]
pub(super) struct Direct {
    stream: TcpStream,
    inbox: Inbox,
    request: Vec<u8>,
}

impl Direct {
    pub(super) async fn open(stub: SocketAddr, model: &str) -> anyhow::Result<Direct> {
        let stream = TcpStream::connect(stub).await.with_context(|| format!("cannot connect to {stub}"))?;
        stream.set_nodelay(true).context("cannot set TCP_NODELAY")?;
        let body = format!(
            r#"{{"model":"{model}","stream":true,"messages":[{{"role":"user","content":"Tell me about it."}}]}}"#
        );
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: {stub}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Ok(Direct { stream, inbox: Inbox::new(), request: request.into_bytes() })
    }

    /// One answer to its end; every piece of text is shown as it arrives. Returns their number.
    pub(super) async fn answer(&mut self, mut hear: impl FnMut(&[u8])) -> anyhow::Result<u64> {
        self.stream.write_all(&self.request).await.context("cannot write to a connection")?;
        let mut pieces = 0;
        let mut is_first = true;
        loop {
            while let Some(length) = self.inbox.unread().iter().position(|byte| *byte == b'\n').map(|at| at + 1) {
                if self.inbox.unread().starts_with(b"data: [DONE]") {
                    break;
                }
                let line = self.inbox.take(length);
                ensure!(
                    !is_first || line.starts_with(b"HTTP/1.1 200 "),
                    "no answer: {}",
                    String::from_utf8_lossy(line)
                );
                is_first = false;
                if let Some(text) = content(line) {
                    pieces += 1;
                    hear(text);
                }
            }
            if self.inbox.unread() == END {
                self.inbox.take(END.len());
                return Ok(pieces);
            }
            self.inbox.fill(&mut self.stream).await?;
        }
    }
}

/// The text of a line that is an event with one; it holds no quotes.
fn content(line: &[u8]) -> Option<&[u8]> {
    const CONTENT: &[u8] = b"\"content\":\"";
    let event = line.strip_prefix(b"data: ")?;
    let at = event.windows(CONTENT.len()).position(|window| window == CONTENT)?;
    let text = event.get(at + CONTENT.len()..)?;
    text.get(..text.iter().position(|byte| *byte == b'"')?)
}

#[cfg(test)]
mod tests;
