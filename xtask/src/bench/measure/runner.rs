//! A client of the runs surface: one run at a time, its frames read as cheaply as can be.

use std::net::SocketAddr;

use anyhow::{Context, bail};

use super::chat::find;
use super::ws::{self, Socket, client_frame};

#[derive(Debug)]
pub(super) struct Runner {
    socket: Socket,
}

/// One frame about a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told<'a> {
    Event {
        number: u64,
        kind: &'a [u8],
    },
    /// The good end, with the number that the next event would have had.
    End {
        number: u64,
    },
    /// The bad end, as it was said.
    Failed(&'a [u8]),
}

/// What a whole run had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Heard {
    pub(super) events: u64,
    pub(super) texts: u64,
    /// Numbers that did not follow the one before; the first is 1.
    pub(super) gaps: u64,
    last: u64,
}

impl Runner {
    pub(super) async fn open(runs: SocketAddr) -> anyhow::Result<Runner> {
        Ok(Runner { socket: Socket::connect(runs, ws::RUNS).await? })
    }

    /// One run of its own conversation, from the request to its end. The agent decides which model answers.
    pub(super) async fn run(&mut self, agent: &str) -> anyhow::Result<Heard> {
        self.run_with(agent, |_| {}).await
    }

    /// One run whose events are shown as they arrive.
    pub(super) async fn run_with(&mut self, agent: &str, mut hear: impl FnMut(&Told<'_>)) -> anyhow::Result<Heard> {
        self.ask(&format!(r#"{{"type":"run","message":"Tell me about it.","agent":"{agent}"}}"#)).await?;
        let mut heard = Heard::default();
        loop {
            let told = self.next().await?;
            hear(&told);
            heard.note(&told);
            match told {
                Told::Event { .. } => {}
                Told::End { .. } => return Ok(heard),
                Told::Failed(error) => bail!("the run failed: {}", String::from_utf8_lossy(error)),
            }
        }
    }

    /// Starts a run that goes on without its client.
    pub(super) async fn start(&mut self, id: &str, agent: &str) -> anyhow::Result<()> {
        let request =
            format!(r#"{{"type":"run","message":"Tell me about it.","agent":"{agent}","id":"{id}","detach":true}}"#);
        self.ask(&request).await
    }

    /// Asks for the events of a run from number `after` + 1 on.
    pub(super) async fn attach(&mut self, id: &str, after: u64) -> anyhow::Result<()> {
        self.ask(&format!(r#"{{"type":"attach","id":"{id}","after":{after}}}"#)).await
    }

    pub(super) async fn next(&mut self) -> anyhow::Result<Told<'_>> {
        let payload = self.socket.next().await?;
        read(payload).with_context(|| format!("not about a run: {}", String::from_utf8_lossy(payload)))
    }

    async fn ask(&mut self, request: &str) -> anyhow::Result<()> {
        self.socket.send(&client_frame(request)).await
    }
}

impl Told<'_> {
    pub(super) fn is_text(&self) -> bool {
        matches!(self, Told::Event { kind: b"message_chunk", .. })
    }
}

impl Heard {
    fn note(&mut self, told: &Told<'_>) {
        let number = match told {
            Told::Event { number, .. } => {
                self.events += 1;
                *number
            }
            Told::End { number } => *number,
            Told::Failed(_) => return,
        };
        self.texts += u64::from(told.is_text());
        self.gaps += u64::from(number != self.last + 1);
        self.last = number;
    }
}

/// Finds the few fields without reading the rest. The number and the type of an event stand before anything a model or
/// a user may have said, those of an end after it.
fn read(payload: &[u8]) -> Option<Told<'_>> {
    const EVENT: &[u8] = b"{\"type\":\"run_stream_event\",";
    const END: &[u8] = b"{\"type\":\"run_end\",";
    const FAILED: &[u8] = b"{\"type\":\"error\",";
    const NUMBER: &[u8] = b"\"event_id\":";
    const KIND: &[u8] = b",\"type\":\"";
    if let Some(rest) = payload.strip_prefix(EVENT) {
        let rest = rest.get(find(rest, NUMBER)? + NUMBER.len()..)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = rest.split_at_checked(digits)?;
        let kind = rest.strip_prefix(KIND)?;
        let kind = kind.get(..kind.iter().position(|byte| *byte == b'"')?)?;
        Some(Told::Event { number: parse(number)?, kind })
    } else if let Some(rest) = payload.strip_prefix(END) {
        let rest = rest.strip_suffix(b"}")?;
        let digits = rest.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let (before, number) = rest.split_at_checked(rest.len() - digits)?;
        before.strip_suffix(NUMBER)?;
        Some(Told::End { number: parse(number)? })
    } else {
        payload.starts_with(FAILED).then_some(Told::Failed(payload))
    }
}

fn parse(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
