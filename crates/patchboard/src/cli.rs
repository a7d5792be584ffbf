//! The command line: its subcommands, and the file that implements each.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, Parser, Subcommand};
use patchboard_config::problem::ProblemCode;
use patchboard_config::{Config, Environment, FlagOverride, LoadRequest, LoadedConfig, UserFolders};

use crate::output;
use crate::trust::{TrustStore, TrustedReader};

mod account;
mod approval_mode;
mod approvals;
mod audit;
mod caller_folder;
mod channels;
mod chat;
mod completions;
mod config;
mod doctor;
mod embedded_server;
#[cfg(target_os = "linux")]
mod exec;
mod explain;
mod failure;
mod faults;
mod figures;
mod help;
mod hub;
mod keys;
mod local_model;
mod logs;
mod markdown;
mod mcp;
mod memory;
mod models;
mod moment;
mod onboard;
mod plugins;
mod progress;
mod reload;
mod remedy;
mod run;
mod runs;
mod serve;
mod sessions;
mod status;
mod stop;
mod syntax;
mod tools;
mod trust;
mod usage;
mod workers;

use failure::CommandFailure;

/// One board for people, apps, agents and tool workers.
#[derive(Debug, Parser)]
#[command(name = "patchboard", version, propagate_version = true, max_term_width = 80)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Start the server. Works without a file, a key or a service.
    Serve(serve::ServeArgs),
    /// Show whether a server runs here, and its state.
    Status(status::StatusArgs),
    /// Stop the server after its active work has ended.
    Stop(stop::StopArgs),
    /// Make the server reload its configuration, and show what changed.
    Reload(reload::ReloadArgs),
    /// Show what the server logged.
    Logs(logs::LogsArgs),
    /// Talk to an agent in the terminal.
    Chat(chat::ChatArgs),
    /// Give an agent a task and follow its work.
    Run(run::RunArgs),
    /// Follow a run again.
    Attach(run::AttachArgs),
    /// List runs, show or follow one again, or stop one.
    Runs(runs::RunsArgs),
    /// Send a message to the app it is meant for.
    Hub(hub::HubArgs),
    /// Answer tool calls that wait for approval.
    Approvals(approvals::ApprovalsArgs),
    /// Show, search, name, hide, fork or clear conversations.
    Sessions(sessions::SessionsArgs),
    /// Create, list or revoke keys of clients.
    Keys(keys::KeysArgs),
    /// Show, correct, forget or export what is remembered of an account.
    Memory(memory::MemoryArgs),
    /// Forget everything that is stored of an account.
    Account(account::AccountArgs),
    /// Show what models were used and what they cost.
    Usage(usage::UsageArgs),
    /// Show who did what: tools, approvals, changes of the server.
    Audit(audit::AuditArgs),
    /// Show how busy, how fast and how healthy the server has been.
    Figures(figures::FiguresArgs),
    /// Show the server's last warnings and errors.
    Faults(faults::FaultsArgs),
    /// Show channels, and what became of their messages.
    Channels(channels::ChannelsArgs),
    /// List the tools agents can use, or call one.
    Tools(tools::ToolsArgs),
    /// List, check, create or manage plugins.
    Plugins(plugins::PluginsArgs),
    /// Show the available models, and the one in use.
    Models(models::ModelsArgs),
    /// Show the pools of workers and what each worker is doing.
    Workers(workers::WorkersArgs),
    /// Offer the tools to an MCP client, on standard input and output.
    Mcp(mcp::McpArgs),
    /// Choose a model provider and store its key.
    Onboard(onboard::OnboardArgs),
    /// Check, show or describe the configuration.
    Config(config::ConfigArgs),
    /// Show files that are not trusted yet, and trust them.
    Trust(trust::TrustArgs),
    /// Diagnose problems of the installation.
    Doctor(doctor::DoctorArgs),
    /// Explain an error code such as PB0103.
    Explain(explain::ExplainArgs),
    /// Print a completion script for a shell.
    Completions(completions::CompletionsArgs),
}

/// The help heading for options that nearly every command has.
const SERVER_HEADING: &str = "Which server";

/// Where the configuration is; every command takes these.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConfigLocation {
    /// Configuration file; then neither the user's own nor ./patchboard.toml is read.
    #[arg(long, value_name = "FILE", help_heading = SERVER_HEADING)]
    config: Option<PathBuf>,
    /// Folder for the database and everything else the server keeps.
    #[arg(long, value_name = "DIR", help_heading = SERVER_HEADING)]
    data_dir: Option<PathBuf>,
}

impl ConfigLocation {
    /// The load request. On a terminal, asks once per process about a project file that was never trusted.
    fn request(&self) -> anyhow::Result<LoadRequest> {
        let request = self.request_without_prompt()?;
        if !HAS_ASKED.swap(true, Ordering::Relaxed) {
            trust::ask_about_project(&request, &self.trust_store(&request))?;
        }
        Ok(request)
    }

    fn trust_store(&self, request: &LoadRequest) -> TrustStore {
        let flag = self.data_dir.as_ref().map(|folder| request.cwd.join(folder));
        TrustStore::find(flag, &request.env, &UserFolders::new(&request.env))
    }

    fn request_without_prompt(&self) -> anyhow::Result<LoadRequest> {
        let mut overrides = Vec::new();
        if let Some(folder) = &self.data_dir {
            overrides.push(FlagOverride::new("--data-dir", "data_dir", folder.display().to_string()));
        }
        let request = LoadRequest::new(self.config.clone(), Environment::from_process(), std::env::current_dir()?);
        let reader = Arc::new(TrustedReader { store: self.trust_store(&request) });
        Ok(LoadRequest { overrides, reader, ..request })
    }

    /// The data directory, for commands that must also work with a broken configuration: then `--data-dir` is
    /// sufficient.
    fn find_data_dir(&self) -> Result<PathBuf, CommandFailure> {
        match (self.load(), &self.data_dir) {
            (Ok(loaded), _) => Ok(loaded.config.data_dir),
            (Err(_), Some(folder)) => Ok(std::env::current_dir()?.join(folder)),
            (Err(failure), None) => Err(failure.hint("with --data-dir DIR this command needs no configuration")),
        }
    }

    /// The configuration, without its secrets.
    fn load(&self) -> Result<LoadedConfig, CommandFailure> {
        let loaded = Config::load(self.request()?)?;
        warn_untrusted(&loaded);
        Ok(loaded)
    }
}

/// Shown once per process, as commands load the configuration several times.
fn warn_untrusted(loaded: &LoadedConfig) {
    let untrusted = loaded.warnings.iter().filter(|warning| warning.code == ProblemCode::UntrustedFile);
    if !HAS_WARNED.swap(true, Ordering::Relaxed) {
        untrusted.for_each(|warning| output::eprint_line(&warning.to_string()));
    }
}

static HAS_ASKED: AtomicBool = AtomicBool::new(false);
static HAS_WARNED: AtomicBool = AtomicBool::new(false);

/// Which server a command talks to.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerTarget {
    #[command(flatten)]
    place: ConfigLocation,
    /// Address of the server's gateway, instead of the one that runs on the data directory. Its token is read from
    /// PATCHBOARD_TOKEN.
    #[arg(long, value_name = "URL", help_heading = SERVER_HEADING)]
    url: Option<String>,
}

impl ServerTarget {
    /// The running server's address; `None` if none runs on the data directory.
    fn find(&self) -> Result<Option<crate::client::ServerAddress>, CommandFailure> {
        match &self.url {
            Some(url) => {
                let token = Environment::from_process().get(patchboard_config::env::PATCHBOARD_TOKEN).map(Into::into);
                Ok(Some(crate::client::ServerAddress::of_url(url, token)?))
            }
            None => Ok(crate::client::ServerAddress::of_data_dir(&self.place.load()?.config.data_dir)),
        }
    }

    /// Whether the server is named by its address instead of its data directory.
    fn is_by_address(&self) -> bool {
        self.url.is_some()
    }

    fn lookup(&self) -> caller_folder::ServerLookup {
        match self.url {
            Some(_) => caller_folder::ServerLookup::Url,
            None => caller_folder::ServerLookup::DataDir,
        }
    }

    async fn connect(&self) -> Result<crate::client::GatewayClient, CommandFailure> {
        let Some(address) = self.find()? else {
            let data_dir = self.place.load()?.config.data_dir;
            return Err(CommandFailure::unreachable(format!("no server runs on `{}`", data_dir.display()))
                .hint("start one with `patchboard serve`, or name one with --url"));
        };
        crate::client::GatewayClient::connect(&address).await.map_err(CommandFailure::from_connect_error)
    }
}

pub(crate) fn run() -> ExitCode {
    // Checked before clap builds the command line: this verb starts every command of an agent, so start-up time
    // matters.
    #[cfg(target_os = "linux")]
    if std::env::args_os().nth(1).is_some_and(|verb| verb == patchboard_tools::sandbox::EXEC_VERB) {
        return exec::run().unwrap_or_else(|failure| failure.report());
    }
    let cli = match syntax::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let outcome = match cli.command {
        CliCommand::Serve(args) => serve::run(args),
        CliCommand::Status(args) => status::run(args),
        CliCommand::Stop(args) => stop::run(args),
        CliCommand::Reload(args) => reload::run(args),
        CliCommand::Logs(args) => logs::run(args),
        CliCommand::Chat(args) => chat::run(args),
        CliCommand::Run(args) => run::run(args),
        CliCommand::Attach(args) => run::attach(args),
        CliCommand::Runs(args) => runs::run(args),
        CliCommand::Hub(args) => hub::run(args),
        CliCommand::Approvals(args) => approvals::run(args),
        CliCommand::Sessions(args) => sessions::run(args),
        CliCommand::Keys(args) => keys::run(args),
        CliCommand::Memory(args) => memory::run(args),
        CliCommand::Account(args) => account::run(args),
        CliCommand::Usage(args) => usage::run(args),
        CliCommand::Audit(args) => audit::run(args),
        CliCommand::Figures(args) => figures::run(args),
        CliCommand::Faults(args) => faults::run(args),
        CliCommand::Channels(args) => channels::run(args),
        CliCommand::Tools(args) => tools::run(args),
        CliCommand::Plugins(args) => plugins::run(args),
        CliCommand::Models(args) => models::run(args),
        CliCommand::Workers(args) => workers::run(args),
        CliCommand::Mcp(args) => mcp::run(args),
        CliCommand::Onboard(args) => onboard::run(args),
        CliCommand::Config(args) => config::run(args),
        CliCommand::Trust(args) => trust::run(args),
        CliCommand::Doctor(args) => doctor::run(args),
        CliCommand::Explain(args) => explain::run(args),
        CliCommand::Completions(args) => completions::run(&args),
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

/// Runs a future on a current-thread runtime, for commands that only call a server.
fn block_on<T>(work: impl Future<Output = Result<T, CommandFailure>>) -> Result<T, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work)
}
