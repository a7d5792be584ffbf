//! `patchboard onboard`: choose a provider, enter its key without echo, have the server asked for its models, and have all of
//! it remembered. Nothing is written before everything is known and checked, unless the user says so, and a file that cannot
//! be written leaves no other behind.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use patchboard_core::model::ModelError;
use secrecy::{ExposeSecret, SecretString};

use super::{
    Environment, Folders,
    edit::{ProviderEdit, get, set_provider},
    files::{FILE_NAME, read_text},
    nearest::{did_you_mean, nearest},
    section::{ProviderConfig, ProviderKind},
};
use crate::credentials::{self, CredentialStore, PendingFile, parse_key, private_folder};
use catalogue::{Catalogue, Reading};
use endpoint::{Chosen, Vendor};
use trouble::{Asked, NoList, Trouble};

mod catalogue;
mod endpoint;
mod trouble;

#[cfg(test)]
mod tests;

/// Answers at one prompt before it gives up.
const MOST_ANSWERS: usize = 30;

/// Speaks with the person at the terminal; tests answer for one.
pub(crate) trait Prompt {
    fn say(&mut self, line: &str) -> io::Result<()>;
    /// Asks for a line; an empty answer means the default.
    fn ask(&mut self, question: &str, default: &str) -> io::Result<String>;
    /// Asks for a line that is not echoed.
    fn ask_hidden(&mut self, question: &str) -> io::Result<SecretString>;
    /// Can it be asked again when an answer was wrong?
    fn is_person(&self) -> bool;
}

/// Asks model servers; tests answer for one.
pub(crate) trait ModelServer {
    fn models(&self, target: &Target<'_>) -> Result<Vec<String>, ModelError>;
    /// Makes one short call.
    fn try_out(&self, target: &Target<'_>, model: &str) -> Result<(), ModelError>;
}

/// A server with a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub kind: ProviderKind,
    pub name: &'a str,
    /// The API's root.
    pub address: &'a str,
    pub key: Option<&'a SecretString>,
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
    /// Given in advance; else it is asked for.
    pub key: Option<SecretString>,
    pub check: Check,
}

/// Is the server asked before anything is stored?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    Yes,
    No,
}

/// What was set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Onboarded {
    pub provider: String,
    pub model: String,
    pub config_file: PathBuf,
    /// None for a server that needs no key.
    pub key_file: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("`{0}` is not a provider")]
    UnknownProvider(String),
    #[error("the address {0}")]
    BadUrl(String),
    #[error("`{0}` is not a model name")]
    BadModel(String),
    #[error("the server offers no model `{model}`")]
    UnknownModel { model: String, nearest: Option<String> },
    #[error("{}", .0.what)]
    Trouble(Trouble),
    #[error("nothing was stored")]
    Stopped,
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

impl Error {
    /// What to do next.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Trouble(trouble) => {
                Some(format!("{}. Nothing was stored; --no-check stores it without asking the server", trouble.next))
            }
            Self::UnknownModel { nearest: Some(nearest), .. } => {
                Some(format!("did you mean `{nearest}`? --no-check takes any name"))
            }
            Self::UnknownModel { nearest: None, .. } => Some("--no-check takes any name".to_owned()),
            Self::Prompt(_) => Some(
                "without a terminal say everything with --provider or --base-url, --model and --key-stdin".to_owned(),
            ),
            Self::BadUrl(_) => Some("write it whole: https://api.example.com/v1".to_owned()),
            Self::UnknownProvider(name) => Some(did_you_mean(
                name,
                ["anthropic", "openai", "ollama"],
                "name anthropic, openai or ollama, or the address of a server that speaks the OpenAI API (http://…)",
            )),
            Self::NoHome => Some("set HOME, or XDG_CONFIG_HOME to a folder for keys".to_owned()),
            Self::BadModel(_) => Some("`patchboard models` lists names".to_owned()),
            Self::Stopped | Self::Read { .. } | Self::Edit { .. } | Self::Credentials(_) => None,
        }
    }
}

/// What is known of the file that will be edited.
struct Current<'a> {
    text: &'a str,
}

impl Current<'_> {
    fn agent(&self, key: &str) -> Option<String> {
        get(self.text, "agents", super::DEFAULT_AGENT, key)
    }

    fn address(&self, provider: &str) -> Option<String> {
        get(self.text, "providers", provider, "base_url")
    }

    /// The default agent's model, if it is one of this provider.
    fn model_of(&self, provider: &str) -> Option<String> {
        self.agent("model").filter(|_| self.agent("provider").as_deref() == Some(provider))
    }
}

/// Everything that is stored.
struct Settled {
    name: String,
    chosen: Chosen,
    /// None leaves what the file says.
    base_url: Option<String>,
    key: Option<SecretString>,
    model: String,
}

/// Asks what is not yet decided, checks it with the server, then stores the key and edits the file.
pub(crate) fn onboard(
    mut request: OnboardRequest,
    prompt: &mut dyn Prompt,
    server: &dyn ModelServer,
) -> Result<Onboarded, Error> {
    let folders = Folders::new(&request.env);
    let credentials_dir = folders.credentials_dir().ok_or(Error::NoHome)?;
    let config_file = config_file(&request, &folders)?;
    let text = read_existing(&config_file)?;
    let current = Current { text: &text };

    let chosen = choose(&request, &current, prompt)?;
    let settled = loop {
        match settle(&request, &chosen, &current, prompt, server) {
            Ok(settled) => break settled,
            Err(Error::Trouble(trouble)) if prompt.is_person() => {
                prompt.say(&trouble.what)?;
                prompt.say(&format!("What to do: {}.", trouble.next))?;
                match prompt.ask("Type `again` to try again, `store` to store it all the same", "stop")?.as_str() {
                    "again" => request = OnboardRequest { key: None, base_url: None, model: None, ..request },
                    "store" => request.check = Check::No,
                    _ => return Err(Error::Stopped),
                }
            }
            Err(error) => return Err(error),
        }
    };

    let edit = ProviderEdit {
        name: &settled.name,
        kind: settled.chosen.kind().as_str(),
        base_url: settled.base_url.as_deref(),
        model: &settled.model,
    };
    let edited = set_provider(&text, &edit).map_err(|reason| Error::Edit { path: config_file.clone(), reason })?;
    let store = CredentialStore::new(credentials_dir);
    let key_file = write_both(&settled.name, &store, settled.key.as_ref(), &config_file, &edited)?;
    let variable = settled.chosen.key_variable().filter(|variable| request.env.get(variable).is_some());
    if let (Some(variable), Some(_)) = (variable, &key_file) {
        prompt.say(&format!("Note: {variable} is set and wins over the stored key"))?;
    }
    Ok(Onboarded { provider: settled.name, model: settled.model, config_file, key_file })
}

fn choose(request: &OnboardRequest, current: &Current<'_>, prompt: &mut dyn Prompt) -> Result<Chosen, Error> {
    match (&request.provider, request.base_url.as_deref()) {
        (Some(provider), base_url) => Chosen::parse(provider, base_url),
        (None, Some(address)) => Chosen::at(address),
        (None, None) => {
            let known = current.agent("provider").map(|name| match Chosen::parse(&name, None) {
                Ok(_) => Some(name),
                Err(_) => current.address(&name),
            });
            let default = known.flatten().unwrap_or_else(|| Vendor::Anthropic.name().to_owned());
            let question =
                "Provider (anthropic, openai, ollama, or the address of any server that speaks the OpenAI API)";
            let answer = prompt.ask(question, &default)?;
            // The name that a server already has in the file stays.
            let named =
                current.agent("provider").filter(|name| current.address(name).as_deref() == Some(answer.as_str()));
            match (Chosen::parse(&answer, None)?, named) {
                (Chosen::Other { address, .. }, Some(name)) => Ok(Chosen::Other { name: Some(name), address }),
                (chosen, _) => Ok(chosen),
            }
        }
    }
}

/// One round of address, key and model, checked with the server.
fn settle(
    request: &OnboardRequest,
    chosen: &Chosen,
    current: &Current<'_>,
    prompt: &mut dyn Prompt,
    server: &dyn ModelServer,
) -> Result<Settled, Error> {
    let base_url = base_url(request, chosen, current, prompt)?;
    let name = chosen.name(base_url.as_deref());
    let provider = ProviderConfig {
        base_url: base_url.clone().or_else(|| current.address(&name)),
        ..ProviderConfig::of_kind(chosen.kind())
    };
    let address = provider.api_root(&request.env).unwrap_or_default();
    let key = match &request.key {
        Some(given) => Some(parse_key(given)?),
        None => ask_key(chosen, base_url.as_deref(), prompt)?,
    };
    let target = Target { kind: chosen.kind(), name: &name, address: &address, key: key.as_ref() };
    let configured = current.model_of(&name);
    let model = match request.check {
        Check::No => typed_model(request, configured.as_deref(), prompt)?,
        Check::Yes => checked_model(request, chosen, target, configured.as_deref(), prompt, server)?,
    };
    Ok(Settled { name, chosen: chosen.clone(), base_url, key, model })
}

/// A model of the server, which has accepted the key.
fn checked_model(
    request: &OnboardRequest,
    chosen: &Chosen,
    target: Target<'_>,
    configured: Option<&str>,
    prompt: &mut dyn Prompt,
    server: &dyn ModelServer,
) -> Result<String, Error> {
    let host = endpoint::host_of(target.address);
    let asked = Asked { host: &host, address: target.address, with_key: target.key.is_some() };
    let (model, is_proved) = match server.models(&target) {
        Ok(models) if models.is_empty() => return Err(Error::Trouble(trouble::no_models(asked))),
        Ok(models) => {
            let catalogue = Catalogue::new(models);
            let model = listed_model(request, &catalogue, target.kind, configured, prompt)?;
            // Vendors list nothing without a good key. Others may list for everybody.
            let is_vendors_own = matches!(chosen, Chosen::Vendor(_)) && Chosen::at(target.address)? == *chosen;
            (model, is_vendors_own || target.key.is_none())
        }
        Err(error) => match trouble::of_list(asked, &error) {
            NoList::NotOffered => {
                prompt.say(&format!("{host} offers no list of models, so type the name of one."))?;
                (typed_model(request, configured, prompt)?, false)
            }
            NoList::Trouble(trouble) => return Err(Error::Trouble(trouble)),
        },
    };
    if !is_proved {
        prompt.say(&format!("Trying {model} with one short call …"))?;
        let tried = server.try_out(&target, &model);
        tried.map_err(|error| Error::Trouble(trouble::of_trial(asked, &model, &error)))?;
    }
    Ok(model)
}

/// One of the list, or another name if the user insists.
fn listed_model(
    request: &OnboardRequest,
    catalogue: &Catalogue,
    kind: ProviderKind,
    configured: Option<&str>,
    prompt: &mut dyn Prompt,
) -> Result<String, Error> {
    if let Some(model) = &request.model {
        let model = model_name(model)?;
        if catalogue.contains(&model) {
            return Ok(model);
        }
        let nearest = nearest(&model, catalogue.names()).map(str::to_owned);
        return Err(Error::UnknownModel { model, nearest });
    }
    let default = catalogue.default(configured, kind);
    let mut shown = catalogue.chat_models();
    prompt.say(&format!("The server offers {} models:", shown.len()))?;
    let mut insisted: Option<String> = None;
    for _ in 0..MOST_ANSWERS {
        for line in catalogue::lines(&shown, default) {
            prompt.say(&line)?;
        }
        let answer = prompt.ask("Model (number, name, or part of a name)", default.unwrap_or_default())?;
        match catalogue.read(&answer, &shown) {
            Reading::Model(model) => return Ok(model.to_owned()),
            Reading::Several(fitting) => shown = fitting,
            Reading::Unknown if insisted.as_deref() == Some(answer.as_str()) || !prompt.is_person() => {
                return model_name(&answer);
            }
            Reading::Unknown => {
                prompt
                    .say(&format!("None of them has `{answer}` in its name; type it again to use it all the same."))?;
                insisted = Some(answer);
                shown = Vec::new();
            }
        }
    }
    Err(Error::Stopped)
}

fn typed_model(request: &OnboardRequest, configured: Option<&str>, prompt: &mut dyn Prompt) -> Result<String, Error> {
    match &request.model {
        Some(model) => model_name(model),
        None => model_name(&prompt.ask("Model", configured.unwrap_or_default())?),
    }
}

fn model_name(text: &str) -> Result<String, Error> {
    let model = text.trim();
    if model.is_empty() || model.chars().any(char::is_control) {
        return Err(Error::BadModel(text.to_owned()));
    }
    Ok(model.to_owned())
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

/// The address to write into the file; none for a vendor at its usual place.
fn base_url(
    request: &OnboardRequest,
    chosen: &Chosen,
    current: &Current<'_>,
    prompt: &mut dyn Prompt,
) -> Result<Option<String>, Error> {
    match (&request.base_url, chosen) {
        (Some(given), _) => endpoint::checked(given).map(Some),
        (None, Chosen::Vendor(_)) => Ok(None),
        (None, Chosen::Other { address: Some(address), .. }) => endpoint::checked(address).map(Some),
        (None, Chosen::Other { name, address: None }) => {
            let known = name.as_deref().and_then(|name| current.address(name));
            let default = known.unwrap_or_else(|| chosen.usual_address().to_owned());
            endpoint::checked(&prompt.ask("Address of the server", &default)?).map(Some)
        }
    }
}

fn ask_key(chosen: &Chosen, address: Option<&str>, prompt: &mut dyn Prompt) -> Result<Option<SecretString>, Error> {
    let title = chosen.title(address);
    match chosen {
        Chosen::Vendor(_) => Ok(Some(parse_key(&prompt.ask_hidden(&format!("{title} API key"))?)?)),
        Chosen::Other { .. } => {
            let typed = match prompt.ask_hidden(&format!("API key for {title} (empty if it needs none)")) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !prompt.is_person() => return Ok(None),
                typed => typed?,
            };
            if typed.expose_secret().trim().is_empty() { Ok(None) } else { Ok(Some(parse_key(&typed)?)) }
        }
    }
}

/// Both files are complete under temporary names before either is put in
/// place.
fn write_both(
    provider: &str,
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
    let key = key.map(|key| store.prepare(provider, key)).transpose()?;
    let key_file = key.map(PendingFile::commit).transpose()?;
    config.commit()?;
    Ok(key_file)
}
