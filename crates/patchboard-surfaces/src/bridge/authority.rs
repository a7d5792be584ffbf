//! Clients that come in by a socket in the file system often say its path where HTTP wants the name of a host, and HTTP/2
//! as it is spoken here refuses that as no name at all. What they say there is not looked at, so it is turned into
//! something that reads as a name while it passes by: as long as before, so that nothing else about it changes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

const PREFACE: usize = 24;
const FRAME_HEAD: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const PADDED: u8 = 0x08;
const PRIORITY: u8 = 0x20;
const NAME: &[u8] = b":authority";
/// Where the name is in the table of names that everybody knows.
const KNOWN_AS: usize = 1;
/// Numbers beyond this are not those of a header.
const MAX_NUMBER: usize = 1 << 24;

/// A connection whose client may call the server whatever it likes.
#[derive(Debug)]
pub(super) struct Nameless {
    stream: UnixStream,
    names: Names,
}

impl Nameless {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { stream, names: Names::default() }
    }
}

impl AsyncRead for Nameless {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Some(fresh) = buffer.filled_mut().get_mut(before..) {
            self.names.pass(fresh);
        }
        polled
    }
}

impl AsyncWrite for Nameless {
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

/// Where in what the client sends the next byte is.
#[derive(Debug)]
struct Names {
    at: At,
    /// Goes on from one frame to the next.
    field: Field,
}

#[derive(Debug, Clone, Copy)]
enum At {
    Preface {
        left: usize,
    },
    FrameHead {
        have: usize,
        head: [u8; FRAME_HEAD],
    },
    /// Nothing of interest.
    Skip {
        left: usize,
    },
    /// What may come before headers: how much padding there is after them, then five bytes of priority.
    Lead {
        is_padded: bool,
        priority: usize,
        left: usize,
        padding: usize,
    },
    Fields {
        left: usize,
        padding: usize,
    },
    /// What comes is not what it should be; whoever reads it will say so.
    Lost,
}

/// What the next byte of a list of headers is.
#[derive(Debug, Clone, Copy)]
enum Field {
    First,
    /// The rest of a number that stands for a whole field.
    Whole,
    /// The rest of the number that stands for a name.
    NameNumber(Number),
    NameLength,
    NameLengthRest(Number, Coded),
    Name {
        left: usize,
        is_it: bool,
    },
    ValueLength {
        is_it: bool,
    },
    ValueLengthRest(Number, Coded, bool),
    Value {
        left: usize,
        is_it: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coded {
    Plainly,
    /// In bits of their own, which are left as they are.
    Huffman,
}

/// A number that takes more than its first byte.
#[derive(Debug, Clone, Copy)]
struct Number {
    value: usize,
    shift: u32,
}

impl Default for Names {
    fn default() -> Self {
        Self { at: At::Preface { left: PREFACE }, field: Field::First }
    }
}

impl Names {
    fn pass(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let taken = self.step(bytes);
            bytes = bytes.split_at_mut(taken.clamp(1, bytes.len())).1;
        }
    }

    /// Says how many of the bytes it took.
    fn step(&mut self, bytes: &mut [u8]) -> usize {
        let available = bytes.len();
        match self.at {
            At::Lost => available,
            At::Preface { left } => {
                let taken = left.min(available);
                self.at = if taken == left { Self::frame() } else { At::Preface { left: left - taken } };
                taken
            }
            At::Skip { left } => {
                let taken = left.min(available);
                self.at = if taken == left { Self::frame() } else { At::Skip { left: left - taken } };
                taken
            }
            At::FrameHead { mut have, mut head } => {
                if let (Some(slot), Some(byte)) = (head.get_mut(have), bytes.first()) {
                    *slot = *byte;
                }
                have += 1;
                self.at = if have == FRAME_HEAD { self.begin(head) } else { At::FrameHead { have, head } };
                1
            }
            At::Lead { is_padded, priority, left, padding } => {
                let byte = bytes.first().copied().unwrap_or_default();
                self.at = match is_padded {
                    true => Self::lead(false, priority, left.checked_sub(1), usize::from(byte)),
                    false => Self::lead(false, priority.saturating_sub(1), left.checked_sub(1), padding),
                };
                1
            }
            At::Fields { left, padding } => {
                let taken = left.min(available);
                for byte in bytes.iter_mut().take(taken) {
                    match self.field.next(byte) {
                        Some(field) => self.field = field,
                        None => {
                            self.at = At::Lost;
                            return available;
                        }
                    }
                }
                self.at = match left - taken {
                    0 => Self::skip(padding),
                    left => At::Fields { left, padding },
                };
                taken
            }
        }
    }

    fn begin(&mut self, head: [u8; FRAME_HEAD]) -> At {
        let [high, middle, low, kind, flags, ..] = head;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        match kind {
            HEADERS => {
                self.field = Field::First;
                let priority = if flags & PRIORITY == 0 { 0 } else { 5 };
                Self::lead(flags & PADDED != 0, priority, Some(length), 0)
            }
            CONTINUATION => Self::lead(false, 0, Some(length), 0),
            _ => Self::skip(length),
        }
    }

    /// What comes after the head of a frame of headers, or after the part of it that has been.
    fn lead(is_padded: bool, priority: usize, left: Option<usize>, padding: usize) -> At {
        match left {
            None => At::Lost,
            Some(left) if is_padded || priority > 0 => At::Lead { is_padded, priority, left, padding },
            Some(left) => match left.checked_sub(padding) {
                None => At::Lost,
                Some(0) => Self::skip(padding),
                Some(left) => At::Fields { left, padding },
            },
        }
    }

    fn skip(left: usize) -> At {
        if left == 0 { Self::frame() } else { At::Skip { left } }
    }

    fn frame() -> At {
        At::FrameHead { have: 0, head: [0; FRAME_HEAD] }
    }
}

impl Field {
    /// What comes after this byte, which may be changed; `None` when it makes no sense.
    fn next(self, byte: &mut u8) -> Option<Self> {
        let coded = |byte: u8| if byte & 0x80 == 0 { Coded::Plainly } else { Coded::Huffman };
        Some(match self {
            Self::First => Self::after_first(*byte),
            Self::Whole if *byte & 0x80 != 0 => Self::Whole,
            Self::Whole => Self::First,
            Self::NameNumber(number) => match number.next(*byte)? {
                Ok(number) => Self::NameNumber(number),
                // The last number of names that everybody knows is far below.
                Err(_) => Self::ValueLength { is_it: false },
            },
            Self::NameLength if *byte & 0x7f == 0x7f => Self::NameLengthRest(Number::after(0x7f), coded(*byte)),
            Self::NameLength => Self::name(usize::from(*byte & 0x7f), coded(*byte)),
            Self::NameLengthRest(number, coded) => match number.next(*byte)? {
                Ok(number) => Self::NameLengthRest(number, coded),
                Err(length) => Self::name(length, coded),
            },
            Self::Name { left, is_it } => {
                let is_it = is_it && NAME.get(NAME.len().wrapping_sub(left)) == Some(byte);
                match left - 1 {
                    0 => Self::ValueLength { is_it },
                    left => Self::Name { left, is_it },
                }
            }
            Self::ValueLength { is_it } if *byte & 0x7f == 0x7f => {
                Self::ValueLengthRest(Number::after(0x7f), coded(*byte), is_it)
            }
            Self::ValueLength { is_it } => Self::value(usize::from(*byte & 0x7f), coded(*byte), is_it),
            Self::ValueLengthRest(number, coded, is_it) => match number.next(*byte)? {
                Ok(number) => Self::ValueLengthRest(number, coded, is_it),
                Err(length) => Self::value(length, coded, is_it),
            },
            Self::Value { left, is_it } => {
                if is_it && !(byte.is_ascii_alphanumeric() || matches!(*byte, b'.' | b'-' | b'_')) {
                    *byte = b'-';
                }
                match left - 1 {
                    0 => Self::First,
                    left => Self::Value { left, is_it },
                }
            }
        })
    }

    fn after_first(byte: u8) -> Self {
        // How many of the lower bits are a number, and whether that number is the whole field.
        let (mask, is_whole) = match byte {
            0x80.. => (0x7f, true),
            0x40.. => (0x3f, false),
            0x20.. => (0x1f, true),
            _ => (0x0f, false),
        };
        match (usize::from(byte & mask), is_whole) {
            (number, true) if number == usize::from(mask) => Self::Whole,
            (_, true) => Self::First,
            (0, false) => Self::NameLength,
            (number, false) if number == usize::from(mask) => Self::NameNumber(Number::after(number)),
            (number, false) => Self::ValueLength { is_it: number == KNOWN_AS },
        }
    }

    fn name(length: usize, coded: Coded) -> Self {
        match length {
            0 => Self::ValueLength { is_it: false },
            left => Self::Name { left, is_it: left == NAME.len() && coded == Coded::Plainly },
        }
    }

    fn value(length: usize, coded: Coded, is_it: bool) -> Self {
        match length {
            0 => Self::First,
            left => Self::Value { left, is_it: is_it && coded == Coded::Plainly },
        }
    }
}

impl Number {
    fn after(value: usize) -> Self {
        Self { value, shift: 0 }
    }

    /// Itself, further on, or, as an error, its value; `None` when it is too large.
    fn next(self, byte: u8) -> Option<Result<Self, usize>> {
        let value = self.value + (usize::from(byte & 0x7f) << self.shift);
        let shift = self.shift + 7;
        match byte & 0x80 {
            _ if value > MAX_NUMBER || shift > 28 => None,
            0 => Some(Err(value)),
            _ => Some(Ok(Self { value, shift })),
        }
    }
}

#[cfg(test)]
mod tests;
