//! `patchboard onboard`: choose a provider, enter its key without echo, and
//! have both remembered. Nothing is written before everything is known, and a
//! file that cannot be written leaves no other behind.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use secrecy::{ExposeSecret, SecretString};

use super::{
    Environment, Folders,
    edit::{ProviderEdit, get, set_provider},
    env::{ANTHROPIC_API_KEY, OPENAI_API_KEY},
    files::{FILE_NAME, read_text},
    section::ProviderKind,
    validate::url,
};
use crate::credentials::{self, CredentialStore, PendingFile, parse_key, private_folder};

#[cfg(test)]
mod tests;

/// Speaks with the person at the terminal; tests answer for one.
pub(crate) trait Prompt {
    fn say(&mut self, line: &str) -> io::Result<()>;
    /// Asks for a line; an empty answer means the default.
    fn ask(&mut self, question: &str, default: &str) -> io::Result<String>;
    /// Asks for a line that is not echoed.
    fn ask_hidden(&mut self, question: &str) -> io::Result<SecretString>;
}

/// What is already decided by flags, and where things are.
#[derive(Clone, Debug)]
pub(crate) struct OnboardRequest {
    /// `--config`; without it the user's own file, which is made when there is none. Never the project's: a stored key goes
    /// to no address that stands there.
    pub config_path: Option<PathBuf>,
    pub env: Environment,
    pub cwd: PathBuf,
    /// Provider chosen by a flag; else it is asked for.
    pub provider: Option<String>,
    pub base_url: Option<String>,
    pub model: Option<String>,
}

/// What was set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Onboarded {
    pub provider: String,
    pub model: String,
    pub config_file: PathBuf,
    /// None for a local server that needs no key.
    pub key_file: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("`{0}` is not one of: anthropic, openai, ollama")]
    UnknownProvider(String),
    #[error("the address {0}")]
    BadUrl(String),
    #[error("`{0}` is not a model name")]
    BadModel(String),
    #[error("neither HOME nor XDG_CONFIG_HOME is set, so there is no place for keys")]
    NoHome,
    #[error("cannot read `{}`", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot change `{}`: {reason}", .path.display())]
    Edit { path: PathBuf, reason: String },
    #[error(transparent)]
    Credentials(#[from] credentials::Error),
    #[error("cannot ask")]
    Prompt(#[from] io::Error),
}

/// Providers that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Anthropic,
    Openai,
    /// Ollama, or any server that speaks the OpenAI API.
    Compatible,
}

impl Choice {
    const ALL: [Self; 3] = [Self::Anthropic, Self::Openai, Self::Compatible];

    const fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Openai => "openai",
            Self::Compatible => "ollama",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Anthropic => "Anthropic",
            Self::Openai => "OpenAI",
            Self::Compatible => "Ollama or compatible",
        }
    }

    const fn kind(self) -> ProviderKind {
        match self {
            Self::Anthropic => ProviderKind::Anthropic,
            Self::Openai | Self::Compatible => ProviderKind::Openai,
        }
    }

    const fn default_model(self) -> &'static str {
        match self {
            Self::Anthropic | Self::Openai => self.kind().default_model(),
            Self::Compatible => "llama3.2",
        }
    }

    const fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some(ANTHROPIC_API_KEY),
            Self::Openai => Some(OPENAI_API_KEY),
            Self::Compatible => None,
        }
    }

    fn parse(text: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|choice| choice.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| Error::UnknownProvider(text.to_owned()))
    }
}

const COMPATIBLE_ROOT: &str = "http://127.0.0.1:11434/v1";

/// Asks what is not yet decided, then stores the key and edits the file.
pub(crate) fn onboard(request: OnboardRequest, prompt: &mut dyn Prompt) -> Result<Onboarded, Error> {
    let folders = Folders::new(&request.env);
    let credentials_dir = folders.credentials_dir().ok_or(Error::NoHome)?;
    let config_file = config_file(&request, &folders)?;
    let text = read_existing(&config_file)?;
    let current = |key: &str| get(&text, "agents", super::DEFAULT_AGENT, key);

    let choice = Choice::parse(&match request.provider {
        Some(provider) => provider,
        None => {
            let known = current("provider").filter(|name| Choice::parse(name).is_ok());
            let default = known.unwrap_or_else(|| Choice::Anthropic.name().to_owned());
            prompt.ask("Provider (anthropic, openai, ollama)", &default)?
        }
    })?;
    let base_url = base_url(choice, request.base_url, &text, prompt)?;
    let key = ask_key(choice, prompt)?;
    let model = match request.model {
        Some(model) => model,
        None => {
            let unchanged = current("provider").as_deref() == Some(choice.name());
            let known = current("model").filter(|_| unchanged);
            let default = known.unwrap_or_else(|| choice.default_model().to_owned());
            prompt.ask("Model", &default)?
        }
    };
    if model.trim().is_empty() || model.chars().any(char::is_control) {
        return Err(Error::BadModel(model));
    }

    let edit = ProviderEdit {
        name: choice.name(),
        kind: choice.kind().as_str(),
        base_url: base_url.as_deref(),
        model: model.trim(),
    };
    let edited = set_provider(&text, &edit).map_err(|reason| Error::Edit { path: config_file.clone(), reason })?;
    let store = CredentialStore::new(credentials_dir);
    let key_file = write_both(choice, &store, key.as_ref(), &config_file, &edited)?;
    let done = Onboarded { provider: choice.name().to_owned(), model: model.trim().to_owned(), config_file, key_file };
    let variable = choice.key_variable().filter(|variable| request.env.get(variable).is_some());
    if let (Some(variable), Some(_)) = (variable, &done.key_file) {
        prompt.say(&format!("Note: {variable} is set and wins over the stored key"))?;
    }
    Ok(done)
}

/// The file to edit, with links resolved so that a link stays one.
fn config_file(request: &OnboardRequest, folders: &Folders) -> Result<PathBuf, Error> {
    let path = match (&request.config_path, &folders.config_dir) {
        (Some(named), _) => request.cwd.join(named),
        (None, Some(folder)) => folder.join(FILE_NAME),
        (None, None) => return Err(Error::NoHome),
    };
    Ok(path.canonicalize().unwrap_or(path))
}

fn read_existing(path: &Path) -> Result<String, Error> {
    match read_text(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(Error::Read { path: path.to_owned(), source }),
    }
}

fn base_url(
    choice: Choice,
    given: Option<String>,
    text: &str,
    prompt: &mut dyn Prompt,
) -> Result<Option<String>, Error> {
    let base_url = match (given, choice) {
        (Some(given), _) => given,
        (None, Choice::Anthropic | Choice::Openai) => return Ok(None),
        (None, Choice::Compatible) => {
            let known = get(text, "providers", choice.name(), "base_url");
            let default = known.unwrap_or_else(|| COMPATIBLE_ROOT.to_owned());
            prompt.ask("Address of the server", &default)?
        }
    };
    let base_url = base_url.trim().to_owned();
    match url::complaint(&base_url) {
        Some(complaint) => Err(Error::BadUrl(complaint.message)),
        None => Ok(Some(base_url)),
    }
}

fn ask_key(choice: Choice, prompt: &mut dyn Prompt) -> Result<Option<SecretString>, Error> {
    let optional = match choice {
        Choice::Anthropic | Choice::Openai => "",
        Choice::Compatible => " (empty if it needs none)",
    };
    let question = format!("{} API key{optional}", choice.title());
    let typed = prompt.ask_hidden(&question)?;
    if choice == Choice::Compatible && typed.expose_secret().trim().is_empty() {
        return Ok(None);
    }
    Ok(Some(parse_key(&typed)?))
}

/// Both files are complete under temporary names before either is put in
/// place.
fn write_both(
    choice: Choice,
    store: &CredentialStore,
    key: Option<&SecretString>,
    config_file: &Path,
    edited: &str,
) -> Result<Option<PathBuf>, Error> {
    let mode = match fs::metadata(config_file) {
        Ok(metadata) => metadata.mode() & 0o777,
        Err(_) => {
            if let Some(folder) = config_file.parent().filter(|folder| !folder.exists()) {
                private_folder(folder)?;
            }
            0o600
        }
    };
    let config = PendingFile::write(config_file, edited.as_bytes(), mode)?;
    let key = key.map(|key| store.prepare(choice.name(), key)).transpose()?;
    let key_file = key.map(PendingFile::commit).transpose()?;
    config.commit()?;
    Ok(key_file)
}
