//! Looks for model servers on this machine: one short HTTP request to each
//! place they listen by default.

use std::{net::Ipv4Addr, time::Duration};

use serde::Deserialize;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// Start must not wait for a server that is not there.
const PROBE_TIMEOUT: Duration = Duration::from_millis(150);

/// An answer longer than this is not a list of models.
const MAX_RESPONSE_BYTES: u64 = 256 * 1024;

/// A place where a model server may listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerCandidate {
    pub name: &'static str,
    pub title: &'static str,
    pub port: u16,
}

impl ServerCandidate {
    /// Default ports, best first. llama.cpp's own default, 8080, is also that
    /// of our runs listener, so 8081 is tried before it.
    pub(crate) const DEFAULTS: [Self; 3] = [
        Self::new("ollama", "Ollama", 11434),
        Self::new("llama-cpp", "llama.cpp", 8081),
        Self::new("llama-cpp", "llama.cpp", 8080),
    ];

    pub(crate) const fn new(name: &'static str, title: &'static str, port: u16) -> Self {
        Self { name, title, port }
    }
}

/// A model server that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalServer {
    pub name: &'static str,
    pub title: &'static str,
    pub port: u16,
    pub models: Vec<String>,
}

impl LocalServer {
    pub(crate) fn root(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// The first model that is not for embeddings only; a server without one
    /// cannot chat.
    pub(crate) fn chat_model(&self) -> Option<&str> {
        let chats = |model: &&String| !model.contains("embed");
        self.models.iter().find(chats).map(String::as_str)
    }
}

/// The candidates that answer like a model server, in the given order. All are
/// asked at once.
pub(crate) async fn probe(candidates: &[ServerCandidate]) -> Vec<LocalServer> {
    let asked = candidates.iter().map(|candidate| async move {
        let models = timeout(PROBE_TIMEOUT, models_at(candidate.port)).await.ok()??;
        Some(LocalServer { name: candidate.name, title: candidate.title, port: candidate.port, models })
    });
    let answers = futures_util::future::join_all(asked).await;
    answers.into_iter().flatten().collect()
}

async fn models_at(port: u16) -> Option<Vec<String>> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.ok()?;
    // HTTP/1.0: the answer ends with the connection and is never chunked.
    let request = format!("GET /v1/models HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nAccept: application/json\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.take(MAX_RESPONSE_BYTES).read_to_end(&mut answer).await.ok()?;
    parse_model_list(&answer)
}

/// The models in an HTTP answer; none if it is not a list of models.
fn parse_model_list(answer: &[u8]) -> Option<Vec<String>> {
    #[derive(Deserialize)]
    struct ModelListBody {
        data: Option<Vec<ProbedModel>>,
    }
    #[derive(Deserialize)]
    struct ProbedModel {
        id: String,
    }
    let end_of_head = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let (head, body) = answer.split_at_checked(end_of_head + 4)?;
    let status_line = head.split(|byte| *byte == b'\r').next()?;
    let status = std::str::from_utf8(status_line).ok()?.split(' ').nth(1)?;
    if status != "200" {
        return None;
    }
    let list: ModelListBody = serde_json::from_slice(body).ok()?;
    // Ollama without models says `"data": null`.
    let models = list.data.unwrap_or_default();
    Some(models.into_iter().map(|model| model.id).collect())
}

#[cfg(test)]
mod tests;
