//! `batch`: several calls at once. The executor runs them, because it runs every call; this module has the spec, the
//! parser and the rendering of results.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::text::{cut, cut_with_size};
use crate::tool::{ToolEffect, ToolKind, ToolOutput, ToolSpec, UnknownOutcomePolicy};

const NAME: &str = "batch";
const MAX_CALLS: usize = 25;
/// Each result is cut to this; the model can repeat a single call outside of a batch to see more.
const RESULT_BYTES: usize = 4 * 1024;
/// All results together. If many are long, each is cut to its share, so that the last ones are not lost.
const TOTAL_BYTES: usize = 48 * 1024;
/// Names are chosen by the model; a longer one is no tool's name.
const NAME_BYTES: usize = 200;

pub fn spec() -> ToolSpec {
    ToolSpec {
        name: NAME.into(),
        description: "Call several tools at once, side by side, and get all results in order. Only for calls that do \
                      not depend on each other. Each result is cut at 4096 bytes; call a tool by itself to see more. \
                      A batch cannot hold another batch."
            .into(),
        input_schema: Arc::new(json!({
            "type": "object",
            "properties": {
                "calls": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": MAX_CALLS,
                    "items": {
                        "type": "object",
                        "properties": {
                            "tool": {"type": "string", "minLength": 1, "description": "The tool's name."},
                            "parameters": {"type": "object", "description": "Its arguments."}
                        },
                        "required": ["tool", "parameters"],
                        "additionalProperties": false
                    }
                }
            },
            "required": ["calls"],
            "additionalProperties": false
        })),
        // Its calls are decided individually, but some of them may write.
        effect: ToolEffect::Writes,
        unknown_outcome: UnknownOutcomePolicy::Ask,
        timeout: None,
        kind: ToolKind::BuiltIn,
        traits: None,
    }
}

pub fn is_batch(spec: &ToolSpec) -> bool {
    &*spec.name == NAME && spec.kind == ToolKind::BuiltIn
}

/// A tool's name and its arguments.
pub type NamedCall = (Arc<str>, Arc<Value>);

/// The calls in order; the error is a message for the model.
pub fn parse(arguments: &Value) -> Result<Vec<NamedCall>, String> {
    let calls = arguments.get("calls").and_then(Value::as_array).ok_or("`calls` must be a list of calls")?;
    if calls.is_empty() || calls.len() > MAX_CALLS {
        return Err(format!("a batch holds 1 to {MAX_CALLS} calls, not {}", calls.len()));
    }
    let one = |call: &Value| {
        let tool = call.get("tool").and_then(Value::as_str).ok_or("every call names its `tool`")?;
        let parameters = call.get("parameters").cloned().unwrap_or_else(|| json!({}));
        if !parameters.is_object() {
            return Err(format!("`parameters` of `{tool}` must be an object"));
        }
        Ok((Arc::from(tool), Arc::new(parameters)))
    };
    calls.iter().map(one).collect()
}

/// All results as one output; an error only if every call failed.
pub fn render(results: &[(Arc<str>, ToolOutput)]) -> ToolOutput {
    let result_limit = fair_result_limit(results.iter().map(|(_, output)| output.content.len()).collect());
    let mut content = String::new();
    for (number, (tool, output)) in results.iter().enumerate() {
        let status = if output.is_error { "error" } else { "ok" };
        let (tool, shown) = (cut(tool, NAME_BYTES), cut_with_size(&output.content, result_limit));
        if number > 0 {
            content.push_str("\n\n");
        }
        // Writing to a string cannot fail.
        let _written = write!(content, "[{}] {tool}: {status}\n{shown}", number + 1);
    }
    let is_error = results.iter().all(|(_, output)| output.is_error);
    ToolOutput { content: content.into(), is_error, data: None }
}

/// The limit of each result: short ones are shown whole, and the long ones share the remaining bytes.
fn fair_result_limit(mut sizes: Vec<usize>) -> usize {
    sizes.sort_unstable();
    let mut remaining = TOTAL_BYTES;
    for (index, &size) in sizes.iter().enumerate() {
        let fair = remaining / (sizes.len() - index);
        let size = size.min(RESULT_BYTES);
        if size > fair {
            return fair;
        }
        remaining -= size;
    }
    RESULT_BYTES
}

#[cfg(test)]
mod tests;
