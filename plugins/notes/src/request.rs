//! What can be asked for, and the sentences it is answered with. Knows no store.

use serde::Deserialize;
use serde_json::json;

pub(crate) const DEFAULT_STORE: &str = "notes";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changes {
    Nothing,
    Notes,
}

/// Name, description, schema, and whether calling it changes anything.
pub(crate) const TOOLS: [(&str, &str, &str, Changes); 4] = [
    (
        "note_add",
        "Keeps a note under a title. A note that has this title already is replaced.",
        r#"{"type":"object","properties":{"title":{"type":"string","minLength":1,"maxLength":200},
            "text":{"type":"string","minLength":1,"maxLength":100000}},
            "required":["title","text"],"additionalProperties":false}"#,
        Changes::Notes,
    ),
    (
        "note_get",
        "The text of the note with this title.",
        r#"{"type":"object","properties":{"title":{"type":"string","minLength":1,"maxLength":200}},
            "required":["title"],"additionalProperties":false}"#,
        Changes::Nothing,
    ),
    (
        "note_list",
        "The titles of all notes, or of those whose title begins with a prefix, in alphabetical order.",
        r#"{"type":"object","properties":{"prefix":{"type":"string","maxLength":200}},"additionalProperties":false}"#,
        Changes::Nothing,
    ),
    (
        "note_delete",
        "Deletes the note with this title.",
        r#"{"type":"object","properties":{"title":{"type":"string","minLength":1,"maxLength":200}},
            "required":["title"],"additionalProperties":false}"#,
        Changes::Notes,
    ),
];

/// Of a title in bytes: what the store takes as a key.
const LONGEST_TITLE: usize = 256;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Add { title: String, text: String },
    Get { title: String },
    List { prefix: String },
    Delete { title: String },
}

#[derive(Deserialize)]
struct Arguments {
    title: Option<String>,
    text: Option<String>,
    prefix: Option<String>,
}

impl Request {
    pub(crate) fn parse(name: &str, arguments: &str) -> Result<Request, String> {
        let arguments: Arguments =
            serde_json::from_str(arguments).map_err(|error| format!("the arguments cannot be read: {error}"))?;
        let title = || title(arguments.title.as_deref());
        match name {
            "note_add" => {
                let text = arguments.text.as_deref().filter(|text| !text.trim().is_empty());
                let text = text.ok_or("a note needs a text")?;
                Ok(Request::Add { title: title()?, text: text.to_owned() })
            }
            "note_get" => Ok(Request::Get { title: title()? }),
            "note_list" => Ok(Request::List { prefix: arguments.prefix.unwrap_or_default() }),
            "note_delete" => Ok(Request::Delete { title: title()? }),
            other => Err(format!("no tool is called `{other}`")),
        }
    }
}

fn title(given: Option<&str>) -> Result<String, String> {
    let title = given.unwrap_or_default().trim();
    if title.is_empty() {
        return Err("a note needs a title".to_owned());
    }
    if title.len() > LONGEST_TITLE {
        return Err(format!("the title is too long: {} bytes, {LONGEST_TITLE} are the most", title.len()));
    }
    if title.contains(char::is_control) {
        return Err("a title is one line without control characters".to_owned());
    }
    Ok(title.to_owned())
}

/// Titles, page by page.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    titles: Vec<String>,
    is_whole: bool,
}

impl Listing {
    /// Beyond this a model would not read them either; it can ask with a prefix.
    const MOST: usize = 2_000;

    /// After which title to go on, nothing for the first page; or `None` when there is nothing more to ask for.
    pub(crate) fn next_page(&self) -> Option<Option<String>> {
        let goes_on = !self.is_whole && self.titles.len() < Listing::MOST;
        goes_on.then(|| self.titles.last().cloned())
    }

    pub(crate) fn add(&mut self, page: Vec<String>) {
        self.is_whole = page.is_empty();
        self.titles.extend(page);
    }

    pub(crate) fn in_json(mut self) -> String {
        let is_cut = !self.is_whole;
        self.titles.truncate(Listing::MOST);
        json!({ "titles": self.titles, "more": is_cut }).to_string()
    }
}

pub(crate) fn added(title: &str, replaced: bool) -> String {
    if replaced { format!("replaced the note `{title}`") } else { format!("kept the note `{title}`") }
}

pub(crate) fn deleted(title: &str) -> String {
    format!("deleted the note `{title}`")
}

pub(crate) fn no_note(title: &str) -> String {
    format!("there is no note `{title}`")
}

#[cfg(test)]
mod tests;
