//! The models a server offers, as people choose among them. Pure: a list in, a choice or a shorter list out.

use patchboard_config::section::ProviderKind;

use crate::output::one_line;

/// More are not shown at once; typing part of a name makes the list shorter.
const MAX_SHOWN_MODELS: usize = 20;
/// Words in the names of models that answer no chat.
const NON_CHAT_WORDS: &[&str] = &[
    "embed",
    "rerank",
    "whisper",
    "tts",
    "transcribe",
    "audio",
    "realtime",
    "dall-e",
    "image",
    "sora",
    "moderation",
    "babbage",
    "davinci",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerModels {
    /// In the server's order.
    models: Vec<String>,
}

/// What an answer at the prompt comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ModelSelection<'a> {
    Model(&'a str),
    /// Several names hold the text; show these.
    Ambiguous(Vec<&'a str>),
    /// The server offers no such model.
    Unknown,
}

impl ServerModels {
    pub(super) fn new(models: Vec<String>) -> Self {
        Self { models }
    }

    pub(super) fn contains(&self, model: &str) -> bool {
        self.models.iter().any(|known| known == model)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.models.iter().map(String::as_str)
    }

    /// Those that answer chats; all of them where none seems to.
    pub(super) fn chat_models(&self) -> Vec<&str> {
        let chats = |model: &&str| !NON_CHAT_WORDS.iter().any(|word| model.to_lowercase().contains(word));
        let found: Vec<&str> = self.names().filter(chats).collect();
        if found.is_empty() { self.names().collect() } else { found }
    }

    /// The one to offer first: what is configured if the server still has it, else the server's newest of general use.
    pub(super) fn default(&self, configured: Option<&str>, kind: ProviderKind) -> Option<&str> {
        if let Some(model) = configured.and_then(|model| self.names().find(|known| *known == model)) {
            return Some(model);
        }
        let chat = self.chat_models();
        let by_family = match kind {
            // Newest first; the middle family is the one for everyday work.
            ProviderKind::Anthropic => chat.iter().find(|model| model.contains("sonnet")).copied(),
            // In no order; the highest version of the plain name.
            ProviderKind::Openai => {
                chat.iter().filter_map(|model| Some((gpt_version(model)?, *model))).max().map(|(_, model)| model)
            }
            ProviderKind::Offline => None,
        };
        by_family.or_else(|| chat.first().copied())
    }

    /// A number of the list that was shown, a name, or part of one.
    pub(super) fn select<'a>(&'a self, answer: &str, shown: &[&'a str]) -> ModelSelection<'a> {
        let answer = answer.trim();
        if let Some(exact) = self.names().find(|known| *known == answer) {
            return ModelSelection::Model(exact);
        }
        if let Some(chosen) = answer.parse::<usize>().ok().and_then(|number| shown.get(number.checked_sub(1)?)) {
            return ModelSelection::Model(chosen);
        }
        let wanted = answer.to_lowercase();
        let fits: Vec<&str> = self.names().filter(|known| known.to_lowercase().contains(&wanted)).collect();
        match fits.as_slice() {
            [] => ModelSelection::Unknown,
            [only] => ModelSelection::Model(only),
            _ => ModelSelection::Ambiguous(fits),
        }
    }
}

/// Lines of a numbered list; the default is marked, and what is left out is counted.
pub(super) fn numbered_lines(shown: &[&str], default: Option<&str>) -> Vec<String> {
    let mut lines: Vec<String> = shown
        .iter()
        .take(MAX_SHOWN_MODELS)
        .enumerate()
        .map(|(index, model)| {
            let mark = if Some(*model) == default { "  (default)" } else { "" };
            format!("{:>4}  {}{mark}", index + 1, one_line(model))
        })
        .collect();
    let left_out = shown.len().saturating_sub(MAX_SHOWN_MODELS);
    if left_out > 0 {
        lines.push(format!("      and {left_out} more: type part of a name to see those that hold it"));
    }
    lines
}

/// `gpt-5` and `gpt-4.1` have a version; dated, small and special ones are not for everyday work.
fn gpt_version(model: &str) -> Option<(u32, u32)> {
    let version = model.strip_prefix("gpt-")?;
    let version = version.strip_suffix('o').unwrap_or(version);
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}
