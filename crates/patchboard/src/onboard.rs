//! `patchboard onboard`: choose a provider, enter its key without echo, have the server asked for its models, and have all of
//! it remembered. Nothing is written before everything is known and checked, unless the user says so, and a file that cannot
//! be written leaves no other behind.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use patchboard_config::credentials::{self, CredentialStore, PendingFile, create_private_folder, parse_key};
use patchboard_config::{
    DEFAULT_AGENT, Environment, UserFolders,
    edit::{ProviderEdit, provider_setting, set_provider},
    files::{FILE_NAME, read_text},
    section::{ProviderConfig, ProviderKind},
};
use patchboard_core::model::ModelError;
use patchboard_core::text::{did_you_mean, nearest};
use secrecy::{ExposeSecret, SecretString};

use catalogue::{ModelSelection, ServerModels};
use endpoint::{ServerChoice, Vendor};
use server_failure::{ModelListFailure, ServerFailure, ServerQuery};

mod catalogue;
mod endpoint;
mod server_failure;

#[cfg(test)]
mod tests;

/// Answers at one prompt before it gives up.
const MAX_PROMPTS: usize = 30;

/// Speaks with the person at the terminal; tests answer for one.
pub(crate) trait OnboardPrompt {
    fn print_line(&mut self, line: &str) -> io::Result<()>;
    /// Asks for a line; an empty answer means the default.
    fn ask(&mut self, question: &str, default: &str) -> io::Result<String>;
    /// Asks for a line that is not echoed.
    fn ask_secret(&mut self, question: &str) -> io::Result<SecretString>;
    /// Can it be asked again when an answer was wrong?
    fn is_interactive(&self) -> bool;
}

/// Asks model servers; tests answer for one.
pub(crate) trait ModelServer {
    fn models(&self, target: &ProviderEndpoint<'_>) -> Result<Vec<String>, ModelError>;
    /// Makes one short call.
    fn trial_call(&self, target: &ProviderEndpoint<'_>, model: &str) -> Result<(), ModelError>;
}

/// A server with a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProviderEndpoint<'a> {
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
    pub check: ServerCheck,
}

/// Is the server asked before anything is stored?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerCheck {
    Yes,
    No,
}

/// What was set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OnboardOutcome {
    pub provider: String,
    pub model: String,
    pub config_file: PathBuf,
    /// None for a server that needs no key.
    pub key_file: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum OnboardError {
    #[error("`{0}` is not a provider")]
    UnknownProvider(String),
    #[error("the address {0}")]
    BadUrl(String),
    #[error("`{0}` is not a model name")]
    BadModel(String),
    #[error("the server offers no model `{model}`")]
    UnknownModel { model: String, nearest: Option<String> },
    #[error("{}", .0.what)]
    ServerCheck(ServerFailure),
    #[error("nothing was stored")]
    Cancelled,
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
    Credentials(#[from] credentials::CredentialError),
    #[error("cannot ask")]
    Prompt(#[from] io::Error),
}

impl OnboardError {
    /// What to do next.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::ServerCheck(failure) => {
                Some(format!("{}. Nothing was stored; --no-check stores it without asking the server", failure.next))
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
            Self::Cancelled | Self::Read { .. } | Self::Edit { .. } | Self::Credentials(_) => None,
        }
    }
}

/// What is known of the file that will be edited.
struct ExistingConfig<'a> {
    text: &'a str,
}

impl ExistingConfig<'_> {
    fn agent(&self, key: &str) -> Option<String> {
        provider_setting(self.text, "agents", DEFAULT_AGENT, key)
    }

    fn address(&self, provider: &str) -> Option<String> {
        provider_setting(self.text, "providers", provider, "base_url")
    }

    /// The default agent's model, if it is one of this provider.
    fn model_of(&self, provider: &str) -> Option<String> {
        self.agent("model").filter(|_| self.agent("provider").as_deref() == Some(provider))
    }
}

/// Everything that is stored.
struct ProviderSetup {
    name: String,
    server: ServerChoice,
    /// None leaves what the file says.
    base_url: Option<String>,
    key: Option<SecretString>,
    model: String,
}

/// Asks what is not yet decided, checks it with the server, then stores the key and edits the file.
pub(crate) fn onboard(
    mut request: OnboardRequest,
    prompt: &mut dyn OnboardPrompt,
    server: &dyn ModelServer,
) -> Result<OnboardOutcome, OnboardError> {
    let folders = UserFolders::new(&request.env);
    let credentials_dir = folders.credentials_dir().ok_or(OnboardError::NoHome)?;
    let config_file = config_file(&request, &folders)?;
    let text = read_existing(&config_file)?;
    let current = ExistingConfig { text: &text };

    let chosen = choose_server(&request, &current, prompt)?;
    let settled = loop {
        match collect_setup(&request, &chosen, &current, prompt, server) {
            Ok(settled) => break settled,
            Err(OnboardError::ServerCheck(failure)) if prompt.is_interactive() => {
                prompt.print_line(&failure.what)?;
                prompt.print_line(&format!("What to do: {}.", failure.next))?;
                match prompt.ask("Type `again` to try again, `store` to store it all the same", "stop")?.as_str() {
                    "again" => request = OnboardRequest { key: None, base_url: None, model: None, ..request },
                    "store" => request.check = ServerCheck::No,
                    _ => return Err(OnboardError::Cancelled),
                }
            }
            Err(error) => return Err(error),
        }
    };

    let edit = ProviderEdit {
        name: &settled.name,
        kind: settled.server.kind().as_str(),
        base_url: settled.base_url.as_deref(),
        model: &settled.model,
    };
    let edited =
        set_provider(&text, &edit).map_err(|reason| OnboardError::Edit { path: config_file.clone(), reason })?;
    let store = CredentialStore::new(credentials_dir);
    let key_file = write_key_and_config(&settled.name, &store, settled.key.as_ref(), &config_file, &edited)?;
    let variable = settled.server.key_variable().filter(|variable| request.env.get(variable).is_some());
    if let (Some(variable), Some(_)) = (variable, &key_file) {
        prompt.print_line(&format!("Note: {variable} is set and wins over the stored key"))?;
    }
    Ok(OnboardOutcome { provider: settled.name, model: settled.model, config_file, key_file })
}

fn choose_server(
    request: &OnboardRequest,
    current: &ExistingConfig<'_>,
    prompt: &mut dyn OnboardPrompt,
) -> Result<ServerChoice, OnboardError> {
    match (&request.provider, request.base_url.as_deref()) {
        (Some(provider), base_url) => ServerChoice::parse(provider, base_url),
        (None, Some(address)) => ServerChoice::at(address),
        (None, None) => {
            let known = current.agent("provider").map(|name| match ServerChoice::parse(&name, None) {
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
            match (ServerChoice::parse(&answer, None)?, named) {
                (ServerChoice::Other { address, .. }, Some(name)) => {
                    Ok(ServerChoice::Other { name: Some(name), address })
                }
                (chosen, _) => Ok(chosen),
            }
        }
    }
}

/// One round of address, key and model, checked with the server.
fn collect_setup(
    request: &OnboardRequest,
    chosen: &ServerChoice,
    current: &ExistingConfig<'_>,
    prompt: &mut dyn OnboardPrompt,
    server: &dyn ModelServer,
) -> Result<ProviderSetup, OnboardError> {
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
    let target = ProviderEndpoint { kind: chosen.kind(), name: &name, address: &address, key: key.as_ref() };
    let configured = current.model_of(&name);
    let model = match request.check {
        ServerCheck::No => typed_model(request, configured.as_deref(), prompt)?,
        ServerCheck::Yes => checked_model(request, chosen, target, configured.as_deref(), prompt, server)?,
    };
    Ok(ProviderSetup { name, server: chosen.clone(), base_url, key, model })
}

/// A model of the server, which has accepted the key.
fn checked_model(
    request: &OnboardRequest,
    chosen: &ServerChoice,
    target: ProviderEndpoint<'_>,
    configured: Option<&str>,
    prompt: &mut dyn OnboardPrompt,
    server: &dyn ModelServer,
) -> Result<String, OnboardError> {
    let host = endpoint::host_of(target.address);
    let query = ServerQuery { host: &host, address: target.address, with_key: target.key.is_some() };
    let (model, is_proved) = match server.models(&target) {
        Ok(models) if models.is_empty() => {
            return Err(OnboardError::ServerCheck(server_failure::empty_list_failure(query)));
        }
        Ok(models) => {
            let catalogue = ServerModels::new(models);
            let model = listed_model(request, &catalogue, target.kind, configured, prompt)?;
            // Vendors list nothing without a good key. Others may list for everybody.
            let is_vendors_own =
                matches!(chosen, ServerChoice::Vendor(_)) && ServerChoice::at(target.address)? == *chosen;
            (model, is_vendors_own || target.key.is_none())
        }
        Err(error) => match server_failure::list_failure(query, &error) {
            ModelListFailure::NotOffered => {
                prompt.print_line(&format!("{host} offers no list of models, so type the name of one."))?;
                (typed_model(request, configured, prompt)?, false)
            }
            ModelListFailure::Failed(failure) => return Err(OnboardError::ServerCheck(failure)),
        },
    };
    if !is_proved {
        prompt.print_line(&format!("Trying {model} with one short call …"))?;
        let tried = server.trial_call(&target, &model);
        tried.map_err(|error| OnboardError::ServerCheck(server_failure::trial_failure(query, &model, &error)))?;
    }
    Ok(model)
}

/// One of the list, or another name if the user insists.
fn listed_model(
    request: &OnboardRequest,
    catalogue: &ServerModels,
    kind: ProviderKind,
    configured: Option<&str>,
    prompt: &mut dyn OnboardPrompt,
) -> Result<String, OnboardError> {
    if let Some(model) = &request.model {
        let model = model_name(model)?;
        if catalogue.contains(&model) {
            return Ok(model);
        }
        let nearest = nearest(&model, catalogue.names()).map(str::to_owned);
        return Err(OnboardError::UnknownModel { model, nearest });
    }
    let default = catalogue.default(configured, kind);
    let mut shown = catalogue.chat_models();
    prompt.print_line(&format!("The server offers {} models:", shown.len()))?;
    let mut insisted: Option<String> = None;
    for _ in 0..MAX_PROMPTS {
        for line in catalogue::numbered_lines(&shown, default) {
            prompt.print_line(&line)?;
        }
        let answer = prompt.ask("Model (number, name, or part of a name)", default.unwrap_or_default())?;
        match catalogue.select(&answer, &shown) {
            ModelSelection::Model(model) => return Ok(model.to_owned()),
            ModelSelection::Ambiguous(fitting) => shown = fitting,
            ModelSelection::Unknown if insisted.as_deref() == Some(answer.as_str()) || !prompt.is_interactive() => {
                return model_name(&answer);
            }
            ModelSelection::Unknown => {
                prompt.print_line(&format!(
                    "None of them has `{answer}` in its name; type it again to use it all the same."
                ))?;
                insisted = Some(answer);
                shown = Vec::new();
            }
        }
    }
    Err(OnboardError::Cancelled)
}

fn typed_model(
    request: &OnboardRequest,
    configured: Option<&str>,
    prompt: &mut dyn OnboardPrompt,
) -> Result<String, OnboardError> {
    match &request.model {
        Some(model) => model_name(model),
        None => model_name(&prompt.ask("Model", configured.unwrap_or_default())?),
    }
}

fn model_name(text: &str) -> Result<String, OnboardError> {
    let model = text.trim();
    if model.is_empty() || model.chars().any(char::is_control) {
        return Err(OnboardError::BadModel(text.to_owned()));
    }
    Ok(model.to_owned())
}

/// The file to edit, with links resolved so that a link stays one.
fn config_file(request: &OnboardRequest, folders: &UserFolders) -> Result<PathBuf, OnboardError> {
    let path = match (&request.config_path, &folders.config_dir) {
        (Some(named), _) => request.cwd.join(named),
        (None, Some(folder)) => folder.join(FILE_NAME),
        (None, None) => return Err(OnboardError::NoHome),
    };
    Ok(path.canonicalize().unwrap_or(path))
}

fn read_existing(path: &Path) -> Result<String, OnboardError> {
    match read_text(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(OnboardError::Read { path: path.to_owned(), source }),
    }
}

/// The address to write into the file; none for a vendor at its usual place.
fn base_url(
    request: &OnboardRequest,
    chosen: &ServerChoice,
    current: &ExistingConfig<'_>,
    prompt: &mut dyn OnboardPrompt,
) -> Result<Option<String>, OnboardError> {
    match (&request.base_url, chosen) {
        (Some(given), _) => endpoint::validated_address(given).map(Some),
        (None, ServerChoice::Vendor(_)) => Ok(None),
        (None, ServerChoice::Other { address: Some(address), .. }) => endpoint::validated_address(address).map(Some),
        (None, ServerChoice::Other { name, address: None }) => {
            let known = name.as_deref().and_then(|name| current.address(name));
            let default = known.unwrap_or_else(|| chosen.usual_address().to_owned());
            endpoint::validated_address(&prompt.ask("Address of the server", &default)?).map(Some)
        }
    }
}

fn ask_key(
    chosen: &ServerChoice,
    address: Option<&str>,
    prompt: &mut dyn OnboardPrompt,
) -> Result<Option<SecretString>, OnboardError> {
    let title = chosen.title(address);
    match chosen {
        ServerChoice::Vendor(_) => Ok(Some(parse_key(&prompt.ask_secret(&format!("{title} API key"))?)?)),
        ServerChoice::Other { .. } => {
            let typed = match prompt.ask_secret(&format!("API key for {title} (empty if it needs none)")) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !prompt.is_interactive() => {
                    return Ok(None);
                }
                typed => typed?,
            };
            if typed.expose_secret().trim().is_empty() { Ok(None) } else { Ok(Some(parse_key(&typed)?)) }
        }
    }
}

/// Both files are complete under temporary names before either is put in
/// place.
fn write_key_and_config(
    provider: &str,
    store: &CredentialStore,
    key: Option<&SecretString>,
    config_file: &Path,
    edited: &str,
) -> Result<Option<PathBuf>, OnboardError> {
    let mode = match fs::metadata(config_file) {
        Ok(metadata) => metadata.mode() & 0o777,
        Err(_) => {
            if let Some(folder) = config_file.parent().filter(|folder| !folder.exists()) {
                create_private_folder(folder)?;
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
