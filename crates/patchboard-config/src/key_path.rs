//! Paths of keys such as `agents.default.max_tokens` or `bindings[2].agent`.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PathSegment {
    Key(String),
    Index(usize),
}

/// Position of a value in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyPath(Vec<PathSegment>);

impl KeyPath {
    /// Parses a dotted path of plain keys, as the program itself writes them.
    pub fn dotted(text: &str) -> Self {
        Self(text.split('.').filter(|part| !part.is_empty()).map(|part| PathSegment::Key(part.to_owned())).collect())
    }

    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.with(PathSegment::Key(key.to_owned()))
    }

    #[must_use]
    pub(crate) fn index(&self, index: usize) -> Self {
        self.with(PathSegment::Index(index))
    }

    fn with(&self, step: PathSegment) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    pub(crate) fn segments(&self) -> &[PathSegment] {
        &self.0
    }

    /// Whether one path is a prefix of the other, or equal.
    pub fn is_related_to(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(one, two)| one == two)
    }
}

/// Keys that are not bare in TOML are quoted, so that a path can be pasted.
impl fmt::Display for KeyPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                PathSegment::Index(index) => write!(formatter, "[{index}]")?,
                PathSegment::Key(key) => {
                    if position > 0 {
                        formatter.write_str(".")?;
                    }
                    formatter.write_str(&quoted_key(key))?;
                }
            }
        }
        Ok(())
    }
}

/// A key in TOML syntax: bare if possible.
pub(crate) fn quoted_key(key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if bare { key.to_owned() } else { toml::Value::String(key.to_owned()).to_string() }
}
