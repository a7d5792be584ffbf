//! Parses a TOML file into a tree whose values record their lines.

use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::{
    files::{ConfigFile, ConfigFileReader, unreadable_reason},
    key_path::KeyPath,
    origin::ValueOrigin,
    problem::{ConfigProblem, ProblemCode},
    tree::{ConfigNode, NodeContent},
};

/// The parsed file, or `None` if it is left out. Problems name the file as it is shown.
pub(crate) fn read(
    file: &Arc<ConfigFile>,
    reader: &dyn ConfigFileReader,
) -> Result<Option<ConfigNode>, Vec<ConfigProblem>> {
    match reader.read(file) {
        Ok(Some(text)) => parse(&text, file).map(Some),
        Ok(None) => Ok(None),
        Err(error) => {
            let origin = ValueOrigin::File { file: Arc::clone(file), line: 0 };
            let problem =
                ConfigProblem::error(ProblemCode::FileUnreadable, KeyPath::default(), unreadable_reason(&error))
                    .with_origin(origin);
            Err(vec![match error.kind() == std::io::ErrorKind::NotFound {
                true => problem.with_hint("`patchboard config sample > FILE` makes one with every key"),
                false => problem,
            }])
        }
    }
}

/// Parses TOML text. Messages contain positions but never text of the file, which may contain a secret by mistake.
pub(crate) fn parse(text: &str, file: &Arc<ConfigFile>) -> Result<ConfigNode, Vec<ConfigProblem>> {
    let lines = LineIndex::new(text, file);
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut problems: Vec<ConfigProblem> = Vec::new();
    for error in errors {
        let origin = lines.origin(error.span().map_or(0, |span| span.start));
        // One broken line can cause several parser errors; only the first is reported.
        if problems.last().is_none_or(|last| last.origin != origin) {
            problems.push(
                ConfigProblem::error(
                    ProblemCode::Syntax,
                    KeyPath::default(),
                    format!("not valid TOML: {}", error.message().replace('\n', ", ")),
                )
                .with_origin(origin)
                .with_hint(if error.message().contains("table") {
                    "a section begins with its name in brackets: [gateway]"
                } else {
                    "text values are written in quotes: key = \"value\""
                }),
            );
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let root = lines.origin(0);
    let content = table(document.into_inner(), &lines, &KeyPath::default(), &mut problems);
    if problems.is_empty() { Ok(ConfigNode { origin: root, content }) } else { Err(problems) }
}

fn table(document: DeTable<'_>, lines: &LineIndex, path: &KeyPath, problems: &mut Vec<ConfigProblem>) -> NodeContent {
    let entries = document.into_iter().map(|(key, value)| {
        let origin = lines.origin(key.span().start);
        let key = key.into_inner().into_owned();
        let content = content(value.into_inner(), lines, &path.key(&key), &origin, problems);
        (key, ConfigNode { origin, content })
    });
    NodeContent::Table(entries.collect())
}

fn content(
    value: DeValue<'_>,
    lines: &LineIndex,
    path: &KeyPath,
    origin: &ValueOrigin,
    problems: &mut Vec<ConfigProblem>,
) -> NodeContent {
    let mut out_of_range = || {
        problems.push(
            ConfigProblem::error(ProblemCode::OutOfRange, path.clone(), "the number is too large")
                .with_origin(origin.clone()),
        );
        toml::Value::Integer(0)
    };
    let leaf = match value {
        DeValue::Table(inner) => return table(inner, lines, path, problems),
        DeValue::Array(items) => {
            let nodes = items.into_iter().enumerate().map(|(index, item)| {
                let origin = lines.origin(item.span().start);
                let path = path.index(index);
                let content = content(item.into_inner(), lines, &path, &origin, problems);
                ConfigNode { origin, content }
            });
            return NodeContent::List(nodes.collect());
        }
        DeValue::String(text) => toml::Value::String(text.into_owned()),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_or_else(|_| out_of_range(), toml::Value::Integer)
        }
        DeValue::Float(number) => number.as_str().parse().map_or_else(|_| out_of_range(), toml::Value::Float),
        DeValue::Boolean(flag) => toml::Value::Boolean(flag),
        DeValue::Datetime(moment) => toml::Value::Datetime(moment),
    };
    NodeContent::Leaf(leaf)
}

/// Converts byte offsets to lines.
struct LineIndex {
    file: Arc<ConfigFile>,
    starts: Vec<usize>,
}

impl LineIndex {
    fn new(text: &str, file: &Arc<ConfigFile>) -> Self {
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self { file: Arc::clone(file), starts: newlines.map(|(offset, _)| offset + 1).collect() }
    }

    fn origin(&self, offset: usize) -> ValueOrigin {
        ValueOrigin::File {
            file: Arc::clone(&self.file),
            line: self.starts.partition_point(|start| *start <= offset) + 1,
        }
    }
}
