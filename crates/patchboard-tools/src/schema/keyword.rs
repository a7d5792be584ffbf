//! The JSON Schema keywords of all drafts that contain subschemas, and the values those apply to.

use serde_json::Value;

#[derive(Debug, Clone, Copy)]
pub(super) enum SubschemaTarget<'a> {
    /// The same value.
    Itself,
    /// The item at this index.
    Item(usize),
    Items,
    /// The member of this name.
    Member(&'a str),
    Members,
    /// Members that `properties` does not name.
    OtherMembers,
    MemberNames,
}

/// The direct subschemas of a schema, without definitions that apply only where they are referred to.
pub(super) fn subschemas(schema: &Value) -> impl Iterator<Item = (SubschemaTarget<'_>, &Value)> {
    schema.as_object().into_iter().flatten().flat_map(|(keyword, value)| keyword_subschemas(keyword, value))
}

fn keyword_subschemas<'a>(keyword: &str, value: &'a Value) -> Vec<(SubschemaTarget<'a>, &'a Value)> {
    match (keyword, value) {
        ("not" | "if" | "then" | "else", _) => vec![(SubschemaTarget::Itself, value)],
        ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => each(schemas, SubschemaTarget::Itself),
        ("dependentSchemas" | "dependencies", Value::Object(schemas)) => {
            each(schemas.values(), SubschemaTarget::Itself)
        }
        ("prefixItems" | "items", Value::Array(schemas)) => {
            schemas.iter().enumerate().map(|(index, schema)| (SubschemaTarget::Item(index), schema)).collect()
        }
        ("items" | "additionalItems" | "unevaluatedItems" | "contains", _) => vec![(SubschemaTarget::Items, value)],
        ("properties", Value::Object(schemas)) => {
            schemas.iter().map(|(name, schema)| (SubschemaTarget::Member(name), schema)).collect()
        }
        ("patternProperties", Value::Object(schemas)) => each(schemas.values(), SubschemaTarget::Members),
        ("additionalProperties", _) => vec![(SubschemaTarget::OtherMembers, value)],
        ("unevaluatedProperties", _) => vec![(SubschemaTarget::Members, value)],
        ("propertyNames", _) => vec![(SubschemaTarget::MemberNames, value)],
        _ => Vec::new(),
    }
}

fn each<'a>(
    schemas: impl IntoIterator<Item = &'a Value>,
    applies_to: SubschemaTarget<'a>,
) -> Vec<(SubschemaTarget<'a>, &'a Value)> {
    schemas.into_iter().map(|schema| (applies_to, schema)).collect()
}
