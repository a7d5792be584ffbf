//! A strict reader of the protobuf wire format.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireType {
    Varint,
    Fixed64,
    Bytes,
    Fixed32,
}

/// The unread bytes. Every read returns `None` where an encoder would have written something else.
pub(super) struct WireReader<'a>(pub(super) &'a [u8]);

impl<'a> WireReader<'a> {
    pub(super) fn is_done(&self) -> bool {
        self.0.is_empty()
    }

    /// A field's number and wire type.
    pub(super) fn key(&mut self) -> Option<(u64, WireType)> {
        let key = self.varint()?;
        let wire = match key & 7 {
            0 => WireType::Varint,
            1 => WireType::Fixed64,
            2 => WireType::Bytes,
            5 => WireType::Fixed32,
            _ => return None,
        };
        Some((key >> 3, wire))
    }

    /// Accepts the shortest encoding only.
    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for index in 0..10_u32 {
            let byte = *self.take(1)?.first()?;
            let bits = u64::from(byte & 0x7f);
            if index == 9 && bits > 1 {
                return None;
            }
            value |= bits << (7 * index);
            if byte & 0x80 == 0 {
                return (index == 0 || byte != 0).then_some(value);
            }
        }
        None
    }

    pub(super) fn signed(&mut self) -> Option<i64> {
        self.varint().map(u64::cast_signed)
    }

    pub(super) fn fixed64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub(super) fn fixed32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        self.take(length)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}
