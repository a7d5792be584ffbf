//! Secrets of keys: made here, and known to the board only by their hash.
//!
//! A plain SHA-256 is enough: a created secret has 244 random bits, so nobody who reads the hash can try them all. The
//! slow hashes for passwords would cost every sign-in what they cost an attacker.

use patchboard_core::keys::KeyHash;
use secrecy::SecretString;
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// Tells people, and programs that look for leaked secrets, what they see. The log removes what begins with it.
const PREFIX: &str = "pbk-";

/// A new secret with its hash: two version 4 UUIDs, each with six fixed bits.
pub fn new_key_secret() -> (SecretString, KeyHash) {
    let secret = format!("{PREFIX}{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
    let hash = key_hash(&secret);
    (secret.into(), hash)
}

pub fn key_hash(secret: &str) -> KeyHash {
    KeyHash(Sha256::digest(secret).into())
}
