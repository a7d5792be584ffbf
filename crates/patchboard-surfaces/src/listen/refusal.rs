//! Refuses a connection past the limit with a 503 response, in bounded time and without a connection slot.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

/// Time limit for the whole refusal.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of the request that are read before it is answered.
const MAX_HEAD_BYTES: usize = 16 * 1024;
const UNAVAILABLE_RESPONSE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\n\
    content-length: 48\r\nretry-after: 5\r\nconnection: close\r\n\r\n\
    too many connections; try again in a few seconds";

pub(super) async fn refuse(mut stream: TcpStream, _permit: OwnedSemaphorePermit) {
    let refusal = async {
        // Closing a socket with unread input resets the connection, which would discard the response.
        let mut head = Vec::new();
        while head.len() < MAX_HEAD_BYTES && !head.windows(4).any(|end| end == b"\r\n\r\n") {
            if stream.read_buf(&mut head).await? == 0 {
                break;
            }
        }
        stream.write_all(UNAVAILABLE_RESPONSE).await?;
        stream.shutdown().await?;
        // Drain until the peer has closed as well.
        while stream.read(&mut [0; 1024]).await? > 0 {}
        std::io::Result::Ok(())
    };
    // A client that does not read within the timeout gets no response.
    drop(tokio::time::timeout(REFUSAL_TIMEOUT, refusal).await);
}
