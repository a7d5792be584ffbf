//! Limits that both ends of the bridge check: what the server takes from programs and what it takes from workers must be
//! the same, or one side refuses what the other accepted.

/// Longest correlation id in bytes; a call with a longer one gets a fresh id.
pub const MAX_CORRELATION_BYTES: usize = 256;

/// Most parameters of one tool; a tool with more is refused when it is registered and not offered when a worker lists it.
pub const MAX_TOOL_PARAMETERS: usize = 256;

/// Can this id travel in a header and join what is logged about a call?
pub fn is_correlation_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= MAX_CORRELATION_BYTES && id.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}
