//! Takes time, memory and stack.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

const MEBIBYTE: usize = 1024 * 1024;

pub(crate) fn spin() -> ! {
    let mut turns = 0_u64;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

/// Ends when an allocation fails: Rust gives up then.
pub(crate) fn grow_until_the_end() -> ! {
    let mut taken: Vec<Vec<u8>> = Vec::new();
    loop {
        // A value other than zero, so that the pages are really there.
        taken.push(black_box(vec![1; MEBIBYTE]));
    }
}

pub(crate) fn grow_until_refused() -> String {
    let mut taken: Vec<Vec<u8>> = Vec::new();
    loop {
        let mut block: Vec<u8> = Vec::new();
        if taken.try_reserve(1).is_err() || block.try_reserve_exact(MEBIBYTE).is_err() {
            return format!("refused after {} MiB", taken.len());
        }
        block.resize(MEBIBYTE, 1);
        taken.push(black_box(block));
    }
}

/// Deeper and deeper without end, on the stack of calls alone: every frame waits for a result it still has to use.
#[inline(never)]
#[expect(unconditional_recursion, reason = "this is the bad thing it does")]
pub(crate) fn recurse(depth: u64) -> u64 {
    recurse(depth.wrapping_mul(3) ^ 1).wrapping_mul(5) ^ depth
}

/// The same with a stack in memory.
#[inline(never)]
#[expect(unconditional_recursion, reason = "this is the bad thing it does")]
pub(crate) fn recurse_with_memory(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    recurse_with_memory(depth.wrapping_add(1)).wrapping_add(frame.iter().sum())
}

#[expect(clippy::panic, reason = "this is the bad thing it does")]
pub(crate) fn give_up(text: &str) -> ! {
    panic!("{text}")
}

pub(crate) fn count() -> u32 {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    CALLS.fetch_add(1, Ordering::Relaxed) + 1
}
