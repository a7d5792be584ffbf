//! Relative links in Markdown lead somewhere: to a file, a folder, or a heading.

use crate::tidy::tree::Tree;
use crate::tidy::{Context, Problem};

pub(super) fn check(context: &Context) -> Vec<Problem> {
    let pages = context.tree.files().filter(|(path, _)| path.ends_with(".md"));
    pages
        .flat_map(|(path, file)| {
            links(&file.text).into_iter().filter_map(move |(line, target)| {
                let why = broken(&context.tree, path, &target)?;
                Some(Problem::new(path, line, format!("link to `{target}`: {why}")))
            })
        })
        .collect()
}

/// Why a link leads nowhere, or nothing when it is fine or leaves the repository.
fn broken(tree: &Tree, page: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let path = if file.is_empty() {
        page.to_owned()
    } else {
        match resolve(page, file) {
            Some(path) => path,
            None => return Some("leaves the repository; links are relative to their page".to_owned()),
        }
    };
    if !path.is_empty() && !tree.has_file(&path) && !tree.has_folder(&path) {
        return Some(format!("there is no `{path}`"));
    }
    let anchor = anchor.filter(|_| path.ends_with(".md"))?;
    let headings = tree.get(&path).map(|file| anchors(&file.text)).unwrap_or_default();
    (!headings.iter().any(|heading| heading == anchor)).then(|| format!("`{path}` has no heading `#{anchor}`"))
}

/// The path a link on `page` means, from the root; nothing when it leads outside.
fn resolve(page: &str, file: &str) -> Option<String> {
    if file.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in file.trim_end_matches('/').split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Every inline link and link definition outside code, with its line from 1.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code_spans(line);
        for (at, _) in line.match_indices("](") {
            found.extend(line.get(at + 2..).and_then(destination).map(|target| (number, target)));
        }
        if let Some((label, rest)) = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]:")) {
            let is_footnote = label.starts_with('^');
            let target = rest.split_whitespace().next().filter(|_| !is_footnote && !label.contains(']'));
            found.extend(target.map(|target| (number, target.trim_matches(['<', '>']).to_owned())));
        }
    }
    found
}

/// What stands between the parentheses of a link, without a title.
fn destination(text: &str) -> Option<String> {
    if let Some(bracketed) = text.strip_prefix('<') {
        return bracketed.split_once('>').map(|(target, _)| target.to_owned());
    }
    let mut depth = 1;
    let end = text.char_indices().find_map(|(at, character)| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })?;
    text.get(..end)?.split_whitespace().next().map(str::to_owned)
}

/// The lines outside fenced code blocks, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<&str> = None;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => return Some((at + 1, line)),
            (Some(_), _) => {}
        }
        None
    })
}

fn without_code_spans(line: &str) -> String {
    line.split('`').enumerate().filter(|(at, _)| at % 2 == 0).map(|(_, part)| part).collect()
}

/// The anchors of a page's headings, as the usual renderers name them.
fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        let level = line.len() - title.len();
        if level == 0 || level > 6 || !title.starts_with(' ') {
            continue;
        }
        let slug = slug(title.trim());
        let same = anchors.iter().filter(|known| **known == slug || is_numbered(known, &slug)).count();
        anchors.push(if same == 0 { slug } else { format!("{slug}-{same}") });
    }
    anchors
}

fn is_numbered(known: &str, slug: &str) -> bool {
    known.strip_prefix(slug).and_then(|rest| rest.strip_prefix('-')).is_some_and(|rest| rest.parse::<u32>().is_ok())
}

fn slug(title: &str) -> String {
    let kept = title.chars().filter(|one| one.is_alphanumeric() || [' ', '-', '_'].contains(one));
    kept.flat_map(char::to_lowercase).map(|one| if one == ' ' { '-' } else { one }).collect()
}

#[cfg(test)]
mod tests;
