//! Estimates the work of a validation without performing it.
//!
//! A few lines of schema can make a validator try an exponential number of combinations: alternatives that refer to
//! alternatives that refer to … . A running validation cannot be interrupted, so an expensive one is not started.
//! Shared parts are estimated once per value they apply to, which keeps the estimate itself cheap.

use std::collections::HashMap;

use serde_json::Value;

use super::keyword::{SubschemaTarget, subschemas};
use super::reference::target;

/// A step is a part of the schema applied to a part of the arguments. Large arguments may take more steps.
const MAX_STEPS: u64 = 100_000;
const MAX_STEPS_PER_NODE: u64 = 64;
/// The validator recurses as deep as this estimate does.
const MAX_DEPTH: usize = 400;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum CheckCost {
    Acceptable,
    TooMuch,
    /// The schema refers to itself for the same value, so the validation would not end.
    Endless,
}

/// `size` is the number of nodes in the arguments.
pub(super) fn check_cost(root: &Value, arguments: &Value, size: u64) -> CheckCost {
    let limit = MAX_STEPS.saturating_add(size.saturating_mul(MAX_STEPS_PER_NODE));
    let mut estimator = CostEstimator { root, limit, estimates: HashMap::new(), visited: 0 };
    match estimator.estimate(root, arguments, 0) {
        Ok(steps) if steps <= limit => CheckCost::Acceptable,
        Ok(_) | Err(EstimateError::TooMuch) => CheckCost::TooMuch,
        Err(EstimateError::Endless) => CheckCost::Endless,
    }
}

struct CostEstimator<'a> {
    root: &'a Value,
    limit: u64,
    /// Keyed by the addresses of schema and value. `None` while the estimate is in progress.
    estimates: HashMap<(*const Value, *const Value), Option<u64>>,
    visited: u64,
}

enum EstimateError {
    TooMuch,
    Endless,
}

/// Stands for a member's name, which has no parts, like every string.
static MEMBER_NAME: Value = Value::Null;

impl CostEstimator<'_> {
    fn estimate(&mut self, schema: &Value, value: &Value, depth: usize) -> Result<u64, EstimateError> {
        self.visited += 1;
        if depth > MAX_DEPTH || self.visited > self.limit {
            return Err(EstimateError::TooMuch);
        }
        let mut steps: u64 = 1;
        if let Some(Ok(target)) = schema.get("$ref").and_then(Value::as_str).map(|it| target(self.root, it)) {
            steps = steps.saturating_add(self.estimate_shared(target, value, depth + 1)?);
        }
        for (applies_to, subschema) in subschemas(schema) {
            for applicable in applicable_values(schema, applies_to, value) {
                steps = steps.saturating_add(self.estimate(subschema, applicable, depth + 1)?);
            }
        }
        Ok(steps)
    }

    fn estimate_shared(&mut self, schema: &Value, value: &Value, depth: usize) -> Result<u64, EstimateError> {
        let key = (std::ptr::from_ref(schema), std::ptr::from_ref(value));
        match self.estimates.get(&key) {
            Some(Some(steps)) => return Ok(*steps),
            Some(None) => return Err(EstimateError::Endless),
            None => {}
        }
        self.estimates.insert(key, None);
        let steps = self.estimate(schema, value, depth)?;
        self.estimates.insert(key, Some(steps));
        Ok(steps)
    }
}

/// The parts of `value` that a subschema applies to.
fn applicable_values<'a>(schema: &Value, applies_to: SubschemaTarget<'_>, value: &'a Value) -> Vec<&'a Value> {
    let members = || value.as_object().into_iter().flatten();
    match applies_to {
        SubschemaTarget::Itself => vec![value],
        SubschemaTarget::Item(index) => value.get(index).into_iter().collect(),
        SubschemaTarget::Items => value.as_array().into_iter().flatten().collect(),
        SubschemaTarget::Member(name) => value.get(name).into_iter().collect(),
        SubschemaTarget::Members => members().map(|(_, member)| member).collect(),
        SubschemaTarget::OtherMembers => {
            let named = schema.get("properties");
            let others = members().filter(|(name, _)| named.and_then(|named| named.get(name.as_str())).is_none());
            others.map(|(_, member)| member).collect()
        }
        SubschemaTarget::MemberNames => members().map(|_| &MEMBER_NAME).collect(),
    }
}

#[cfg(test)]
mod tests;
