//! gRPC clients on Unix sockets often send the socket's path as `:authority`, which the `h2` crate rejects as
//! malformed. The value is not used for Unix sockets, so it is rewritten in place to a valid name of the same length;
//! frame and header lengths stay unchanged.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

const PREFACE_LEN: usize = 24;
const FRAME_HEADER_LEN: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const PADDED: u8 = 0x08;
const PRIORITY: u8 = 0x20;
const AUTHORITY_NAME: &[u8] = b":authority";
/// Index of `:authority` in HPACK's static table.
const AUTHORITY_STATIC_INDEX: usize = 1;
/// Larger integers cannot occur in a valid header block.
const MAX_HPACK_INTEGER: usize = 1 << 24;

/// A Unix stream that makes its client's `:authority` valid.
#[derive(Debug)]
pub(super) struct AuthorityRewriteStream {
    stream: UnixStream,
    rewriter: AuthorityRewriter,
}

impl AuthorityRewriteStream {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { stream, rewriter: AuthorityRewriter::default() }
    }
}

impl AsyncRead for AuthorityRewriteStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Some(fresh) = buffer.filled_mut().get_mut(before..) {
            self.rewriter.rewrite(fresh);
        }
        polled
    }
}

impl AsyncWrite for AuthorityRewriteStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Incremental parser of the client's byte stream.
#[derive(Debug)]
struct AuthorityRewriter {
    position: FramePosition,
    /// Continues across CONTINUATION frames.
    hpack: HpackPosition,
}

#[derive(Debug, Clone, Copy)]
enum FramePosition {
    Preface {
        remaining: usize,
    },
    FrameHeader {
        have: usize,
        head: [u8; FRAME_HEADER_LEN],
    },
    /// A payload without headers.
    Skip {
        remaining: usize,
    },
    /// The prefix of a HEADERS payload: an optional padding length, then five bytes if there is a priority.
    HeadersPrefix {
        is_padded: bool,
        priority: usize,
        remaining: usize,
        padding: usize,
    },
    HeaderBlock {
        remaining: usize,
        padding: usize,
    },
    /// The input is not valid HTTP/2; bytes pass unchanged, and `h2` reports the error.
    Desynchronized,
}

/// The position in an HPACK header block.
#[derive(Debug, Clone, Copy)]
enum HpackPosition {
    FieldStart,
    /// The rest of an integer that makes up a whole field.
    IndexRest,
    /// The rest of an integer that refers to a name.
    NameIndexRest(HpackInteger),
    NameLength,
    NameLengthRest(HpackInteger, StringCoding),
    Name {
        remaining: usize,
        is_it: bool,
    },
    ValueLength {
        is_it: bool,
    },
    ValueLengthRest(HpackInteger, StringCoding, bool),
    Value {
        remaining: usize,
        is_it: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StringCoding {
    Literal,
    /// Huffman-coded; left unchanged.
    Huffman,
}

/// An HPACK integer that continues in further bytes.
#[derive(Debug, Clone, Copy)]
struct HpackInteger {
    value: usize,
    shift: u32,
}

impl Default for AuthorityRewriter {
    fn default() -> Self {
        Self { position: FramePosition::Preface { remaining: PREFACE_LEN }, hpack: HpackPosition::FieldStart }
    }
}

impl AuthorityRewriter {
    fn rewrite(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let taken = self.step(bytes);
            bytes = bytes.split_at_mut(taken.clamp(1, bytes.len())).1;
        }
    }

    /// Processes some of the bytes and returns how many.
    fn step(&mut self, bytes: &mut [u8]) -> usize {
        let available = bytes.len();
        match self.position {
            FramePosition::Desynchronized => available,
            FramePosition::Preface { remaining } => {
                let taken = remaining.min(available);
                self.position = if taken == remaining {
                    Self::next_frame()
                } else {
                    FramePosition::Preface { remaining: remaining - taken }
                };
                taken
            }
            FramePosition::Skip { remaining } => {
                let taken = remaining.min(available);
                self.position = if taken == remaining {
                    Self::next_frame()
                } else {
                    FramePosition::Skip { remaining: remaining - taken }
                };
                taken
            }
            FramePosition::FrameHeader { mut have, mut head } => {
                if let (Some(slot), Some(byte)) = (head.get_mut(have), bytes.first()) {
                    *slot = *byte;
                }
                have += 1;
                self.position = if have == FRAME_HEADER_LEN {
                    self.begin_frame(head)
                } else {
                    FramePosition::FrameHeader { have, head }
                };
                1
            }
            FramePosition::HeadersPrefix { is_padded, priority, remaining, padding } => {
                let byte = bytes.first().copied().unwrap_or_default();
                self.position = match is_padded {
                    true => Self::headers_prefix(false, priority, remaining.checked_sub(1), usize::from(byte)),
                    false => Self::headers_prefix(false, priority.saturating_sub(1), remaining.checked_sub(1), padding),
                };
                1
            }
            FramePosition::HeaderBlock { remaining, padding } => {
                let taken = remaining.min(available);
                for byte in bytes.iter_mut().take(taken) {
                    match self.hpack.next(byte) {
                        Some(field) => self.hpack = field,
                        None => {
                            self.position = FramePosition::Desynchronized;
                            return available;
                        }
                    }
                }
                self.position = match remaining - taken {
                    0 => Self::skip(padding),
                    remaining => FramePosition::HeaderBlock { remaining, padding },
                };
                taken
            }
        }
    }

    fn begin_frame(&mut self, head: [u8; FRAME_HEADER_LEN]) -> FramePosition {
        let [high, middle, low, kind, flags, ..] = head;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        match kind {
            HEADERS => {
                // A header block starts here; CONTINUATION frames continue it.
                self.hpack = HpackPosition::FieldStart;
                let priority = if flags & PRIORITY == 0 { 0 } else { 5 };
                Self::headers_prefix(flags & PADDED != 0, priority, Some(length), 0)
            }
            CONTINUATION => Self::headers_prefix(false, 0, Some(length), 0),
            _ => Self::skip(length),
        }
    }

    /// The position after a HEADERS frame header, or after the part of the prefix read so far.
    fn headers_prefix(is_padded: bool, priority: usize, remaining: Option<usize>, padding: usize) -> FramePosition {
        match remaining {
            None => FramePosition::Desynchronized,
            Some(remaining) if is_padded || priority > 0 => {
                FramePosition::HeadersPrefix { is_padded, priority, remaining, padding }
            }
            Some(remaining) => match remaining.checked_sub(padding) {
                None => FramePosition::Desynchronized,
                Some(0) => Self::skip(padding),
                Some(remaining) => FramePosition::HeaderBlock { remaining, padding },
            },
        }
    }

    fn skip(remaining: usize) -> FramePosition {
        if remaining == 0 { Self::next_frame() } else { FramePosition::Skip { remaining } }
    }

    fn next_frame() -> FramePosition {
        FramePosition::FrameHeader { have: 0, head: [0; FRAME_HEADER_LEN] }
    }
}

impl HpackPosition {
    /// Consumes one byte, which may be rewritten. Returns `None` if the input is invalid.
    fn next(self, byte: &mut u8) -> Option<Self> {
        let coded = |byte: u8| if byte & 0x80 == 0 { StringCoding::Literal } else { StringCoding::Huffman };
        Some(match self {
            Self::FieldStart => Self::after_first(*byte),
            Self::IndexRest if *byte & 0x80 != 0 => Self::IndexRest,
            Self::IndexRest => Self::FieldStart,
            Self::NameIndexRest(number) => match number.next(*byte)? {
                Ok(number) => Self::NameIndexRest(number),
                // A multi-byte index is always beyond `:authority` in the static table.
                Err(_) => Self::ValueLength { is_it: false },
            },
            Self::NameLength if *byte & 0x7f == 0x7f => {
                Self::NameLengthRest(HpackInteger::continued(0x7f), coded(*byte))
            }
            Self::NameLength => Self::name(usize::from(*byte & 0x7f), coded(*byte)),
            Self::NameLengthRest(number, coded) => match number.next(*byte)? {
                Ok(number) => Self::NameLengthRest(number, coded),
                Err(length) => Self::name(length, coded),
            },
            Self::Name { remaining, is_it } => {
                let is_it = is_it && AUTHORITY_NAME.get(AUTHORITY_NAME.len().wrapping_sub(remaining)) == Some(byte);
                match remaining - 1 {
                    0 => Self::ValueLength { is_it },
                    remaining => Self::Name { remaining, is_it },
                }
            }
            Self::ValueLength { is_it } if *byte & 0x7f == 0x7f => {
                Self::ValueLengthRest(HpackInteger::continued(0x7f), coded(*byte), is_it)
            }
            Self::ValueLength { is_it } => Self::value(usize::from(*byte & 0x7f), coded(*byte), is_it),
            Self::ValueLengthRest(number, coded, is_it) => match number.next(*byte)? {
                Ok(number) => Self::ValueLengthRest(number, coded, is_it),
                Err(length) => Self::value(length, coded, is_it),
            },
            Self::Value { remaining, is_it } => {
                if is_it && !(byte.is_ascii_alphanumeric() || matches!(*byte, b'.' | b'-' | b'_')) {
                    *byte = b'-';
                }
                match remaining - 1 {
                    0 => Self::FieldStart,
                    remaining => Self::Value { remaining, is_it },
                }
            }
        })
    }

    fn after_first(byte: u8) -> Self {
        // How many low bits hold an integer, and whether the integer is the whole field.
        let (mask, is_whole) = match byte {
            0x80.. => (0x7f, true),
            0x40.. => (0x3f, false),
            0x20.. => (0x1f, true),
            _ => (0x0f, false),
        };
        match (usize::from(byte & mask), is_whole) {
            (number, true) if number == usize::from(mask) => Self::IndexRest,
            (_, true) => Self::FieldStart,
            (0, false) => Self::NameLength,
            (number, false) if number == usize::from(mask) => Self::NameIndexRest(HpackInteger::continued(number)),
            (number, false) => Self::ValueLength { is_it: number == AUTHORITY_STATIC_INDEX },
        }
    }

    fn name(length: usize, coded: StringCoding) -> Self {
        match length {
            0 => Self::ValueLength { is_it: false },
            remaining => {
                Self::Name { remaining, is_it: remaining == AUTHORITY_NAME.len() && coded == StringCoding::Literal }
            }
        }
    }

    fn value(length: usize, coded: StringCoding, is_it: bool) -> Self {
        match length {
            0 => Self::FieldStart,
            remaining => Self::Value { remaining, is_it: is_it && coded == StringCoding::Literal },
        }
    }
}

impl HpackInteger {
    fn continued(value: usize) -> Self {
        Self { value, shift: 0 }
    }

    /// `Ok` if the integer continues, `Err` with its value if it is complete, `None` if it is too large.
    fn next(self, byte: u8) -> Option<Result<Self, usize>> {
        let value = self.value + (usize::from(byte & 0x7f) << self.shift);
        let shift = self.shift + 7;
        match byte & 0x80 {
            _ if value > MAX_HPACK_INTEGER || shift > 28 => None,
            0 => Some(Err(value)),
            _ => Some(Ok(Self { value, shift })),
        }
    }
}

#[cfg(test)]
mod tests;
