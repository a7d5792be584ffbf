//! Turning away whoever finds no place: in words, quickly, and without a place of its own.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

/// All the time a refusal may take.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
/// As much of a request as is looked at before it is answered.
const MAX_HEAD_BYTES: usize = 16 * 1024;
const UNAVAILABLE_RESPONSE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\n\
    content-length: 48\r\nretry-after: 5\r\nconnection: close\r\n\r\n\
    too many connections; try again in a few seconds";

pub(super) async fn refuse(mut stream: TcpStream, _permit: OwnedSemaphorePermit) {
    let refusal = async {
        // Closing with something unread would cut the answer off.
        let mut head = Vec::new();
        while head.len() < MAX_HEAD_BYTES && !head.windows(4).any(|end| end == b"\r\n\r\n") {
            if stream.read_buf(&mut head).await? == 0 {
                break;
            }
        }
        stream.write_all(UNAVAILABLE_RESPONSE).await?;
        stream.shutdown().await?;
        // Until the peer has closed as well.
        while stream.read(&mut [0; 1024]).await? > 0 {}
        std::io::Result::Ok(())
    };
    // Whoever does not listen is not told.
    drop(tokio::time::timeout(REFUSAL_TIMEOUT, refusal).await);
}
