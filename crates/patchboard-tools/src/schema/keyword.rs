//! The keywords of JSON Schema that hold schemas, of all drafts, and what those apply to.

use serde_json::Value;

#[derive(Debug, Clone, Copy)]
pub(super) enum AppliesTo<'a> {
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

/// The schemas directly inside a schema, without those that only wait to be referred to.
pub(super) fn subschemas(schema: &Value) -> impl Iterator<Item = (AppliesTo<'_>, &Value)> {
    schema.as_object().into_iter().flatten().flat_map(|(keyword, value)| inside(keyword, value))
}

fn inside<'a>(keyword: &str, value: &'a Value) -> Vec<(AppliesTo<'a>, &'a Value)> {
    match (keyword, value) {
        ("not" | "if" | "then" | "else", _) => vec![(AppliesTo::Itself, value)],
        ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => each(schemas, AppliesTo::Itself),
        ("dependentSchemas" | "dependencies", Value::Object(schemas)) => each(schemas.values(), AppliesTo::Itself),
        ("prefixItems" | "items", Value::Array(schemas)) => {
            schemas.iter().enumerate().map(|(index, schema)| (AppliesTo::Item(index), schema)).collect()
        }
        ("items" | "additionalItems" | "unevaluatedItems" | "contains", _) => vec![(AppliesTo::Items, value)],
        ("properties", Value::Object(schemas)) => {
            schemas.iter().map(|(name, schema)| (AppliesTo::Member(name), schema)).collect()
        }
        ("patternProperties", Value::Object(schemas)) => each(schemas.values(), AppliesTo::Members),
        ("additionalProperties", _) => vec![(AppliesTo::OtherMembers, value)],
        ("unevaluatedProperties", _) => vec![(AppliesTo::Members, value)],
        ("propertyNames", _) => vec![(AppliesTo::MemberNames, value)],
        _ => Vec::new(),
    }
}

fn each<'a>(
    schemas: impl IntoIterator<Item = &'a Value>,
    applies_to: AppliesTo<'a>,
) -> Vec<(AppliesTo<'a>, &'a Value)> {
    schemas.into_iter().map(|schema| (applies_to, schema)).collect()
}
