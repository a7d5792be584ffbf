//! Checks of single values. Each says what is wrong without repeating what
//! may be a secret.

use std::{fmt::Display, path::Path};

use crate::config::{
    glob,
    nearest::nearest,
    paths::PathRules,
    problem::Code,
    shape::{Choice, Leaf, Range},
    tree::{Content, Node},
    types::{ByteSize, DayHours, Listen, SecretRef, SystemUser, TimeSpan},
    validate::url,
};

/// What is wrong with a value.
pub(crate) struct Fault {
    pub code: Code,
    pub message: String,
    pub hint: Option<String>,
}

impl Fault {
    fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Checks one value; gives the value to use instead where a path is resolved.
pub(crate) fn check(node: &Node, leaf: &Leaf, rules: &PathRules) -> Result<Option<toml::Value>, Fault> {
    let Content::Leaf(value) = &node.content else {
        return Err(wrong_type(node, leaf));
    };
    match (leaf, value) {
        (Leaf::Flag, toml::Value::Boolean(_)) => Ok(None),
        (Leaf::Integer(range), toml::Value::Integer(number)) => in_range(*number, *range),
        (Leaf::User, toml::Value::Integer(number)) => {
            in_range(*number, Range { min: Some(0), max: Some(i64::from(u32::MAX)) })
        }
        (Leaf::Number(range), toml::Value::Float(number)) if number.is_finite() => in_range(*number, *range),
        (Leaf::Number(range), toml::Value::Integer(number)) => {
            #[expect(clippy::cast_precision_loss, reason = "only compared with small bounds")]
            let number = *number as f64;
            in_range(number, *range)
        }
        (_, toml::Value::String(text)) if leaf.is_text() => check_text(node, leaf, text, rules),
        _ => Err(wrong_type(node, leaf)),
    }
}

fn check_text(node: &Node, leaf: &Leaf, text: &str, rules: &PathRules) -> Result<Option<toml::Value>, Fault> {
    let path = |text: &str| rules.resolve(text, &node.origin).map_err(|reason| Fault::new(Code::MissingFile, reason));
    match leaf {
        // Text that may be a reference; a relative file is found like any other.
        Leaf::Variable => match text.parse() {
            Ok(SecretRef::File(file)) => Ok(Some(secret_file(&path(&file.to_string_lossy())?))),
            Ok(SecretRef::Env(_)) | Err(_) => Ok(None),
        },
        Leaf::Duration { zero } => {
            let span: TimeSpan = parse(text, Code::BadDuration)?;
            if span.is_zero() && !zero {
                return Err(Fault::new(Code::BadDuration, "must be longer than zero"));
            }
            Ok(None)
        }
        Leaf::Size => match parse::<ByteSize>(text, Code::BadSize)?.get() {
            0 => Err(Fault::new(Code::BadSize, "must be larger than zero")),
            _ => Ok(None),
        },
        Leaf::Listen => parse::<Listen>(text, Code::BadAddress)
            .map(|_| None)
            .map_err(|fault| fault.hint("use an IP address and a port: 127.0.0.1:7200 for this machine alone")),
        Leaf::Hours => parse::<DayHours>(text, Code::WrongType).map(|_| None),
        Leaf::User => parse::<SystemUser>(text, Code::WrongType).map(|_| None),
        Leaf::Choice(choices) => check_choice(text, choices),
        Leaf::Secret => match parse::<SecretRef>(text, Code::LiteralSecret) {
            Ok(SecretRef::File(file)) => Ok(Some(secret_file(&path(&file.to_string_lossy())?))),
            Ok(SecretRef::Env(_)) => Ok(None),
            Err(fault) => Err(fault.hint(SECRET_HINT)),
        },
        _ if text.trim().is_empty() => Err(Fault::new(Code::WrongType, "is empty").hint("leave the key out instead")),
        Leaf::Path => Ok(Some(path(text)?.display().to_string().into())),
        Leaf::DataPath => {
            let expanded = rules.expand_home(text).map_err(|reason| Fault::new(Code::MissingFile, reason))?;
            Ok(Some(expanded.display().to_string().into()))
        }
        Leaf::Url => match url::complaint(text) {
            Some(complaint) => Err(Fault::new(Code::BadUrl, complaint.message).hint(complaint.hint)),
            None => Ok(None),
        },
        Leaf::Glob => match glob::complaint(text) {
            Some(complaint) => Err(Fault::new(Code::BadPattern, complaint)),
            None => Ok(None),
        },
        Leaf::Text | Leaf::Flag | Leaf::Integer(_) | Leaf::Number(_) => Ok(None),
    }
}

fn secret_file(path: &Path) -> toml::Value {
    SecretRef::File(path.to_owned()).to_string().into()
}

const SECRET_HINT: &str = "write \"env:NAME\" or \"file:PATH\" and keep the secret there";

fn parse<T: std::str::FromStr<Err = String>>(text: &str, code: Code) -> Result<T, Fault> {
    text.parse().map_err(|reason: String| Fault::new(code, reason))
}

fn check_choice(text: &str, choices: &[Choice]) -> Result<Option<toml::Value>, Fault> {
    if choices.iter().any(|choice| choice.word == text) {
        return Ok(None);
    }
    let words = choices.iter().map(|choice| choice.word.as_str());
    let hint = match nearest(text, words.clone()) {
        Some(meant) => format!("did you mean \"{meant}\"?"),
        None => format!("choose one of: {}", words.collect::<Vec<_>>().join(", ")),
    };
    Err(Fault::new(Code::UnknownChoice, format!("`{text}` is not a choice here")).hint(hint))
}

fn in_range<T: PartialOrd + Display>(number: T, range: Range<T>) -> Result<Option<toml::Value>, Fault> {
    let low = range.min.as_ref().is_some_and(|min| number < *min);
    let high = range.max.as_ref().is_some_and(|max| number > *max);
    let wanted = match (&range.min, &range.max) {
        (Some(min), _) if low => format!("at least {min}"),
        (_, Some(max)) if high => format!("at most {max}"),
        _ => return Ok(None),
    };
    Err(Fault::new(Code::OutOfRange, format!("must be {wanted}, but is {number}")))
}

fn wrong_type(node: &Node, leaf: &Leaf) -> Fault {
    let number = match &node.content {
        Content::Leaf(toml::Value::Integer(number)) => number.to_string(),
        Content::Leaf(_) | Content::List(_) | Content::Table(_) => "30".to_owned(),
    };
    let (code, wanted, hint) = match leaf {
        Leaf::Duration { .. } => {
            (Code::BadDuration, "a duration", Some(format!("write it with a unit, in quotes: \"{number}s\"")))
        }
        Leaf::Size => (Code::BadSize, "a size", Some("write it with a unit, in quotes: \"16MiB\"".to_owned())),
        Leaf::Listen => (Code::BadAddress, "an address", Some("write \"127.0.0.1:7200\", or \"off\"".to_owned())),
        Leaf::Hours => (Code::WrongType, "hours of the day", Some("write \"22:00-07:00\"".to_owned())),
        Leaf::User => (Code::WrongType, "the name or number of a user", Some("write \"www-data\" or 33".to_owned())),
        Leaf::Secret => (Code::LiteralSecret, "a reference to a secret", Some(SECRET_HINT.to_owned())),
        Leaf::Choice(choices) => {
            let words: Vec<&str> = choices.iter().map(|choice| choice.word.as_str()).collect();
            let hint = format!("choose one of: {}", words.join(", "));
            (Code::WrongType, "a word in quotes", Some(hint))
        }
        Leaf::Flag => (Code::WrongType, "true or false", None),
        Leaf::Integer(_) => (Code::WrongType, "a whole number", None),
        Leaf::Number(_) => (Code::WrongType, "a number", None),
        Leaf::Path | Leaf::DataPath => (Code::WrongType, "a path in quotes", None),
        Leaf::Text | Leaf::Variable | Leaf::Url | Leaf::Glob => (Code::WrongType, "text in quotes", None),
    };
    Fault { code, message: format!("must be {wanted}, but is {}", node.type_name()), hint }
}
