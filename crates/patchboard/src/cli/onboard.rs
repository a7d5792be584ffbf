//! `patchboard onboard`

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use patchboard_config::files::{ConfigFileReader, DiskReader, FileLayer, FileWarning};
use patchboard_config::section;
use patchboard_core::model::ModelError;
use patchboard_http::ClientPool;
use patchboard_providers::{ProviderKind, ProviderOptions, list_models, probe_model};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use secrecy::SecretString;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::ConfigLocation;
use super::failure::CommandFailure;
use crate::onboard::{self, ModelServer, OnboardPrompt, OnboardRequest, ProviderEndpoint, ServerCheck, onboard};
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct OnboardArgs {
    #[command(flatten)]
    place: ConfigLocation,
    /// anthropic, openai, ollama, or with --base-url any name; asked for when left out.
    #[arg(long)]
    provider: Option<String>,
    /// API root of a server that speaks the OpenAI API, such as https://api.example.com/v1.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Model to use; the server's list is offered when left out.
    #[arg(long)]
    model: Option<String>,
    /// Read the key from the first line of standard input.
    #[arg(long)]
    key_stdin: bool,
    /// Store everything without asking the server whether key, address and model are right.
    #[arg(long)]
    no_check: bool,
}

pub(super) fn run(args: OnboardArgs) -> Result<ExitCode, CommandFailure> {
    let request = args.place.request()?;
    let store = args.place.trust_store(&request);
    let edited = request.files().into_iter().find(|file| file.layer != FileLayer::Project);
    if let Some(FileWarning { message, hint }) = edited.as_ref().and_then(|file| request.reader.warning(file)) {
        // Editing it would make the rest of it count too.
        return Err(CommandFailure::unusable(format!("the configuration file {message}")).hint(hint));
    }
    let key = match args.key_stdin {
        true => Some(SecretString::from(read_line()?.trim().to_owned())),
        false => None,
    };
    let onboarded = onboard(
        OnboardRequest {
            config_path: request.config_path,
            env: request.env,
            cwd: request.cwd,
            provider: args.provider,
            base_url: args.base_url,
            model: args.model,
            key,
            check: if args.no_check { ServerCheck::No } else { ServerCheck::Yes },
        },
        &mut TerminalPrompt { is_person: io::stdin().is_terminal() },
        &ProviderProbe::new()?,
    );
    let done = onboarded.map_err(|error| {
        let hint = error.hint();
        // What was typed cannot be meant; nothing was asked or tried.
        let fail = match error {
            onboard::OnboardError::UnknownProvider(_)
            | onboard::OnboardError::BadUrl(_)
            | onboard::OnboardError::BadModel(_) => CommandFailure::unusable,
            onboard::OnboardError::UnknownModel { .. }
            | onboard::OnboardError::ServerCheck(_)
            | onboard::OnboardError::Cancelled
            | onboard::OnboardError::NoHome
            | onboard::OnboardError::Read { .. }
            | onboard::OnboardError::Edit { .. }
            | onboard::OnboardError::Credentials(_)
            | onboard::OnboardError::Prompt(_) => CommandFailure::failed,
        };
        let failure = fail(format!("{:#}", anyhow::Error::from(error)));
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })?;
    // What this command wrote is the operator's, also where agents may write.
    if let Some(file) = &edited
        && let Some(text) = DiskReader.read(file)?
    {
        store.trust_config(&file.path, &text)?;
    }
    output::print_line(&format!("provider {} with model {}", done.provider, done.model));
    output::print_line(&format!("config   {}", done.config_file.display()));
    if let Some(key) = &done.key_file {
        output::print_line(&format!("key      {}", key.display()));
    }
    output::print_line("next     patchboard serve");
    Ok(ExitCode::SUCCESS)
}

/// How long a list of models may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(20);
/// A server on this machine may have to load the model first.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(180);

/// Asks real servers, one question after the other.
struct ProviderProbe {
    runtime: Runtime,
    pool: ClientPool,
}

impl ProviderProbe {
    fn new() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { runtime, pool: ClientPool::new() })
    }
}

impl ModelServer for ProviderProbe {
    fn models(&self, target: &ProviderEndpoint<'_>) -> Result<Vec<String>, ModelError> {
        let stop = CancellationToken::new();
        let listed = self.runtime.block_on(list_models(options(target, LIST_TIMEOUT), &self.pool, &stop))?;
        Ok(listed.into_iter().map(|model| model.id.to_string()).collect())
    }

    fn trial_call(&self, target: &ProviderEndpoint<'_>, model: &str) -> Result<(), ModelError> {
        let options = ProviderOptions { model: Some(model.into()), ..options(target, TRIAL_TIMEOUT) };
        self.runtime.block_on(probe_model(options, &self.pool, &CancellationToken::new()))
    }
}

fn options(target: &ProviderEndpoint<'_>, timeout: Duration) -> ProviderOptions {
    let kind = match target.kind {
        section::ProviderKind::Anthropic => ProviderKind::Anthropic,
        section::ProviderKind::Openai => ProviderKind::OpenAi,
        section::ProviderKind::Offline => ProviderKind::Offline,
    };
    ProviderOptions {
        base_url: Some(target.address.to_owned()),
        api_key: target.key.cloned(),
        response_timeout: timeout,
        idle_timeout: timeout,
        ..ProviderOptions::new(target.name, kind)
    }
}

/// Questions on standard error, so that standard output stays what was asked for.
struct TerminalPrompt {
    is_person: bool,
}

impl OnboardPrompt for TerminalPrompt {
    fn print_line(&mut self, line: &str) -> io::Result<()> {
        writeln!(io::stderr(), "{line}")
    }

    fn ask(&mut self, question: &str, default: &str) -> io::Result<String> {
        if default.is_empty() {
            write!(io::stderr(), "{question}: ")?;
        } else {
            write!(io::stderr(), "{question} [{default}]: ")?;
        }
        io::stderr().flush()?;
        let answer = match read_line() {
            // Without a terminal, the offered default is used.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !self.is_person && !default.is_empty() => {
                writeln!(io::stderr())?;
                String::new()
            }
            answer => answer?,
        };
        let answer = answer.trim();
        Ok(if answer.is_empty() { default } else { answer }.to_owned())
    }

    fn ask_secret(&mut self, question: &str) -> io::Result<SecretString> {
        // Silent before the question is seen, so that a key pasted at once is not shown either.
        let silence = SecretEchoGuard::disable_echo();
        write!(io::stderr(), "{question}: ")?;
        io::stderr().flush()?;
        let answer = read_line();
        drop(silence);
        writeln!(io::stderr())?;
        answer.map(|answer| answer.trim().into())
    }

    fn is_interactive(&self) -> bool {
        self.is_person
    }
}

fn read_line() -> io::Result<String> {
    let mut answer = String::new();
    if io::stdin().lock().read_line(&mut answer)? == 0 {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "standard input ended before the answer"));
    }
    Ok(answer)
}

/// A terminal that does not echo, until dropped. Without a terminal there is nothing to silence.
struct SecretEchoGuard(Option<Termios>);

impl SecretEchoGuard {
    fn disable_echo() -> Self {
        let before = tcgetattr(io::stdin()).ok();
        if let Some(before) = &before {
            let mut silent = before.clone();
            silent.local_modes.remove(LocalModes::ECHO);
            if tcsetattr(io::stdin(), OptionalActions::Now, &silent).is_err() {
                return Self(None);
            }
        }
        Self(before)
    }
}

impl Drop for SecretEchoGuard {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // If the terminal has been closed, nothing can be restored.
            tcsetattr(io::stdin(), OptionalActions::Now, before).ok();
        }
    }
}
