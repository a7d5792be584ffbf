//! Checks of single values. Errors do not repeat values that may be secrets.

use std::{fmt::Display, path::Path};

use crate::{
    glob,
    path_rules::PathRules,
    problem::ProblemCode,
    shape::{AllowedWord, LeafKind, NumberRange},
    tree::{ConfigNode, NodeContent},
    types::{ByteSize, DayHours, ListenAddress, SecretRef, SystemUser, TimeSpan},
    url,
};
use patchboard_core::text::nearest;

/// Why a value is invalid.
pub(crate) struct LeafError {
    pub code: ProblemCode,
    pub message: String,
    pub hint: Option<String>,
}

impl LeafError {
    fn new(code: ProblemCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None }
    }

    fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Checks one value; returns the replacement if a path was resolved.
pub(crate) fn check(node: &ConfigNode, leaf: &LeafKind, rules: &PathRules) -> Result<Option<toml::Value>, LeafError> {
    let NodeContent::Leaf(value) = &node.content else {
        return Err(wrong_type(node, leaf));
    };
    match (leaf, value) {
        (LeafKind::Flag, toml::Value::Boolean(_)) => Ok(None),
        (LeafKind::Integer(range), toml::Value::Integer(number)) => in_range(*number, *range),
        (LeafKind::User, toml::Value::Integer(number)) => {
            in_range(*number, NumberRange { min: Some(0), max: Some(i64::from(u32::MAX)) })
        }
        (LeafKind::Number(range), toml::Value::Float(number)) if number.is_finite() => in_range(*number, *range),
        (LeafKind::Number(range), toml::Value::Integer(number)) => {
            #[expect(clippy::cast_precision_loss, reason = "only compared with small bounds")]
            let number = *number as f64;
            in_range(number, *range)
        }
        (_, toml::Value::String(text)) if leaf.is_text() => check_text(node, leaf, text, rules),
        _ => Err(wrong_type(node, leaf)),
    }
}

fn check_text(
    node: &ConfigNode,
    leaf: &LeafKind,
    text: &str,
    rules: &PathRules,
) -> Result<Option<toml::Value>, LeafError> {
    let path = |text: &str| {
        rules.resolve(text, &node.origin).map_err(|reason| LeafError::new(ProblemCode::MissingFile, reason))
    };
    match leaf {
        // Text that may be a reference; its relative path is resolved like any other.
        LeafKind::Variable => match text.parse() {
            Ok(SecretRef::File(file)) => Ok(Some(secret_file(&path(&file.to_string_lossy())?))),
            Ok(SecretRef::Env(_)) | Err(_) => Ok(None),
        },
        LeafKind::Duration { zero } => {
            let span: TimeSpan = parse(text, ProblemCode::BadDuration)?;
            if span.is_zero() && !zero {
                return Err(LeafError::new(ProblemCode::BadDuration, "must be longer than zero"));
            }
            Ok(None)
        }
        LeafKind::Size => match parse::<ByteSize>(text, ProblemCode::BadSize)?.get() {
            0 => Err(LeafError::new(ProblemCode::BadSize, "must be larger than zero")),
            _ => Ok(None),
        },
        LeafKind::Listen => parse::<ListenAddress>(text, ProblemCode::BadAddress)
            .map(|_| None)
            .map_err(|fault| fault.with_hint("use an IP address and a port: 127.0.0.1:7200 for this machine alone")),
        LeafKind::Hours => parse::<DayHours>(text, ProblemCode::WrongType).map(|_| None),
        LeafKind::User => parse::<SystemUser>(text, ProblemCode::WrongType).map(|_| None),
        LeafKind::Choice(choices) => check_choice(text, choices),
        LeafKind::Secret => match parse::<SecretRef>(text, ProblemCode::LiteralSecret) {
            Ok(SecretRef::File(file)) => Ok(Some(secret_file(&path(&file.to_string_lossy())?))),
            Ok(SecretRef::Env(_)) => Ok(None),
            Err(fault) => Err(fault.with_hint(SECRET_HINT)),
        },
        _ if text.trim().is_empty() => {
            Err(LeafError::new(ProblemCode::WrongType, "is empty").with_hint("leave the key out instead"))
        }
        LeafKind::Path => Ok(Some(path(text)?.display().to_string().into())),
        LeafKind::DataPath => {
            let expanded =
                rules.expand_home(text).map_err(|reason| LeafError::new(ProblemCode::MissingFile, reason))?;
            Ok(Some(expanded.display().to_string().into()))
        }
        LeafKind::Url => match url::invalid_reason(text) {
            Some(complaint) => Err(LeafError::new(ProblemCode::BadUrl, complaint.message).with_hint(complaint.hint)),
            None => Ok(None),
        },
        LeafKind::Glob => match glob::invalid_reason(text) {
            Some(complaint) => Err(LeafError::new(ProblemCode::BadPattern, complaint)),
            None => Ok(None),
        },
        LeafKind::Text | LeafKind::Flag | LeafKind::Integer(_) | LeafKind::Number(_) => Ok(None),
    }
}

fn secret_file(path: &Path) -> toml::Value {
    SecretRef::File(path.to_owned()).to_string().into()
}

const SECRET_HINT: &str = "write \"env:NAME\" or \"file:PATH\" and keep the secret there";

fn parse<T: std::str::FromStr<Err = String>>(text: &str, code: ProblemCode) -> Result<T, LeafError> {
    text.parse().map_err(|reason: String| LeafError::new(code, reason))
}

fn check_choice(text: &str, choices: &[AllowedWord]) -> Result<Option<toml::Value>, LeafError> {
    if choices.iter().any(|choice| choice.word == text) {
        return Ok(None);
    }
    let words = choices.iter().map(|choice| choice.word.as_str());
    let hint = match nearest(text, words.clone()) {
        Some(meant) => format!("did you mean \"{meant}\"?"),
        None => format!("choose one of: {}", words.collect::<Vec<_>>().join(", ")),
    };
    Err(LeafError::new(ProblemCode::UnknownChoice, format!("`{text}` is not a choice here")).with_hint(hint))
}

fn in_range<T: PartialOrd + Display>(number: T, range: NumberRange<T>) -> Result<Option<toml::Value>, LeafError> {
    let low = range.min.as_ref().is_some_and(|min| number < *min);
    let high = range.max.as_ref().is_some_and(|max| number > *max);
    let wanted = match (&range.min, &range.max) {
        (Some(min), _) if low => format!("at least {min}"),
        (_, Some(max)) if high => format!("at most {max}"),
        _ => return Ok(None),
    };
    Err(LeafError::new(ProblemCode::OutOfRange, format!("must be {wanted}, but is {number}")))
}

fn wrong_type(node: &ConfigNode, leaf: &LeafKind) -> LeafError {
    let number = match &node.content {
        NodeContent::Leaf(toml::Value::Integer(number)) => number.to_string(),
        NodeContent::Leaf(_) | NodeContent::List(_) | NodeContent::Table(_) => "30".to_owned(),
    };
    let (code, wanted, hint) = match leaf {
        LeafKind::Duration { .. } => {
            (ProblemCode::BadDuration, "a duration", Some(format!("write it with a unit, in quotes: \"{number}s\"")))
        }
        LeafKind::Size => {
            (ProblemCode::BadSize, "a size", Some("write it with a unit, in quotes: \"16MiB\"".to_owned()))
        }
        LeafKind::Listen => {
            (ProblemCode::BadAddress, "an address", Some("write \"127.0.0.1:7200\", or \"off\"".to_owned()))
        }
        LeafKind::Hours => (ProblemCode::WrongType, "hours of the day", Some("write \"22:00-07:00\"".to_owned())),
        LeafKind::User => {
            (ProblemCode::WrongType, "the name or number of a user", Some("write \"www-data\" or 33".to_owned()))
        }
        LeafKind::Secret => (ProblemCode::LiteralSecret, "a reference to a secret", Some(SECRET_HINT.to_owned())),
        LeafKind::Choice(choices) => {
            let words: Vec<&str> = choices.iter().map(|choice| choice.word.as_str()).collect();
            let hint = format!("choose one of: {}", words.join(", "));
            (ProblemCode::WrongType, "a word in quotes", Some(hint))
        }
        LeafKind::Flag => (ProblemCode::WrongType, "true or false", None),
        LeafKind::Integer(_) => (ProblemCode::WrongType, "a whole number", None),
        LeafKind::Number(_) => (ProblemCode::WrongType, "a number", None),
        LeafKind::Path | LeafKind::DataPath => (ProblemCode::WrongType, "a path in quotes", None),
        LeafKind::Text | LeafKind::Variable | LeafKind::Url | LeafKind::Glob => {
            (ProblemCode::WrongType, "text in quotes", None)
        }
    };
    LeafError { code, message: format!("must be {wanted}, but is {}", node.type_name()), hint }
}
