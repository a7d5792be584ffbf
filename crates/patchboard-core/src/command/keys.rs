//! Keys of clients.

use std::sync::Arc;

use super::Command;
use crate::keys::{KeyHash, KeyRights};
use crate::reply::KeyReport;

/// Creates a key. The caller makes its secret; the board gets and stores only the hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateKey {
    pub name: Arc<str>,
    pub hash: KeyHash,
    pub rights: KeyRights,
}

impl Command for CreateKey {
    type Reply = KeyReport;
}

/// All keys, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListKeys;

impl Command for ListKeys {
    type Reply = Vec<KeyReport>;
}

/// Revokes a created key: its clients are disconnected and its runs cancelled. A key of the file is revoked there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevokeKey {
    pub name: Arc<str>,
}

impl Command for RevokeKey {
    type Reply = ();
}
