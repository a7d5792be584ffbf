//! The instant model: Chat Completions over SSE, with every byte made before it is asked for.
//!
//! What it says is chosen by the name of the model, see [`script`].

mod request;
mod script;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::inbox::Inbox;
use super::{clock, helper};
use script::Script;

const UNKNOWN: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 42\r\n\r\n\
    {\"error\":{\"message\":\"no such model here\"}}";
/// More names than a measurement uses; the next one is unknown.
const MAX_MODELS: usize = 64;

/// Serves until it is killed.
pub(super) fn run() -> anyhow::Result<()> {
    helper::runtime()?.block_on(serve())
}

async fn serve() -> anyhow::Result<()> {
    let listener = helper::listen().await?;
    let scripts = Arc::new(Scripts::default());
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted.context("cannot accept a connection")?;
                let scripts = scripts.clone();
                // A connection ends with an error when the other side hangs up, which is how all of them end.
                connections.spawn(async move { converse(stream, &scripts).await.ok() });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn converse(mut stream: TcpStream, scripts: &Scripts) -> anyhow::Result<()> {
    stream.set_nodelay(true).context("cannot set TCP_NODELAY")?;
    let mut inbox = Inbox::new();
    loop {
        let length = loop {
            if let Some(length) = request::length(inbox.unread()) {
                break length;
            }
            inbox.fill(&mut stream).await?;
        };
        let script = request::model(inbox.take(length)).and_then(|model| scripts.get(model));
        match script.as_deref() {
            Some(Script::Instant(answer)) => stream.write_all(answer).await?,
            Some(paced @ Script::Paced { .. }) => speak(&mut stream, paced).await?,
            None => stream.write_all(UNKNOWN).await?,
        }
    }
}

/// One piece at every tick, each saying when it was sent.
async fn speak(stream: &mut TcpStream, script: &Script) -> anyhow::Result<()> {
    let Script::Paced { head, piece, pieces, every, tail } = script else { return Ok(()) };
    stream.write_all(head).await?;
    let mut ticks = tokio::time::interval(*every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for _ in 0..*pieces {
        ticks.tick().await;
        stream.write_all(&piece.stamped(clock::nanoseconds())).await?;
    }
    stream.write_all(tail).await?;
    Ok(())
}

/// Answers by the name of their model, made when they are first asked for.
#[derive(Debug, Default)]
struct Scripts(Mutex<HashMap<Vec<u8>, Arc<Script>>>);

impl Scripts {
    fn get(&self, model: &[u8]) -> Option<Arc<Script>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(script) = known.get(model) {
            return Some(script.clone());
        }
        let script = Arc::new(Script::of(std::str::from_utf8(model).ok()?)?);
        if known.len() >= MAX_MODELS {
            return None;
        }
        known.insert(model.to_owned(), script.clone());
        Some(script)
    }
}
