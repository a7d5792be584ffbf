//! Validates tool arguments against JSON Schemas. Schemas also come from third parties (MCP servers, workers, plugins),
//! so compiling and validating are bounded, and references are never fetched.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ReferencingError, ValidationError, Validator};
use patchboard_core::port::{SchemaValidator, SchemaViolation};
use serde_json::Value;

mod bounds;
mod cost;
mod keyword;
mod reference;

use crate::text::clipped;
use bounds::{MAX_ARGUMENTS_DEPTH, is_usable_schema, size_of_arguments};
use cost::{CheckCost, check_cost};
use reference::{ReferenceUse, references};

/// Compiled schemas kept; past this the least recently used is dropped and would be compiled again.
const MAX_CACHED: usize = 256;
/// Further violations are only counted: a model that fixes three sees the next ones on its next call.
const MAX_PROBLEMS: usize = 3;
const MAX_PROBLEM_BYTES: usize = 300;
/// Length of a parameter's name in a message, because callers choose the names.
const MAX_NAME_BYTES: usize = 100;
/// Bounds on backtracking patterns, and on the memory of compiled ones.
const MAX_BACKTRACKING: usize = 100_000;
const MAX_PATTERN_BYTES: usize = 1024 * 1024;

/// The core's `SchemaValidator`, implemented with `jsonschema`.
#[derive(Default)]
pub struct JsonSchemaCheck {
    cache: Mutex<SchemaCache>,
}

/// Keyed by content, so that equal schemas share one validator.
#[derive(Default)]
struct SchemaCache {
    entries: HashMap<Arc<Value>, CachedSchema>,
    /// Counts lookups; the entry with the lowest `last_used` is the least recently used.
    lookups: u64,
}

struct CachedSchema {
    compiled: CompileResult,
    last_used: u64,
}

/// An unusable schema is cached as well, so that not every call compiles it again.
type CompileResult = Result<Arc<CompiledSchema>, Arc<str>>;

struct CompiledSchema {
    validator: Validator,
    references: ReferenceUse,
}

impl SchemaValidator for JsonSchemaCheck {
    fn check(&self, schema: &Arc<Value>, arguments: &Value) -> Result<(), SchemaViolation> {
        if !is_usable_schema(schema) {
            return Err(SchemaViolation::new("the tool's own schema is too large or too deep to be used"));
        }
        let Some(size) = size_of_arguments(arguments) else {
            let message = format!("the arguments are nested more than {MAX_ARGUMENTS_DEPTH} levels deep");
            return Err(SchemaViolation::new(message));
        };
        let compiled_schema = self.compiled(schema).map_err(|reason| SchemaViolation::new(&*reason))?;
        if compiled_schema.references == ReferenceUse::Within {
            match check_cost(schema, arguments, size) {
                CheckCost::Acceptable => {}
                CheckCost::TooMuch => return Err(SchemaViolation::new("checking these arguments would take too long")),
                CheckCost::Endless => {
                    return Err(SchemaViolation::new("the tool's own schema refers to itself without end"));
                }
            }
        }
        if compiled_schema.validator.is_valid(arguments) {
            return Ok(());
        }
        let parameter = compiled_schema.validator.iter_errors(arguments).next().and_then(|error| parameter(&error));
        Err(SchemaViolation { parameter, text: describe_errors(compiled_schema.validator.iter_errors(arguments)) })
    }
}

impl JsonSchemaCheck {
    fn compiled(&self, schema: &Arc<Value>) -> CompileResult {
        if let Some(compiled) = self.cache().get(schema) {
            return compiled;
        }
        // Compiled without the lock: other calls need not wait, and compiling the same schema twice is harmless.
        let compiled = compile(schema);
        self.cache().put(schema.clone(), compiled.clone());
        compiled
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, SchemaCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SchemaCache {
    fn get(&mut self, schema: &Arc<Value>) -> Option<CompileResult> {
        self.lookups += 1;
        let entry = self.entries.get_mut(schema)?;
        entry.last_used = self.lookups;
        Some(entry.compiled.clone())
    }

    fn put(&mut self, schema: Arc<Value>, compiled: CompileResult) {
        if self.entries.len() >= MAX_CACHED && !self.entries.contains_key(&schema) {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.last_used).map(|(schema, _)| schema.clone());
            if let Some(oldest) = oldest {
                self.entries.remove(&oldest);
            }
        }
        self.entries.insert(schema, CachedSchema { compiled, last_used: self.lookups });
    }
}

impl fmt::Debug for JsonSchemaCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonSchemaCheck").field("cached", &self.cache().entries.len()).finish()
    }
}

fn compile(schema: &Value) -> CompileResult {
    let references = references(schema).map_err(|reason| format!("the tool's own schema {reason}"))?;
    let patterns = PatternOptions::fancy_regex()
        .backtrack_limit(MAX_BACKTRACKING)
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_PATTERN_BYTES);
    let result = jsonschema::options().offline().with_pattern_options(patterns).build(schema);
    let validator = result.map_err(|error| compile_error(&error))?;
    Ok(Arc::new(CompiledSchema { validator, references }))
}

fn compile_error(error: &ValidationError<'_>) -> String {
    let kind = error.kind();
    let reason = if let ValidationErrorKind::Referencing(ReferencingError::Unretrievable { uri, .. }) = kind {
        format!("refers to `{}`, which is not fetched", clipped(uri, MAX_PROBLEM_BYTES))
    } else if let ValidationErrorKind::Referencing(ReferencingError::UnknownSpecification { specification }) = kind {
        format!("has the unknown `$schema` `{}`", clipped(specification, MAX_PROBLEM_BYTES))
    } else {
        format!("is not valid: {}", clipped(error, MAX_PROBLEM_BYTES))
    };
    format!("the tool's own schema {reason}")
}

/// The parameter that an error is about, and what is wrong with it.
fn parameter(error: &ValidationError<'_>) -> Option<(Arc<str>, String)> {
    let pointer = error.instance_path().as_str();
    let (name, reason) = match (pointer.strip_prefix('/'), error.kind()) {
        (Some(path), _) => {
            let (name, nested_path) =
                path.split_once('/').map_or((path, None), |(name, nested_path)| (name, Some(nested_path)));
            // Unescapes the JSON pointer.
            let name = name.replace("~1", "/").replace("~0", "~");
            let message = clipped(error, MAX_PROBLEM_BYTES);
            let nested_path =
                nested_path.map(|nested_path| format!("at `/{}`: {message}", clipped(&nested_path, MAX_PROBLEM_BYTES)));
            (name, nested_path.unwrap_or(message))
        }
        (None, ValidationErrorKind::Required { property }) => {
            (property.as_str()?.to_owned(), "it is required".to_owned())
        }
        (None, ValidationErrorKind::AdditionalProperties { unexpected }) => {
            (unexpected.first()?.clone(), "the tool does not take it".to_owned())
        }
        (None, _) => return None,
    };
    Some((clipped(&name.escape_debug(), MAX_NAME_BYTES).into(), reason))
}

fn describe_errors<'a>(errors: impl Iterator<Item = ValidationError<'a>>) -> String {
    let mut description = String::new();
    for (index, error) in errors.take(MAX_PROBLEMS + 1).enumerate() {
        if index > 0 {
            description.push_str("; ");
        }
        if index == MAX_PROBLEMS {
            description.push_str("and there are more problems");
            break;
        }
        let pointer = error.instance_path().as_str();
        if !pointer.is_empty() {
            description.push_str(&format!("at `{}`: ", clipped(&pointer, MAX_PROBLEM_BYTES)));
        }
        description.push_str(&clipped(&error, MAX_PROBLEM_BYTES));
    }
    description
}

#[cfg(test)]
mod tests;
