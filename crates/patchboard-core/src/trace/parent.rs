//! A position in a trace and its text form of W3C Trace Context.

use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceParent {
    /// Not zero.
    pub trace: [u8; 16],
    /// The parent of the spans to come. Not zero.
    pub span: [u8; 8],
    /// The caller that started the trace wants it recorded.
    pub is_sampled: bool,
}

/// Version, trace, span and flags with their hyphens.
const LENGTH: usize = 55;
const SAMPLED: u8 = 1;

impl TraceParent {
    /// Later versions may append fields to these four; any other deviation from the form gives `None`.
    pub fn parse(text: &str) -> Option<Self> {
        let (known, rest) = text.split_at_checked(LENGTH)?;
        let mut parts = known.split('-');
        let [version] = parse_hex(parts.next()?)?;
        let trace = parse_hex(parts.next()?)?;
        let span = parse_hex(parts.next()?)?;
        let [flags] = parse_hex(parts.next()?)?;
        let has_valid_length = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest.starts_with('-'),
        };
        let is_valid = has_valid_length && parts.next().is_none() && trace != [0; 16] && span != [0; 8];
        is_valid.then_some(Self { trace, span, is_sampled: flags & SAMPLED != 0 })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = if self.is_sampled { "01" } else { "00" };
        write!(f, "00-{}-{}-{flags}", hex::encode(self.trace), hex::encode(self.span))
    }
}

impl fmt::Debug for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Parses exactly `N` bytes in lower-case hexadecimal.
fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut found = [0; N];
    let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
    (is_lower && hex::decode_to_slice(text, &mut found).is_ok()).then_some(found)
}

#[cfg(test)]
mod tests;
