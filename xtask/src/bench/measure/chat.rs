//! A chat over the gateway: one request at a time, its frames read as cheaply as can be.

use std::net::SocketAddr;

use anyhow::{Context, bail};

use super::ws::{self, Socket, client_frame};

#[derive(Debug)]
pub(super) struct Chat {
    socket: Socket,
    channel: String,
    account: String,
    requests: u64,
}

/// One event of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told<'a> {
    pub(super) event: &'a [u8],
    /// What follows `"data":`, up to the number: a string still has its quotes and escapes.
    pub(super) data: &'a [u8],
    pub(super) seq: Option<u64>,
}

/// What a whole stream had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Heard {
    pub(super) events: u64,
    pub(super) texts: u64,
    /// Numbers that did not follow the one before.
    pub(super) gaps: u64,
    last: Option<u64>,
}

impl Chat {
    /// Connects and waits for the hello. The channel decides which model answers, the account is the session.
    pub(super) async fn open(gateway: SocketAddr, channel: &str, account: impl Into<String>) -> anyhow::Result<Chat> {
        let mut socket = Socket::connect(gateway, ws::GATEWAY).await?;
        let hello = socket.next().await?;
        anyhow::ensure!(find(hello, b"\"ok\":true").is_some(), "no hello: {}", String::from_utf8_lossy(hello));
        Ok(Chat { socket, channel: channel.to_owned(), account: account.into(), requests: 0 })
    }

    /// One turn, from the request to `done`.
    pub(super) async fn turn(&mut self) -> anyhow::Result<Heard> {
        self.turn_with(|_| {}).await
    }

    /// One turn whose events are shown as they arrive.
    pub(super) async fn turn_with(&mut self, hear: impl FnMut(&Told<'_>)) -> anyhow::Result<Heard> {
        self.requests += 1;
        let Chat { channel, account, requests, .. } = self;
        let request = format!(
            r#"{{"id":"{}","method":"chat.send","params":{{"channel":"{channel}","account":"{account}","content":"Tell me about it."}}}}"#,
            request_id(account, *requests)
        );
        self.request(&request, hear).await
    }

    /// The id of the last turn, by which it can be replayed.
    pub(super) fn last_id(&self) -> String {
        request_id(&self.account, self.requests)
    }

    /// A turn that is over, told again from its first event.
    pub(super) async fn replay(&mut self, id: &str) -> anyhow::Result<Heard> {
        let request = format!(r#"{{"id":"replay","method":"chat.attach","params":{{"id":"{id}","after":0}}}}"#);
        self.request(&request, |_| {}).await
    }

    /// Talks in another session from now on.
    pub(super) fn move_to(&mut self, account: impl Into<String>) {
        self.account = account.into();
    }

    async fn request(&mut self, text: &str, mut hear: impl FnMut(&Told<'_>)) -> anyhow::Result<Heard> {
        self.socket.send(&client_frame(text)).await?;
        let mut heard = Heard::default();
        loop {
            let payload = self.socket.next().await?;
            let told = read(payload)
                .with_context(|| format!("the request was refused: {}", String::from_utf8_lossy(payload)))?;
            hear(&told);
            heard.note(&told);
            match told.event {
                b"done" => return Ok(heard),
                b"error" => bail!("the turn failed: {}", String::from_utf8_lossy(told.data)),
                _ => {}
            }
        }
    }
}

impl Heard {
    fn note(&mut self, told: &Told<'_>) {
        self.events += 1;
        self.texts += u64::from(told.event == b"text");
        let follows = match (self.last, told.seq) {
            (Some(last), Some(seq)) => seq == last + 1,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        self.gaps += u64::from(!follows);
        self.last = told.seq;
    }
}

fn request_id(account: &str, number: u64) -> String {
    format!("{account}-{number}")
}

/// Finds the few fields without reading the rest. A quote inside a string has a backslash before it, so `"event":"`
/// cannot stand in one.
fn read(payload: &[u8]) -> Option<Told<'_>> {
    const EVENT: &[u8] = b"\"event\":\"";
    const DATA: &[u8] = b"\"data\":";
    const SEQ: &[u8] = b",\"seq\":";
    let named = payload.get(find(payload, EVENT)? + EVENT.len()..)?;
    let (event, rest) = named.split_at_checked(named.iter().position(|byte| *byte == b'"')?)?;
    let rest = rest.get(1..)?.strip_suffix(b"}")?;
    // The number is last, so it is read from the end: the data may be long.
    let digits = rest.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (before, number) = rest.split_at_checked(rest.len() - digits)?;
    let (rest, seq) = match before.strip_suffix(SEQ) {
        Some(rest) => (rest, std::str::from_utf8(number).ok()?.parse().ok()),
        None => (rest, None),
    };
    let data = find(rest, DATA).and_then(|at| rest.get(at + DATA.len()..)).unwrap_or_default();
    Some(Told { event, data, seq })
}

pub(super) fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests;
