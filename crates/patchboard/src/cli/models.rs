//! `patchboard models`: lists the models for runs and chats, from the running server or, without one, from the
//! configured providers.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use futures_util::future::join_all;
use patchboard_config::load::load_with_secrets;
use patchboard_config::{DEFAULT_AGENT, LoadedConfig, Secrets};
use patchboard_core::model::ModelError;
use patchboard_http::ClientPool;
use patchboard_providers::list_models;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::failure::CommandFailure;
use super::{ConfigLocation, ServerTarget, block_on};
use crate::assemble::provider_options;
use crate::client::{GatewayClient, ServerAddress};
use crate::output;
use crate::output::{Column, TableCell, TextRole, TextTable};
use crate::provider_choice::ProviderChoice;

/// The same timeout a server uses.
const PROVIDER_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub(crate) struct ModelsArgs {
    #[command(flatten)]
    target: ServerTarget,
    /// Mark the model of this agent instead of the default one's.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only models of this provider.
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Print JSON, one model a line.
    #[arg(long)]
    json: bool,
}

/// The server's `models.list` result.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ModelsReport {
    models: Vec<ListedModel>,
    unavailable: Vec<UnavailableProvider>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct ListedModel {
    id: String,
    name: String,
    provider: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    default: bool,
}

/// A provider whose models could not be listed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct UnavailableProvider {
    provider: String,
    reason: String,
}

pub(super) fn run(args: ModelsArgs) -> Result<ExitCode, CommandFailure> {
    block_on(async move {
        let mut report = match args.target.find()? {
            Some(address) => ask_server(&address, args.agent.as_deref()).await?,
            None => ask_providers(&args.target.place, args.agent.as_deref()).await?,
        };
        if let Some(wanted) = &args.provider {
            report.filter_provider(wanted)?;
        }
        show(&report, args.json);
        Ok(ExitCode::SUCCESS)
    })
}

async fn ask_server(address: &ServerAddress, agent: Option<&str>) -> Result<ModelsReport, CommandFailure> {
    let mut client = GatewayClient::connect(address).await.map_err(CommandFailure::from_connect_error)?;
    let answer = client.call("models.list", json!({ "agent": agent })).await?;
    ModelsReport::deserialize(answer).map_err(|_| CommandFailure::failed("the server's answer cannot be read"))
}

/// The models a starting server would find.
async fn ask_providers(place: &ConfigLocation, agent: Option<&str>) -> Result<ModelsReport, CommandFailure> {
    // A missing key affects only its own provider.
    let (mut loaded, mut secrets, _) = load_with_secrets(place.request()?);
    super::warn_untrusted(&loaded);
    let name = agent.unwrap_or(DEFAULT_AGENT);
    if !loaded.config.agents.contains_key(name) {
        let known = loaded.config.agents.keys().map(String::as_str);
        let all = format!("there are {}", known.clone().collect::<Vec<_>>().join(", "));
        return Err(CommandFailure::unknown_name(&format!("no agent is named `{name}`"), name, known, &all));
    }
    let stop = CancellationToken::new();
    let chosen = ProviderChoice::find(&loaded, &stop).await.map_err(CommandFailure::from_local_model_error)?;
    let installed = chosen.as_ref().filter(|choice| choice.installed.is_some()).map(|choice| choice.name.clone());
    if let Some(choice) = &chosen {
        choice.add_to(&mut loaded.config, &mut secrets);
    }
    let data_dir = loaded.config.data_dir.display().to_string();
    output::eprint_line(&output::one_line(&format!(
        "no server runs on `{data_dir}`: these are the models of the providers in its configuration"
    )));
    let mut report = ModelsReport::default();
    let pool = ClientPool::new();
    let queries = loaded.config.providers.keys().map(|provider| {
        let is_asleep = installed.as_deref() == Some(provider.as_str());
        let (loaded, secrets, pool) = (&loaded, &secrets, &pool);
        async move {
            // A request to the local model would start it.
            let listed =
                if is_asleep { Ok(Vec::new()) } else { list_provider_models(loaded, secrets, provider, pool).await };
            (provider, listed)
        }
    });
    for (provider, listed) in join_all(queries).await {
        match listed {
            Ok(models) => models.into_iter().for_each(|model| report.add(provider, &model)),
            Err(reason) => report.unavailable.push(UnavailableProvider { provider: provider.clone(), reason }),
        }
    }
    for (agent_name, agent) in &loaded.config.agents {
        let Some(provider) = loaded.config.provider_name(agent).map(str::to_owned) else { continue };
        let usual = || loaded.config.provider(&provider).map(|provider| provider.default_model().to_owned());
        let Some(model) = agent.model.clone().or_else(usual) else { continue };
        report.add(&provider, &model);
        if agent_name == name {
            let id = format!("{provider}/{model}");
            report.models.iter_mut().for_each(|model| model.default = model.id == id);
        }
    }
    pool.close().await;
    Ok(report)
}

async fn list_provider_models(
    loaded: &LoadedConfig,
    secrets: &Secrets,
    provider: &str,
    pool: &ClientPool,
) -> Result<Vec<String>, String> {
    let options = provider_options(loaded, secrets, provider).map_err(|error| error.to_string())?;
    let stop = CancellationToken::new();
    let listed = tokio::time::timeout(PROVIDER_TIMEOUT, list_models(options, pool, &stop)).await;
    let listed = listed.map_err(|_| format!("did not answer within {} s", PROVIDER_TIMEOUT.as_secs()))?;
    let listed = listed.map_err(|error: ModelError| error.to_string())?;
    Ok(listed.into_iter().map(|model| model.id.to_string()).collect())
}

impl ModelsReport {
    fn add(&mut self, provider: &str, model: &str) {
        let id = format!("{provider}/{model}");
        if self.models.iter().all(|known| known.id != id) {
            self.models.push(ListedModel { id, name: model.to_owned(), provider: provider.to_owned(), default: false });
        }
    }

    fn filter_provider(&mut self, wanted: &str) -> Result<(), CommandFailure> {
        let known: Vec<String> = self.models.iter().map(|model| model.provider.clone()).collect();
        let known: Vec<&str> =
            known.iter().chain(self.unavailable.iter().map(|one| &one.provider)).map(String::as_str).collect();
        if !known.contains(&wanted) {
            let mut names = known.clone();
            names.dedup();
            let all = format!("there are {}", names.join(", "));
            return Err(CommandFailure::unknown_name(&format!("no provider is named `{wanted}`"), wanted, known, &all));
        }
        self.models.retain(|model| model.provider == wanted);
        self.unavailable.retain(|one| one.provider == wanted);
        Ok(())
    }

    fn table(&self) -> TextTable {
        let mut table = TextTable::new([Column::whole("MODEL"), Column::whole("USE"), Column::cut("NAME")]);
        for model in &self.models {
            // Most providers have no separate display name for a model.
            let is_same = model.id.ends_with(&model.name);
            let name = if is_same { "" } else { &model.name };
            let mark = if model.default { TableCell::painted("default", TextRole::Good) } else { "".into() };
            table.push_row([TableCell::painted(&model.id, TextRole::Name), mark, name.into()]);
        }
        table
    }
}

fn show(report: &ModelsReport, json: bool) {
    match json {
        true => report
            .models
            .iter()
            .filter_map(|model| serde_json::to_string(model).ok())
            .for_each(|line| output::print_line(&line)),
        false if report.models.is_empty() => output::eprint_line("no model is known"),
        false => report.table().print(),
    }
    for UnavailableProvider { provider, reason } in &report.unavailable {
        let message =
            format!("provider `{provider}` does not tell: {reason}; any model of it can be named as {provider}/MODEL");
        output::eprint_line(&output::one_line(&message));
    }
}

#[cfg(test)]
mod tests;
