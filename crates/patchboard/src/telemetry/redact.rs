//! Redacts secrets in log lines: known values and patterns of common keys.

use std::borrow::Cow;
use std::sync::{PoisonError, RwLock};

use secrecy::{ExposeSecret, SecretString};

const MASK: &str = "[redacted]";
/// Shorter values would redact ordinary words.
const MIN_SECRET_LEN: usize = 6;
/// Prefixes of common keys.
const KEY_PREFIXES: &[&str] = &["sk-", "pbk-", "Bearer ", "bearer."];
/// Minimum length of a key after its prefix.
const MIN_KEY_LEN: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct Redactor {
    secrets: RwLock<Vec<SecretString>>,
}

impl Redactor {
    pub(crate) fn add_secrets<'a>(&self, secrets: impl IntoIterator<Item = &'a SecretString>) {
        let mut known = self.secrets.write().unwrap_or_else(PoisonError::into_inner);
        for secret in secrets.into_iter().filter(|secret| secret.expose_secret().len() >= MIN_SECRET_LEN) {
            if !known.iter().any(|known| known.expose_secret() == secret.expose_secret()) {
                known.push(secret.clone());
            }
        }
    }

    pub(crate) fn redact<'a>(&self, line: &'a [u8]) -> Cow<'a, [u8]> {
        // Log lines are UTF-8; other bytes are written without a search.
        let Ok(text) = std::str::from_utf8(line) else { return Cow::Borrowed(line) };
        match self.redact_text(text) {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        }
    }

    pub(crate) fn redact_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for secret in self.secrets.read().unwrap_or_else(PoisonError::into_inner).iter() {
            if text.contains(secret.expose_secret()) {
                text = Cow::Owned(text.replace(secret.expose_secret(), MASK));
            }
        }
        for prefix in KEY_PREFIXES {
            if text.contains(prefix) {
                text = Cow::Owned(mask_after(&text, prefix));
            }
        }
        text
    }
}

/// Masks the key characters after every `prefix`.
fn mask_after(text: &str, prefix: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(prefix) {
        out.push_str(before);
        out.push_str(prefix);
        let is_key = |c: char| c.is_ascii_alphanumeric() || "-_.~+/=".contains(c);
        let tail = after.find(|c| !is_key(c)).unwrap_or(after.len());
        let (key, remaining) = after.split_at(tail);
        out.push_str(if key.len() >= MIN_KEY_LEN { MASK } else { key });
        rest = remaining;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests;
