//! `patchboard onboard`

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use clap::Args;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use secrecy::SecretString;

use super::failure::Failure;
use super::{Where, output};
use crate::config::files::{DiskReader, FileLayer, FileReader, FileWarning};
use crate::config::onboard::{OnboardRequest, Prompt, onboard};

#[derive(Debug, Args)]
pub(crate) struct OnboardArgs {
    #[command(flatten)]
    place: Where,
    /// anthropic, openai or ollama; asked for when left out.
    #[arg(long)]
    provider: Option<String>,
    /// API root of a server that speaks the OpenAI API.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Model to use.
    #[arg(long)]
    model: Option<String>,
}

pub(super) fn run(args: OnboardArgs) -> Result<ExitCode, Failure> {
    let request = args.place.request()?;
    let store = args.place.trust_store(&request);
    let edited = request.files().into_iter().find(|file| file.layer != FileLayer::Project);
    if let Some(FileWarning { message, hint }) = edited.as_ref().and_then(|file| request.reader.warning(file)) {
        // Editing it would make the rest of it count too.
        return Err(Failure::unusable(format!("the configuration file {message}")).hint(hint));
    }
    let onboarded = onboard(
        OnboardRequest {
            config_path: request.config_path,
            env: request.env,
            cwd: request.cwd,
            provider: args.provider,
            base_url: args.base_url,
            model: args.model,
        },
        &mut Terminal,
    );
    let done = onboarded.map_err(|error| Failure::failed(format!("{:#}", anyhow::Error::from(error))))?;
    // What this command wrote is the operator's, also where agents may write.
    if let Some(file) = &edited
        && let Some(text) = DiskReader.read(file)?
    {
        store.trust_config(&file.path, &text)?;
    }
    output::line(&format!("provider {} with model {}", done.provider, done.model));
    output::line(&format!("config   {}", done.config_file.display()));
    if let Some(key) = &done.key_file {
        output::line(&format!("key      {}", key.display()));
    }
    output::line("next     patchboard serve");
    Ok(ExitCode::SUCCESS)
}

/// Questions on standard error, so that standard output stays what was asked for.
struct Terminal;

impl Prompt for Terminal {
    fn say(&mut self, line: &str) -> io::Result<()> {
        writeln!(io::stderr(), "{line}")
    }

    fn ask(&mut self, question: &str, default: &str) -> io::Result<String> {
        if default.is_empty() {
            write!(io::stderr(), "{question}: ")?;
        } else {
            write!(io::stderr(), "{question} [{default}]: ")?;
        }
        io::stderr().flush()?;
        let answer = read_line()?;
        let answer = answer.trim();
        Ok(if answer.is_empty() { default } else { answer }.to_owned())
    }

    fn ask_hidden(&mut self, question: &str) -> io::Result<SecretString> {
        // Silent before the question is seen, so that a key pasted at once is not shown either.
        let silence = Silence::begin();
        write!(io::stderr(), "{question}: ")?;
        io::stderr().flush()?;
        let answer = read_line();
        drop(silence);
        writeln!(io::stderr())?;
        answer.map(|answer| answer.trim().into())
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
struct Silence(Option<Termios>);

impl Silence {
    fn begin() -> Self {
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

impl Drop for Silence {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // Nothing better can be done if the terminal is gone.
            tcsetattr(io::stdin(), OptionalActions::Now, before).ok();
        }
    }
}
