//! The type names in a `ParameterSpec`: those of Python, of JSON Schema and of the bridge's own clients.

/// Whether the tool expects text, even if the text happens to be JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    Text,
    Other,
}

impl ParameterKind {
    /// Determines the kind from the type name of a `ParameterSpec`.
    pub fn of(type_name: &str) -> Self {
        match json_type(type_name) {
            Some("string") => Self::Text,
            _ => Self::Other,
        }
    }
}

/// The JSON Schema type of a parameter's type name; `None` if it is unknown or allows anything.
pub(crate) fn json_type(type_name: &str) -> Option<&'static str> {
    let (base, _) = type_name.split_once(['[', '<', '(']).unwrap_or((type_name, ""));
    Some(match base.trim().to_ascii_lowercase().as_str() {
        "string" | "str" | "text" => "string",
        "integer" | "int" | "int32" | "int64" => "integer",
        "float" | "number" | "double" => "number",
        "boolean" | "bool" => "boolean",
        "array" | "list" | "tuple" | "set" => "array",
        "object" | "map" | "dict" | "struct" => "object",
        "null" | "none" => "null",
        _ => return None,
    })
}

pub(crate) fn is_any(type_name: &str) -> bool {
    let name = type_name.trim();
    name.is_empty() || name.eq_ignore_ascii_case("any")
}

/// Types whose values are, or may be, sent as bytes.
pub(crate) fn is_binary(type_name: &str) -> bool {
    matches!(
        type_name.trim().to_ascii_lowercase().as_str(),
        "binary" | "bytes" | "bytearray" | "tensor" | "embedding" | "ndarray" | "image" | "audio"
    )
}
