//! A user of this machine, by name or number.

use std::{fmt, fs, io, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Visitor};

const PASSWD_FILE: &str = "/etc/passwd";

/// Written as `"www-data"`, `"1001"` or `1001`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SystemUser {
    Name(String),
    Number(u32),
}

#[derive(Debug, thiserror::Error)]
pub enum UnknownUser {
    #[error("no user is named `{0}` in {PASSWD_FILE}; give the number that `id -u {0}` prints")]
    NotListed(String),
    #[error("cannot read {PASSWD_FILE}")]
    Unreadable(#[source] io::Error),
}

impl SystemUser {
    /// Its number on this machine. Names are looked up in `/etc/passwd` only.
    pub fn number(&self) -> Result<u32, UnknownUser> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Name(name) => {
                let users = fs::read_to_string(PASSWD_FILE).map_err(UnknownUser::Unreadable)?;
                number_of(name, &users).ok_or_else(|| UnknownUser::NotListed(name.clone()))
            }
        }
    }
}

fn number_of(name: &str, users: &str) -> Option<u32> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(name);
        // The second field is the former password field.
        is_it.then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

impl FromStr for SystemUser {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_name = !text.is_empty() && !text.contains([':', '\n']) && text.trim() == text;
        match text.parse() {
            Ok(number) if is_number => Ok(Self::Number(number)),
            _ if is_name && !is_number => Ok(Self::Name(text.to_owned())),
            _ => Err(format!("`{text}` is neither the name of a user nor a number")),
        }
    }
}

impl fmt::Display for SystemUser {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => formatter.write_str(name),
            Self::Number(number) => number.fmt(formatter),
        }
    }
}

impl Serialize for SystemUser {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SystemUser {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SystemUserVisitor;
        impl Visitor<'_> for SystemUserVisitor {
            type Value = SystemUser;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("the name or number of a user")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<SystemUser, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<SystemUser, E> {
                u32::try_from(number).map(SystemUser::Number).map_err(E::custom)
            }
            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<SystemUser, E> {
                u32::try_from(number).map(SystemUser::Number).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(SystemUserVisitor)
    }
}

impl schemars::JsonSchema for SystemUser {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SystemUser".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["string", "integer"], "x-kind": "user", "minimum": 0, "minLength": 1 })
    }
}

#[cfg(test)]
mod tests;
