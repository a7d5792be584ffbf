//! D-Bus message encoding: writes calls, reads replies. Pure; treats input as untrusted.

/// The fixed start of a message, from which its length is known.
pub(super) const HEADER_BYTES: usize = 16;
/// Replies to notifications are tiny; a longer message is refused before it is read.
pub(super) const MAX_MESSAGE: usize = 128 * 1024;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum BusError {
    #[error("the session bus sent a message that cannot be read")]
    Garbled,
    #[error("the session bus sent a message of more than {MAX_MESSAGE} bytes")]
    TooLong,
}

/// A method of an object on the bus.
#[derive(Debug)]
pub(super) struct MethodCall {
    destination: &'static str,
    path: &'static str,
    interface: &'static str,
    pub(super) member: &'static str,
    /// Signature of the arguments; empty for none.
    signature: &'static str,
}

impl MethodCall {
    pub(super) const HELLO: Self = Self {
        destination: "org.freedesktop.DBus",
        path: "/org/freedesktop/DBus",
        interface: "org.freedesktop.DBus",
        member: "Hello",
        signature: "",
    };
    pub(super) const GET_CAPABILITIES: Self = Self::of_notifications("GetCapabilities", "");
    pub(super) const NOTIFY: Self = Self::of_notifications("Notify", "susssasa{sv}i");

    const fn of_notifications(member: &'static str, signature: &'static str) -> Self {
        Self {
            destination: "org.freedesktop.Notifications",
            path: "/org/freedesktop/Notifications",
            interface: "org.freedesktop.Notifications",
            member,
            signature,
        }
    }

    /// Encodes the whole message; `body` are the marshalled arguments.
    pub(super) fn marshalled(&self, serial: u32, body: &[u8]) -> Vec<u8> {
        let mut fields = BusWriter::default();
        fields.field(1, "o", self.path);
        fields.field(2, "s", self.interface);
        fields.field(3, "s", self.member);
        fields.field(6, "s", self.destination);
        if !self.signature.is_empty() {
            fields.field(8, "g", self.signature);
        }
        // Little-endian; method call; no flags; protocol version 1.
        let mut message = BusWriter { bytes: vec![b'l', 1, 0, 1] };
        message.number(length_of(body));
        message.number(serial);
        message.number(length_of(&fields.bytes));
        // The fields start at a multiple of eight here, as they did in their own buffer.
        message.bytes.extend_from_slice(&fields.bytes);
        message.align(8);
        message.bytes.extend_from_slice(body);
        message.bytes
    }
}

/// The arguments of `Notify`.
#[derive(Debug)]
pub(super) struct NotifyArguments<'a> {
    pub(super) app: &'a str,
    pub(super) title: &'a str,
    pub(super) body: &'a str,
    /// 0 low, 1 normal, 2 critical.
    pub(super) urgency: u8,
}

impl NotifyArguments<'_> {
    pub(super) fn marshalled(&self) -> Vec<u8> {
        let mut body = BusWriter::default();
        body.string(self.app);
        // Replaces no earlier notification.
        body.number(0);
        // No icon.
        body.string("");
        body.string(self.title);
        body.string(self.body);
        // No actions.
        body.number(0);
        let mut hints = BusWriter::default();
        hints.string("urgency");
        hints.signature("y");
        hints.bytes.push(self.urgency);
        body.number(length_of(&hints.bytes));
        body.align(8);
        body.bytes.extend_from_slice(&hints.bytes);
        // -1: the desktop decides when the notification expires.
        body.align(4);
        body.bytes.extend_from_slice(&(-1_i32).to_le_bytes());
        body.bytes
    }
}

#[derive(Debug, Default)]
struct BusWriter {
    bytes: Vec<u8>,
}

impl BusWriter {
    fn align(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }

    fn number(&mut self, number: u32) {
        self.align(4);
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    /// Removes zero bytes, which terminate strings on the bus.
    fn string(&mut self, text: &str) {
        let text = text.replace('\0', "");
        self.number(length_of(text.as_bytes()));
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
    }

    /// Only for constant signatures, which are short.
    fn signature(&mut self, signature: &'static str) {
        self.bytes.push(u8::try_from(signature.len()).unwrap_or_default());
        self.bytes.extend_from_slice(signature.as_bytes());
        self.bytes.push(0);
    }

    fn field(&mut self, code: u8, kind: &'static str, value: &'static str) {
        self.align(8);
        self.bytes.push(code);
        self.signature(kind);
        match kind {
            "g" => self.signature(value),
            _ => self.string(value),
        }
    }
}

/// Texts are bounded long before they get here.
fn length_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or_default()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BusMessageKind {
    Return,
    Error,
    /// Calls and signals.
    Other,
}

/// The relevant parts of a received message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BusMessage {
    pub(super) kind: BusMessageKind,
    pub(super) reply_to: Option<u32>,
    /// Name of the error.
    pub(super) error: Option<String>,
    signature: String,
    order: ByteOrder,
    body: Vec<u8>,
}

/// Length of the whole message, from its first [`HEADER_BYTES`] bytes.
pub(super) fn length(head: &[u8]) -> Result<usize, BusError> {
    let (order, fields, body) = lengths(head)?;
    debug_assert!(matches!(order, ByteOrder::LittleEnd | ByteOrder::BigEnd));
    Ok(HEADER_BYTES + fields.next_multiple_of(8) + body)
}

/// Byte order, length of the fields and length of the body.
fn lengths(head: &[u8]) -> Result<(ByteOrder, usize, usize), BusError> {
    let order = match head.first() {
        Some(b'l') => ByteOrder::LittleEnd,
        Some(b'B') => ByteOrder::BigEnd,
        Some(_) | None => return Err(BusError::Garbled),
    };
    let mut reader = BusReader { bytes: head, at: 4, order };
    let (body, _serial, fields) = (reader.length()?, reader.number()?, reader.length()?);
    match HEADER_BYTES + fields.next_multiple_of(8) + body {
        0..=MAX_MESSAGE => Ok((order, fields, body)),
        _ => Err(BusError::TooLong),
    }
}

pub(super) fn read(message: &[u8]) -> Result<BusMessage, BusError> {
    let (order, fields, body) = lengths(message)?;
    let kind = match message.get(1) {
        Some(2) => BusMessageKind::Return,
        Some(3) => BusMessageKind::Error,
        Some(_) | None => BusMessageKind::Other,
    };
    let end = HEADER_BYTES + fields;
    let start = HEADER_BYTES + fields.next_multiple_of(8);
    let body = message.get(start..start + body).ok_or(BusError::Garbled)?.to_vec();
    let mut read = BusMessage { kind, reply_to: None, error: None, signature: String::new(), order, body };
    let mut reader = BusReader { bytes: message.get(..end).ok_or(BusError::Garbled)?, at: HEADER_BYTES, order };
    while reader.at < end {
        reader.align(8)?;
        let code = reader.byte()?;
        let value = reader.variant()?;
        match (code, value) {
            (4, FieldValue::Text(name)) => read.error = Some(name),
            (5, FieldValue::Number(serial)) => read.reply_to = Some(serial),
            (8, FieldValue::Text(signature)) => read.signature = signature,
            _ => {}
        }
    }
    Ok(read)
}

impl BusMessage {
    /// The arguments, if they are one array of strings.
    pub(super) fn strings(&self) -> Result<Vec<String>, BusError> {
        if self.signature != "as" {
            return Err(BusError::Garbled);
        }
        let mut reader = self.arguments();
        let end = reader.length()?.checked_add(reader.at).filter(|end| *end <= self.body.len());
        let end = end.ok_or(BusError::Garbled)?;
        let mut strings = Vec::new();
        while reader.at < end {
            strings.push(reader.string()?);
        }
        Ok(strings)
    }

    /// The first argument, if it is a string.
    pub(super) fn first_string(&self) -> Option<String> {
        self.signature.starts_with('s').then(|| self.arguments().string().ok()).flatten()
    }

    fn arguments(&self) -> BusReader<'_> {
        BusReader { bytes: &self.body, at: 0, order: self.order }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByteOrder {
    LittleEnd,
    BigEnd,
}

/// A value of a header field.
enum FieldValue {
    Text(String),
    Number(u32),
    /// A type that is never used here.
    Other,
}

/// Reads forward and never past the end.
struct BusReader<'a> {
    bytes: &'a [u8],
    at: usize,
    order: ByteOrder,
}

impl BusReader<'_> {
    fn take(&mut self, count: usize) -> Result<&[u8], BusError> {
        let end = self.at.checked_add(count).ok_or(BusError::Garbled)?;
        let taken = self.bytes.get(self.at..end).ok_or(BusError::Garbled)?;
        self.at = end;
        Ok(taken)
    }

    fn align(&mut self, to: usize) -> Result<(), BusError> {
        let gap = self.at.next_multiple_of(to) - self.at;
        self.take(gap).map(drop)
    }

    fn byte(&mut self) -> Result<u8, BusError> {
        self.take(1)?.first().copied().ok_or(BusError::Garbled)
    }

    fn number(&mut self) -> Result<u32, BusError> {
        self.align(4)?;
        let order = self.order;
        let bytes: [u8; 4] = self.take(4)?.try_into().map_err(|_| BusError::Garbled)?;
        Ok(match order {
            ByteOrder::LittleEnd => u32::from_le_bytes(bytes),
            ByteOrder::BigEnd => u32::from_be_bytes(bytes),
        })
    }

    /// No part is longer than a message may be, so sums of lengths cannot overflow.
    fn length(&mut self) -> Result<usize, BusError> {
        match usize::try_from(self.number()?) {
            Ok(length) if length <= MAX_MESSAGE => Ok(length),
            Ok(_) | Err(_) => Err(BusError::TooLong),
        }
    }

    fn string(&mut self) -> Result<String, BusError> {
        let length = self.length()?;
        self.text(length)
    }

    fn signature(&mut self) -> Result<String, BusError> {
        let length = usize::from(self.byte()?);
        self.text(length)
    }

    /// Reads `length` bytes and the terminating zero.
    fn text(&mut self, length: usize) -> Result<String, BusError> {
        let text = String::from_utf8_lossy(self.take(length)?).into_owned();
        match self.byte()? {
            0 => Ok(text),
            _ => Err(BusError::Garbled),
        }
    }

    fn variant(&mut self) -> Result<FieldValue, BusError> {
        let kind = self.signature()?;
        let size = match kind.as_str() {
            "s" | "o" => return self.string().map(FieldValue::Text),
            "g" => return self.signature().map(FieldValue::Text),
            "u" => return self.number().map(FieldValue::Number),
            "y" => 1,
            "n" | "q" => 2,
            "b" | "i" | "h" => 4,
            "x" | "t" | "d" => 8,
            // Header fields of the protocol use no other types.
            _ => return Err(BusError::Garbled),
        };
        self.align(size)?;
        self.take(size)?;
        Ok(FieldValue::Other)
    }
}

#[cfg(test)]
mod tests;
