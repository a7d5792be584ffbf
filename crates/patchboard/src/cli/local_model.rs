//! The managed local model as the provider of agents without one.

use patchboard_local_model::prepare;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::failure::CommandFailure;
use super::progress::TerminalProgress;
use crate::effective_config::EffectiveConfig;
use crate::provider_choice::local_model_options;

pub(super) async fn install_and_start(
    effective: &mut EffectiveConfig,
    stop: &CancellationToken,
    background: &TaskTracker,
) -> Result<(), CommandFailure> {
    let bar = TerminalProgress::new();
    let prepared = prepare(&local_model_options(&effective.loaded.config), &bar, stop).await;
    bar.finish();
    let prepared = prepared.map_err(CommandFailure::from_local_model_error)?;
    effective.start_local_model(prepared, stop, background).await.map_err(CommandFailure::from_local_model_error)
}
