//! Names that a stranger can search for: no household words for technical things, no file called `words`, within a
//! crate no two types of one name that can be seen outside their own files, and no type that repeats the name of its
//! module although the rest would do.

use std::collections::BTreeMap;

use crate::tidy::tree::{File, is_test_file};
use crate::tidy::{Context, Problem};

/// Words of the house, and the trade's words to use instead.
const HOUSEHOLD: &[(&str, &str)] = &[
    ("courier", "a task that delivers: `DeliveryTask`"),
    ("crew", "the workers of a pool"),
    ("desk", "a queue, an executor, a service: say which"),
    ("enrol", "enqueue, register"),
    ("mouth", "a writer of events"),
    ("parcel", "metadata, a payload"),
    ("purse", "a budget"),
    ("school", "a trainer"),
    ("shelf", "a set, a list, a queue: say which"),
    ("shelves", "sets, lists, queues: say which"),
    ("sieve", "a filter"),
    ("steward", "an actor"),
    ("tray", "a queue"),
    ("warden", "the configuration of a jail"),
];

/// Names that each protocol or leaf may use for its own, one a folder.
const SHARED: &[&str] = &["Error", "Options", "Request", "Response", "Event", "Message"];

pub(super) fn check(context: &Context) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut types: BTreeMap<(&str, &str), Vec<TypePlace<'_>>> = BTreeMap::new();
    for (path, file) in context.tree.rust().filter(|(path, _)| !path.starts_with("xtask/")) {
        problems.extend(household_words(path, file));
        if path.ends_with("/words.rs") {
            problems.push(Problem::new(path, 0, "`words` says nothing: name what the file does with text"));
        }
        let Some((crate_name, inside)) = path.strip_prefix("crates/").and_then(|path| path.split_once("/src/")) else {
            continue;
        };
        if is_test_file(path) {
            continue;
        }
        for (line, name) in visible_types(&file.code) {
            let folder = inside.rsplit_once('/').map_or("", |(folder, _)| folder);
            types.entry((crate_name, name)).or_default().push(TypePlace { path, line, folder });
        }
    }
    for ((crate_name, name), places) in &types {
        problems.extend(same_name(crate_name, name, places));
        let is_taken = |rest: &str| types.contains_key(&(*crate_name, rest));
        problems.extend(places.iter().filter_map(|place| repeated_module(name, place, is_taken)));
    }
    problems
}

struct TypePlace<'a> {
    path: &'a str,
    line: usize,
    folder: &'a str,
}

fn same_name(crate_name: &str, name: &str, places: &[TypePlace<'_>]) -> Vec<Problem> {
    let Some((first, others)) = places.split_first() else { return Vec::new() };
    let is_shared = SHARED.contains(&name);
    let clashes = |place: &&TypePlace<'_>| !is_shared || place.folder == first.folder;
    let why = format!("`{name}` is a type of {} too: within {crate_name} a type is found by its name", first.path);
    others.iter().filter(clashes).map(|place| Problem::new(place.path, place.line, why.clone())).collect()
}

/// A module's word in front of a type helps only where the rest is a single word (`BoardLimits`: a `Limits` could be
/// anything) or the name of another type. Abbreviations such as `mcp` are the names of protocols and may stay.
fn repeated_module(name: &str, place: &TypePlace<'_>, is_taken: impl Fn(&str) -> bool) -> Option<Problem> {
    const LONGEST_ABBREVIATION: usize = 3;
    let stem = place.path.rsplit('/').next()?.strip_suffix(".rs")?;
    let modules = [stem, stem.strip_suffix('s').unwrap_or(stem)];
    let (own, rest) = modules.into_iter().filter(|module| module.len() > LONGEST_ABBREVIATION).find_map(|module| {
        let prefix = camel_case(module);
        Some((module, name.strip_prefix(prefix.as_str())?)).filter(|(_, rest)| rest.starts_with(char::is_uppercase))
    })?;
    (words_of(rest).len() > 1 && !is_taken(rest)).then(|| {
        let why = format!("`{name}` repeats its module `{own}`, and `{rest}` alone can be searched for: drop the word");
        Problem::new(place.path, place.line, why)
    })
}

fn camel_case(module: &str) -> String {
    let capitalised = module.split('_').map(|word| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_uppercase().chain(letters).collect::<String>()).unwrap_or_default()
    });
    capitalised.collect()
}

/// Types that other files of the crate can see, with their lines.
fn visible_types(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (at, line) in code.lines().enumerate() {
        let Some(rest) = line.trim_start().strip_prefix("pub") else { continue };
        let rest = match rest.strip_prefix('(') {
            Some(scope) => scope.split_once(')').map_or("", |(_, after)| after),
            None => rest,
        };
        let mut words = rest.split_whitespace();
        if let (Some("struct" | "enum" | "trait"), Some(name)) = (words.next(), words.next()) {
            let name = name.split(|one: char| !one.is_alphanumeric() && one != '_').next().unwrap_or_default();
            found.push((at + 1, name));
        }
    }
    found
}

fn household_words(path: &str, file: &File) -> Vec<Problem> {
    let mut problems = Vec::new();
    let stem = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".rs");
    problems.extend(household_word(stem).map(|why| Problem::new(path, 0, format!("the file's name: {why}"))));
    for (at, line) in file.code.lines().enumerate() {
        let identifiers = line.split(|one: char| !one.is_alphanumeric() && one != '_');
        for identifier in identifiers.filter(|text| !text.is_empty()) {
            if let Some(why) = household_word(identifier) {
                problems.push(Problem::new(path, at + 1, format!("`{identifier}`: {why}")));
            }
        }
    }
    problems
}

/// What to say instead, if a word of this identifier is one of the house.
fn household_word(identifier: &str) -> Option<String> {
    let words = words_of(identifier);
    let found = HOUSEHOLD.iter().find(|(word, _)| words.iter().any(|own| own == word));
    found.map(|(word, instead)| format!("`{word}` is a word of the house; {instead}"))
}

/// `ToolDesk`, `tool_desk` and `TOOL_DESK` are two words each, in lower case.
fn words_of(identifier: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in identifier.split('_').filter(|part| !part.is_empty()) {
        let is_upper = part.chars().all(|one| one.is_uppercase() || one.is_numeric());
        let mut word = String::new();
        for one in part.chars() {
            if one.is_uppercase() && !is_upper && !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            word.extend(one.to_lowercase());
        }
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests;
