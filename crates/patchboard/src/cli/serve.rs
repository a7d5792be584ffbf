//! `patchboard serve`: starts the server.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use patchboard_config::env::NO_COLOR;
use patchboard_config::section::LogFormat;
use patchboard_config::{Config, FlagOverride, LoadRequest, LoadedConfig, Secrets};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::failure::CommandFailure;
use super::{ConfigLocation, local_model};
use crate::data_dir::process::ProcessRole;
use crate::data_dir::{DataDir, DirSharing};
use crate::effective_config::EffectiveConfig;
use crate::output;
use crate::serve::{self, ReloadSource, Server};
use crate::system;
use crate::telemetry::otlp::{self, TracePipeline};
use crate::telemetry::{self, LogColour, LogControl, LogLineFormat, Redactor};

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    place: ConfigLocation,
    /// Address of the gateway; port 0 picks a free one, `off` disables it.
    #[arg(long, value_name = "ADDR")]
    gateway: Option<String>,
    /// Address of the runs surface; port 0 picks a free one, `off` disables it.
    #[arg(long, value_name = "ADDR")]
    runs: Option<String>,
    /// Address of the hub; port 0 picks a free one, `off` disables it.
    #[arg(long, value_name = "ADDR")]
    hub: Option<String>,
    /// Address of the bridge; port 0 picks a free one, `off` disables it.
    #[arg(long, value_name = "ADDR")]
    bridge: Option<String>,
    /// File to write the addresses to, as JSON, once every listener accepts.
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
    /// Run a local model beside the server: the given GGUF file, or a small one. What is missing for it is fetched once.
    #[arg(long, value_name = "FILE.gguf", num_args = 0..=1)]
    local_model: Option<Option<PathBuf>>,
}

pub(super) fn run(args: ServeArgs) -> Result<ExitCode, CommandFailure> {
    // Must run before any secret is in memory.
    system::disable_process_dumps()?;
    let mut request = args.place.request()?;
    for (flag, path, value) in [
        ("--gateway", "gateway.listen", &args.gateway),
        ("--runs", "runs.listen", &args.runs),
        ("--hub", "hub.listen", &args.hub),
        ("--bridge", "bridge.listen", &args.bridge),
    ] {
        if let Some(value) = value {
            request.overrides.push(FlagOverride::new(flag, path, value.as_str()));
        }
    }
    if let Some(Some(weights)) = &args.local_model {
        request.overrides.push(FlagOverride::new(
            "--local-model",
            "local_model.weights",
            weights.to_string_lossy().as_ref(),
        ));
    }
    let (loaded, secrets) = Config::load_for_start(request.clone())?;
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(serve(args, request, loaded, secrets));
    // Tasks still running have had their time to stop; a hanging file system must not keep the process alive.
    runtime.shutdown_background();
    served
}

async fn serve(
    args: ServeArgs,
    request: LoadRequest,
    loaded: LoadedConfig,
    secrets: Secrets,
) -> Result<ExitCode, CommandFailure> {
    let mut signals = StopSignals::new()?;
    // Registered first: a SIGHUP during start must not end the process.
    let mut hangups = signal(SignalKind::hangup())?;
    let began_on_terminal = std::io::stderr().is_terminal();
    let (logs, traces) = start_logs(&loaded, &secrets)?;
    for warning in loaded.warnings.iter() {
        tracing::warn!("{warning}");
    }
    let stop = CancellationToken::new();
    let background = TaskTracker::new();
    let data = DataDir::acquire(&loaded.config.data_dir, DirSharing::of(&loaded.config));
    let data = data.map_err(|error| CommandFailure::cannot_start(error.into()))?;
    let drain = std::time::Duration::from(loaded.config.drain);
    let recorded = data.record(|process| {
        process.role = ProcessRole::Server;
        process.drain_ms = u64::try_from(drain.as_millis()).unwrap_or(u64::MAX);
    });
    recorded.map_err(|error| CommandFailure::cannot_start(error.into()))?;
    if let Err(error) = logs.file.open(data.path()) {
        tracing::warn!("no log file is written: {error}");
    }
    let mut effective = EffectiveConfig::new(loaded.clone(), secrets.clone());
    match &args.local_model {
        Some(_) => {
            let started = local_model::install_and_start(&mut effective, &stop, &background);
            tokio::select! {
                started = started => started?,
                () = signals.recv() => return Ok(ExitCode::SUCCESS),
            }
        }
        None => {
            let chosen = effective.ensure_provider(None, &stop, &background).await;
            if let Some(why) = chosen.map_err(CommandFailure::from_local_model_error)? {
                tracing::info!("{why}");
            }
        }
    }
    let metrics = telemetry::start_metrics().map_err(CommandFailure::unusable)?;
    // A key that was chosen or generated for the local model must be redacted too.
    logs.redactor.add_secrets(effective.secrets.provider_keys.values());
    let mut server = Server::start(&effective, data, metrics, logs.feed(), traces, background, stop)
        .await
        .map_err(CommandFailure::cannot_start)?;
    server.enable_reloads(ReloadSource {
        request,
        loaded,
        secrets,
        logs,
        local_model: effective.local_model,
        always_local: args.local_model.is_some(),
    });
    serve::write_ready_file(&server, args.ready_file.as_ref()).map_err(CommandFailure::cannot_start)?;
    let record = &server.record;
    let listening = [
        ("gateway", "http", record.gateway),
        ("runs", "ws", record.runs),
        ("hub", "ws", record.hub),
        ("bridge", "grpc", record.bridge),
    ];
    let listening: Vec<String> = listening
        .into_iter()
        .filter_map(|(surface, scheme, address)| Some(format!("{surface} on {scheme}://{}", address?)))
        .collect();
    match listening.is_empty() {
        false => tracing::info!(version = crate::VERSION, "ready: {}", listening.join(", ")),
        true => tracing::warn!("ready, but every surface is off and nothing listens"),
    }

    loop {
        tokio::select! {
            () = signals.recv() => break,
            _ = hangups.recv() => {
                // Closing the terminal sends this signal too, and then the server must stop.
                if began_on_terminal && !std::io::stderr().is_terminal() {
                    break;
                }
                server.reload_in_background();
            }
        }
    }
    tracing::info!("stopping; a second signal stops at once");
    tokio::select! {
        stopped = server.shut_down() => stopped?,
        () = signals.recv() => tracing::warn!("stopped at once"),
    }
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Starts logging. If traces are configured, the caller must run the returned pipeline.
pub(super) fn start_logs(
    loaded: &LoadedConfig,
    secrets: &Secrets,
) -> Result<(LogControl, Option<TracePipeline>), CommandFailure> {
    let colour = LogColour::choose(loaded.env.get(NO_COLOR).is_some());
    let format = match loaded.config.log.format {
        LogFormat::Human => LogLineFormat::Human,
        LogFormat::Json => LogLineFormat::Json,
        LogFormat::Auto if std::io::stderr().is_terminal() => LogLineFormat::Human,
        LogFormat::Auto => LogLineFormat::Json,
    };
    let redactor = Arc::new(Redactor::default());
    redactor.add_secrets(secrets.all());
    let telemetry = &loaded.config.telemetry;
    let prepared = telemetry.otlp_endpoint.as_deref().map(|endpoint| {
        otlp::build_pipeline(otlp::TraceOptions {
            endpoint,
            service_name: &telemetry.service_name,
            version: crate::VERSION,
            sample_ratio: telemetry.sample_ratio,
            redactor: redactor.clone(),
            clock: Arc::new(system::SystemClock),
            ids: &system::SystemIds,
        })
    });
    let (layer, traces) = prepared.transpose().map_err(CommandFailure::unusable)?.unzip();
    let directives = loaded.config.log.directives(&loaded.env);
    let logs =
        telemetry::start_logging(&directives, format, colour, redactor, layer).map_err(CommandFailure::unusable)?;
    Ok((logs, traces))
}

/// Raises the soft limit of open files to the hard limit, as every connection needs one.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        // A failure is no reason not to start; `doctor` reports it.
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            output::eprint_line(&format!("warning: the limit on open files cannot be raised: {error}"));
        }
    }
}

struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn new() -> Result<Self, CommandFailure> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn recv(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
