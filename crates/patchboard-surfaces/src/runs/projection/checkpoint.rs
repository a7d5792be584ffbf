//! Checkpoint ids: UUIDs of version 6, which sort by time. Derived only from the run and the time, so that every
//! projection of the run yields the same id.

use jiff::Timestamp;
use patchboard_core::id::RunId;

/// Offset between the UUID epoch, the first day of the Gregorian calendar, and the Unix epoch, in 100 ns.
const GREGORIAN_OFFSET: i128 = 0x01B2_1DD2_1381_4000;

pub(super) fn checkpoint_id(run: RunId, at: Timestamp) -> String {
    let ticks = at.as_nanosecond() / 100 + GREGORIAN_OFFSET;
    // Earlier times cannot be represented.
    let ticks = u64::try_from(ticks).unwrap_or(0);
    let high = ticks >> 28 & 0xffff_ffff;
    let middle = ticks >> 12 & 0xffff;
    let low = ticks & 0x0fff | 0x6000;
    // The remaining bits come from the run's random id: clock sequence with the variant, and a node with the multicast
    // bit set, which RFC 9562 requires for nodes that are not MAC addresses.
    let own = run.0.as_u128();
    let clock = own >> 48 & 0x3fff | 0x8000;
    let node = own & 0xffff_ffff_ffff | 0x0100_0000_0000;
    format!("{high:08x}-{middle:04x}-{low:04x}-{clock:04x}-{node:012x}")
}
