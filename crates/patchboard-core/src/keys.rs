//! Keys: named secrets of clients, and what each client may do. Those of the configuration file and those created while
//! the server runs share one space of names.
//!
//! Core knows a secret only by its hash; surfaces make secrets and hash what clients show.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::caller::{Grant, GrantSet, Principal, Surface};
use crate::error::{BoardError, ErrorKind};
use crate::tool::Glob;

/// Keys of the file and created ones together; past it no key is created. Every sign-in with a token is compared with
/// all of them.
pub const MAX_KEYS: usize = 256;
/// Names of agents, patterns of tools and names of headers of one key.
pub const MAX_ENTRIES: usize = 64;
/// Bytes of one of them.
pub const MAX_ENTRY_BYTES: usize = 256;
const MAX_NAME_BYTES: usize = 64;

/// The surfaces on which keys are accepted.
pub const KEY_SURFACES: [Surface; 5] = [Surface::Gateway, Surface::Runs, Surface::Mcp, Surface::Hub, Surface::Bridge];

/// The surface of that name, if keys are accepted there.
pub fn key_surface(name: &str) -> Option<Surface> {
    KEY_SURFACES.into_iter().find(|surface| surface.name() == name)
}

/// The SHA-256 of a key's secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyHash(pub [u8; 32]);

impl KeyHash {
    /// Compares every byte, whatever the first ones are.
    fn is_same(&self, other: &Self) -> bool {
        let difference = self.0.iter().zip(other.0).fold(0, |difference, (left, right)| difference | (left ^ right));
        std::hint::black_box(difference) == 0
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash")
    }
}

/// What a key's clients may do beyond the rights of every client, and what not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyRights {
    /// The agents it may start, also as nested runs; `None` is all.
    pub agents: Option<Vec<Arc<str>>>,
    /// Where it is accepted; `None` is everywhere.
    pub surfaces: Option<Vec<Surface>>,
    /// The tools of its runs and calls; `None` is all.
    pub tools: Option<Vec<Glob>>,
    pub oversee: bool,
    pub budget: KeyBudget,
    /// Headers of its requests that name the person it acts for.
    pub trust_headers: Vec<Arc<str>>,
}

/// Limits on tokens, input and output together; `None` is unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyBudget {
    pub daily: Option<u64>,
    pub monthly: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySource {
    File,
    Created(Timestamp),
}

/// A key as it is configured or created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySpec {
    pub name: Arc<str>,
    pub hash: KeyHash,
    pub rights: KeyRights,
    pub source: KeySource,
}

/// A key in force.
#[derive(Debug, Clone)]
pub struct Key {
    pub spec: Arc<KeySpec>,
    /// Cancelled when clients that showed the secret have to be disconnected.
    pub revoked: CancellationToken,
}

/// The same key as it was when both were read.
impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.spec, &other.spec)
    }
}

impl Eq for Key {}

impl Key {
    fn new(spec: KeySpec) -> Self {
        Self { spec: Arc::new(spec), revoked: CancellationToken::new() }
    }

    pub fn principal(&self) -> Principal {
        Principal::Key(self.spec.name.clone())
    }

    /// Those of every client and, if it has it, the right to oversee.
    pub fn grants(&self) -> GrantSet {
        if self.spec.rights.oversee { GrantSet::CLIENT.with(Grant::Oversee) } else { GrantSet::CLIENT }
    }

    pub fn is_accepted_on(&self, surface: Surface) -> bool {
        self.spec.rights.surfaces.as_ref().is_none_or(|surfaces| surfaces.contains(&surface))
    }
}

impl KeySpec {
    pub fn may_start(&self, agent: &str) -> bool {
        self.rights.agents.as_ref().is_none_or(|agents| agents.iter().any(|name| **name == *agent))
    }

    pub fn may_use(&self, tool: &str) -> bool {
        self.rights.tools.as_ref().is_none_or(|tools| tools.iter().any(|glob| glob.matches(tool)))
    }

    /// Whether connections that showed the secret of `other` may stay.
    fn keeps_connections_of(&self, other: &Self) -> bool {
        let (rights, before) = (&self.rights, &other.rights);
        self.hash == other.hash && rights.surfaces == before.surfaces && rights.oversee == before.oversee
    }

    /// What is wrong with it, in words for whoever creates it.
    pub fn problem(&self) -> Option<String> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let name = &self.name;
        let starts_well = name.starts_with(|first: char| first.is_ascii_alphanumeric());
        if name.len() > MAX_NAME_BYTES || !starts_well || !name.bytes().all(fits) {
            let rule = "a key's name has 1 to 64 letters, digits, `-` and `_`, and starts with a letter or digit";
            return Some(rule.to_owned());
        }
        let globs = self.rights.tools.iter().flatten().map(|glob| Arc::<str>::from(glob.to_string()));
        let agents = self.rights.agents.iter().flatten().cloned();
        for (what, entries) in [("agents", agents.collect::<Vec<_>>()), ("tools", globs.collect())] {
            if entries.len() > MAX_ENTRIES {
                return Some(format!("a key has at most {MAX_ENTRIES} {what}"));
            }
            if entries.iter().any(|entry| entry.is_empty() || entry.len() > MAX_ENTRY_BYTES) {
                return Some(format!("each of a key's {what} has 1 to {MAX_ENTRY_BYTES} bytes"));
            }
        }
        let surfaces = self.rights.surfaces.iter().flatten();
        let unusable = surfaces.clone().find(|surface| !KEY_SURFACES.contains(surface))?;
        Some(format!("keys are not accepted on the surface {}", unusable.name()))
    }
}

/// A key of the file has the name of a created one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the key `{name}` of the configuration has the name of a created key")]
pub struct KeyNameClash {
    pub name: Arc<str>,
}

/// All keys in force.
#[derive(Debug, Default)]
pub struct KeyRing {
    keys: RwLock<BTreeMap<Arc<str>, Key>>,
}

impl KeyRing {
    /// The key with that hash. Always compares with every key, so that timing does not tell which one is near.
    pub fn authenticate(&self, hash: &KeyHash) -> Option<Key> {
        let mut found = None;
        for key in self.read().values() {
            if key.spec.hash.is_same(hash) {
                found = Some(key.clone());
            }
        }
        found
    }

    pub fn get(&self, name: &str) -> Option<Key> {
        self.read().get(name).cloned()
    }

    /// The key of that name, which was in force when its client signed in.
    pub fn require(&self, name: &str) -> Result<Key, BoardError> {
        self.get(name).ok_or_else(|| BoardError::forbidden(format!("the key `{name}` was revoked")))
    }

    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    /// By name.
    pub fn all(&self) -> Vec<Key> {
        self.read().values().cloned().collect()
    }

    /// Refuses a name that is taken.
    pub fn check_name(&self, name: &str) -> Result<(), BoardError> {
        let message = match self.get(name).map(|key| key.spec.source) {
            None if self.read().len() >= MAX_KEYS => {
                let message = format!("there are {MAX_KEYS} keys already: revoke one with `patchboard keys revoke`");
                return Err(BoardError::new(ErrorKind::Exhausted, message));
            }
            None => return Ok(()),
            Some(KeySource::File) => format!("the configuration has a key named `{name}`: take another name"),
            Some(KeySource::Created(_)) => {
                format!("there is a key named `{name}`: take another name, or revoke it with `patchboard keys revoke`")
            }
        };
        Err(BoardError::new(ErrorKind::Conflict, message))
    }

    pub(crate) fn add(&self, spec: KeySpec) {
        self.write().insert(spec.name.clone(), Key::new(spec));
    }

    /// Removes a key and disconnects its clients.
    pub(crate) fn remove(&self, name: &str) {
        if let Some(key) = self.write().remove(name) {
            key.revoked.cancel();
        }
    }

    /// Whether these keys of the file can stand beside the created ones.
    pub(crate) fn check_file_keys(&self, file: &[KeySpec]) -> Result<(), KeyNameClash> {
        let keys = self.read();
        let is_created =
            |name: &str| keys.get(name).is_some_and(|key| matches!(key.spec.source, KeySource::Created(_)));
        match file.iter().find(|spec| is_created(&spec.name)) {
            Some(spec) => Err(KeyNameClash { name: spec.name.clone() }),
            None => Ok(()),
        }
    }

    /// Replaces the keys of the file. Clients of a key that is gone, or whose secret or rights of connections changed,
    /// are disconnected. Returns the names of those that are gone.
    pub(crate) fn replace_file_keys(&self, file: Vec<KeySpec>) -> Vec<Arc<str>> {
        let mut keys = self.write();
        let is_of_file = |key: &Key| key.spec.source == KeySource::File;
        let mut before: BTreeMap<Arc<str>, Key> =
            keys.iter().filter(|(_, key)| is_of_file(key)).map(|(name, key)| (name.clone(), key.clone())).collect();
        keys.retain(|_, key| !is_of_file(key));
        for spec in file {
            let name = spec.name.clone();
            let key = match before.remove(&name) {
                Some(old) if spec.keeps_connections_of(&old.spec) => Key { spec: Arc::new(spec), ..old },
                Some(old) => {
                    old.revoked.cancel();
                    Key::new(spec)
                }
                None => Key::new(spec),
            };
            keys.insert(name, key);
        }
        for key in before.values() {
            key.revoked.cancel();
        }
        before.into_keys().collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<Arc<str>, Key>> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<Arc<str>, Key>> {
        self.keys.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
