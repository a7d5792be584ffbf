//! What the instant model says, by the name it is called: `instant-8` says eight pieces at once, each in a chunk of its
//! own; `packed-8` the same with many pieces in a chunk, as behind a proxy that gathers them; `paced-100-2ms` one
//! hundred pieces, one every two milliseconds, each of which is the time at which it was sent.

use std::time::Duration;

/// More would be a slip of the finger.
const MAX_PIECES: usize = 100_000;
const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const WORD: &str = " word";
/// Events that a proxy would gather into one chunk: a few kilobytes.
const PACKED: usize = 32;
/// A time in nanoseconds has as many digits.
const UNSTAMPED: &str = "0000000000000000000";

#[derive(Debug)]
pub(super) enum Script {
    /// The whole answer.
    Instant(Vec<u8>),
    Paced {
        head: Vec<u8>,
        piece: Piece,
        pieces: usize,
        every: Duration,
        tail: Vec<u8>,
    },
}

/// An event with room for a time.
#[derive(Debug)]
pub(super) struct Piece {
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Script {
    pub(super) fn of(model: &str) -> Option<Script> {
        let mut parts = model.split('-');
        let (kind, pieces, pace) = (parts.next()?, parts.next()?, parts.next());
        let pieces = pieces.parse().ok().filter(|pieces| (1..=MAX_PIECES).contains(pieces))?;
        if parts.next().is_some() {
            return None;
        }
        match (kind, pace) {
            ("instant", None) => Some(Script::Instant(whole(model, pieces, 1))),
            ("packed", None) => Some(Script::Instant(whole(model, pieces, PACKED))),
            ("paced", Some(pace)) => Some(Script::Paced {
                head: HEAD.as_bytes().to_vec(),
                piece: Piece::of(model)?,
                pieces,
                every: Duration::from_millis(pace.strip_suffix("ms")?.parse().ok().filter(|every| *every > 0)?),
                tail: body(&tail(model, pieces), 1),
            }),
            _ => None,
        }
    }
}

impl Piece {
    fn of(model: &str) -> Option<Piece> {
        let whole = String::from_utf8(chunk(&event(&text(model, UNSTAMPED)))).ok()?;
        let (before, after) = whole.split_once(UNSTAMPED)?;
        Some(Piece { before: before.into(), after: after.into() })
    }

    pub(super) fn stamped(&self, nanoseconds: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.before.len() + UNSTAMPED.len() + self.after.len());
        bytes.extend(&self.before);
        bytes.extend(format!("{nanoseconds:019}").as_bytes());
        bytes.extend(&self.after);
        bytes
    }
}

fn whole(model: &str, pieces: usize, events_a_chunk: usize) -> Vec<u8> {
    let mut events = vec![event(&text(model, WORD)); pieces];
    events.extend(tail(model, pieces));
    let mut answer = HEAD.as_bytes().to_vec();
    answer.extend(body(&events, events_a_chunk));
    answer
}

/// The last events of an answer.
fn tail(model: &str, pieces: usize) -> Vec<String> {
    let usage = format!(r#"{{"prompt_tokens":20,"completion_tokens":{pieces},"total_tokens":{}}}"#, pieces + 20);
    vec![
        event(&completion(model, r#"[{"index":0,"delta":{},"finish_reason":"stop"}]"#, "null")),
        event(&completion(model, "[]", &usage)),
        event("[DONE]"),
    ]
}

fn text(model: &str, text: &str) -> String {
    completion(model, &format!(r#"[{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":null}}]"#), "null")
}

fn completion(model: &str, choices: &str, usage: &str) -> String {
    format!(
        r#"{{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"{model}","choices":{choices},"usage":{usage}}}"#
    )
}

fn event(data: &str) -> String {
    format!("data: {data}\n\n")
}

/// The end of a chunked body, and what comes before it.
fn body(events: &[String], events_a_chunk: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = events.chunks(events_a_chunk).flat_map(|events| chunk(&events.concat())).collect();
    bytes.extend(b"0\r\n\r\n");
    bytes
}

fn chunk(content: &str) -> Vec<u8> {
    format!("{:x}\r\n{content}\r\n", content.len()).into_bytes()
}

#[cfg(test)]
mod tests;
