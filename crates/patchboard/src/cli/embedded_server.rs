//! A server embedded in a command, for the command's duration: on the same data directory, on ports of its own.

use std::path::PathBuf;

use patchboard_config::problem::ProblemCode;
use patchboard_config::{Config, FlagOverride};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::ConfigLocation;
use super::failure::CommandFailure;
use crate::data_dir::{DataDir, DirSharing};
use crate::effective_config::EffectiveConfig;
use crate::output;
use crate::serve::Server;
use crate::system;
use crate::telemetry;
use crate::telemetry::otlp::TracePipeline;

/// The surfaces it listens on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EnabledSurfaces {
    Gateway,
    GatewayAndRuns,
}

/// Whether the chosen model is printed on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelNotice {
    Shown,
    Silent,
}

pub(super) struct EmbeddedServer {
    pub(super) data_dir: PathBuf,
    server: Server,
}

impl EmbeddedServer {
    /// `folder` is the only one open to agents; without it the configured ones are.
    pub(super) async fn start(
        place: &ConfigLocation,
        folder: Option<PathBuf>,
        surfaces: EnabledSurfaces,
        choice: ModelNotice,
        traces: Option<TracePipeline>,
    ) -> Result<Self, CommandFailure> {
        system::disable_process_dumps()?;
        let mut request = place.request()?;
        let runs = match surfaces {
            EnabledSurfaces::Gateway => "off",
            EnabledSurfaces::GatewayAndRuns => "127.0.0.1:0",
        };
        for (flag, path, value) in [
            ("--gateway", "gateway.listen", "127.0.0.1:0"),
            ("--runs", "runs.listen", runs),
            ("--hub", "hub.listen", "off"),
            ("--bridge", "bridge.listen", "off"),
        ] {
            request.overrides.push(FlagOverride::new(flag, path, value));
        }
        if let Some(folder) = folder {
            let folder = toml::Value::from(folder.display().to_string());
            request.overrides.push(FlagOverride::new("--working-folder", "runs.working_folder", folder.clone()));
            request.overrides.push(FlagOverride::new("--working-folder", "runs.allowed_roots", vec![folder]));
        }
        let (loaded, secrets) = Config::load_for_start(request)?;
        super::warn_untrusted(&loaded);
        // Otherwise a rejection by the provider would be unexplained.
        for warning in loaded.warnings.iter().filter(|warning| warning.code == ProblemCode::WithheldKey) {
            output::eprint_line(&warning.to_string());
        }
        let data_dir = loaded.config.data_dir.clone();
        let data = DataDir::acquire(&data_dir, DirSharing::of(&loaded.config));
        let data = data.map_err(|error| CommandFailure::cannot_start(error.into()))?;
        let (background, stop) = (TaskTracker::new(), CancellationToken::new());
        let mut effective = EffectiveConfig::new(loaded, secrets);
        let chosen = effective.ensure_provider(None, &stop, &background).await;
        let chosen = chosen.map_err(CommandFailure::from_local_model_error)?;
        if let (Some(why), ModelNotice::Shown) = (chosen, choice) {
            output::eprint_line(&why);
        }
        let metrics = telemetry::start_metrics().map_err(CommandFailure::unusable)?;
        let log = telemetry::LogFeed::without_log(&effective.secrets);
        let server = Server::start(&effective, data, metrics, log, traces, background, stop)
            .await
            .map_err(CommandFailure::cannot_start)?;
        Ok(Self { data_dir, server })
    }

    pub(super) async fn shut_down(self) -> Result<(), CommandFailure> {
        Ok(self.server.shut_down().await?)
    }
}
