//! Value types of the configuration: written as strings in the file, parsed and validated on load, plain data
//! afterwards.

mod hours;
mod listen;
mod secret;
mod size;
mod timespan;
mod user;

#[cfg(test)]
mod tests;

pub use hours::DayHours;
pub use listen::ListenAddress;
pub use secret::{SECRET_BYTES_MAX, SecretError, SecretRef};
pub use size::ByteSize;
pub use timespan::TimeSpan;
pub use user::SystemUser;

/// The schema attribute for the kind of a string value, by which checks, the sample file and the reference distinguish
/// a duration from plain text.
pub(crate) const KIND: &str = "x-kind";

/// Serde and schema implementations for a type that is written as a string.
///
/// The parse error becomes the serde error, so every such type has the same wording wherever it is read.
macro_rules! string_value {
    ($type:ty, kind: $kind:literal, expects: $expects:literal, pattern: $pattern:literal) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                struct TextVisitor;
                impl serde::de::Visitor<'_> for TextVisitor {
                    type Value = $type;
                    fn expecting(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
                        formatter.write_str($expects)
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(TextVisitor)
            }
        }

        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "x-kind": $kind,
                    "pattern": $pattern,
                })
            }
        }
    };
}
use string_value;
