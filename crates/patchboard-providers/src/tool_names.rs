//! Maps tool names to the form that model APIs accept: `[A-Za-z0-9_-]{1,64}`. Knows no dialect.
//!
//! A valid name is unchanged. In other names `.` becomes `__` and any other character `_`; if that is too long or
//! collides with another name, the name is truncated and gets a hash of the original as suffix. The mapping of an
//! offered tool depends on the offered tools only, so it stays stable while a conversation grows.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use patchboard_core::model::{ContentPart, ModelRequest};
use sha2::{Digest, Sha256};

const MAX_LENGTH: usize = 64;
const HASH_DIGITS: usize = 8;

/// The name mapping of one request, in both directions. Contains only names that change.
#[derive(Debug, Default)]
pub(crate) struct ToolNameMap {
    to_wire: HashMap<Arc<str>, Arc<str>>,
    to_board: HashMap<Arc<str>, Arc<str>>,
}

impl ToolNameMap {
    /// Covers offered tools and tools called in past messages.
    pub(crate) fn of(request: &ModelRequest) -> Self {
        let offered = request.tools.iter().map(|tool| &tool.name);
        let called = request.messages.iter().flat_map(|message| &message.parts).filter_map(|part| match part {
            ContentPart::ToolCall(call) => Some(&call.name),
            ContentPart::ToolResult(result) => Some(&result.name),
            ContentPart::Text(_) => None,
        });
        Self::new(offered, called)
    }

    pub(crate) fn new<'a>(
        offered: impl Iterator<Item = &'a Arc<str>> + Clone,
        called: impl Iterator<Item = &'a Arc<str>> + Clone,
    ) -> Self {
        let mut names = Self::default();
        if offered.clone().chain(called.clone()).all(|name| is_valid(name)) {
            return names;
        }
        let mut used: HashSet<Arc<str>> = offered.clone().filter(|name| is_valid(name)).cloned().collect();
        let mut candidates: HashMap<String, HashSet<&str>> = HashMap::new();
        for name in offered.clone().filter(|name| !is_valid(name)) {
            candidates.entry(sanitized(name)).or_default().insert(name);
        }
        for name in offered.filter(|name| !is_valid(name)) {
            let candidate = sanitized(name);
            // All names of a collision get a hash, so that none depends on the order of the others.
            let is_ambiguous = candidates.get(&candidate).is_some_and(|names| names.len() > 1);
            names.insert(name, if is_ambiguous { hashed(name, 0) } else { candidate }, &mut used);
        }
        for name in called.clone().filter(|name| is_valid(name)) {
            // A past name that equals a mapped one must not be confused with it.
            if names.to_board.contains_key(name) {
                names.insert(name, hashed(name, 0), &mut used);
            } else {
                used.insert(Arc::clone(name));
            }
        }
        for name in called.filter(|name| !is_valid(name)) {
            names.insert(name, sanitized(name), &mut used);
        }
        names
    }

    pub(crate) fn wire_name<'a>(&'a self, name: &'a str) -> &'a str {
        self.to_wire.get(name).map_or(name, |wire| wire)
    }

    /// The board's name for a called tool. Unknown names are passed on unchanged, so that the refusal can quote them.
    pub(crate) fn board_name(&self, wire: &str) -> Arc<str> {
        self.to_board.get(wire).cloned().unwrap_or_else(|| wire.into())
    }

    fn insert(&mut self, name: &Arc<str>, candidate: String, used: &mut HashSet<Arc<str>>) {
        if self.to_wire.contains_key(name) {
            return;
        }
        let mut wire: Arc<str> = candidate.into();
        let mut round = 0_u32;
        while !is_valid(&wire) || used.contains(&wire) {
            wire = hashed(name, round).into();
            round = round.saturating_add(1);
        }
        used.insert(Arc::clone(&wire));
        self.to_wire.insert(Arc::clone(name), Arc::clone(&wire));
        self.to_board.insert(wire, Arc::clone(name));
    }
}

fn is_valid(name: &str) -> bool {
    (1..=MAX_LENGTH).contains(&name.len()) && name.chars().all(allowed)
}

fn allowed(character: char) -> bool {
    matches!(character, 'A'..='Z' | 'a'..='z' | '0'..='9' | '_' | '-')
}

fn sanitized(name: &str) -> String {
    let mut plain = String::with_capacity(name.len() + 2);
    for character in name.chars() {
        match character {
            '.' => plain.push_str("__"),
            fine if allowed(fine) => plain.push(fine),
            _ => plain.push('_'),
        }
    }
    plain
}

fn hashed(name: &str, round: u32) -> String {
    let mut hash = Sha256::new();
    hash.update(name);
    if round > 0 {
        hash.update(round.to_be_bytes());
    }
    let mut wire = sanitized(name);
    wire.truncate(MAX_LENGTH - HASH_DIGITS - 1);
    wire.push('_');
    for byte in hash.finalize().iter().take(HASH_DIGITS / 2) {
        for digit in [byte >> 4, byte & 0xf] {
            wire.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
    wire
}

#[cfg(test)]
mod tests;
