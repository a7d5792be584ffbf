//! Builds the board from the configuration. A flat list of steps; every decision is made by the module of its section.

use std::collections::HashMap;
use std::iter;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use patchboard_config::files::{ConfigFile, FileLayer};
use patchboard_config::section::{self, AgentConfig, BudgetsConfig};
use patchboard_config::{Config, DEFAULT_AGENT, LoadedConfig, ModelRoute, Secrets};
use patchboard_core::agent::{AgentBinding, AgentSpec, AgentTable};
use patchboard_core::approval::policy::{ApprovalMode, ApprovalPolicy};
use patchboard_core::board::{AdoptionReport, BoardLimits, BoardParts, BoardSettings};
use patchboard_core::bridge::{BridgeOptions, TelemetryBus};
use patchboard_core::budget::BudgetLimits;
use patchboard_core::executor::ToolLimits;
use patchboard_core::hub::ConfidencePolicy;
use patchboard_core::hub::{HubOptions, PairingMode};
use patchboard_core::input::InputExpiries;
use patchboard_core::run_spec::AgentSource;

use patchboard_core::memory::MemoryOptions;
use patchboard_core::port::{Embedder, ModelProvider};
use patchboard_core::run::RunLimits;

use patchboard_core::run_spec::reasoning::{ReasoningOptions, SearchLimits};
use patchboard_core::store::Store;
use patchboard_core::tool::Glob;
use patchboard_core::{Board, board};
use patchboard_http::ClientPool;
use patchboard_local_model::LocalModel;
use patchboard_providers::{
    Chain, ChainLink, ChainOptions, HttpEmbedder, ModelOverride, ProviderKind, ProviderOptions, Upstream, embedder,
    upstream,
};
use patchboard_store::{SqliteOptions, SqliteStore};
use patchboard_tools::guard::{ReducedRights, WriteGuard};
use patchboard_tools::mcp::LaunchMode;
use patchboard_tools::worker::PortBlock;
use patchboard_tools::{GrantRules, JsonSchemaCheck, WorkspaceOptions, Workspaces};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::data_dir;
use crate::effective_config::EffectiveConfig;
use crate::provider_choice::LOCAL_PROVIDER;
use crate::system::{SystemClock, SystemIds};
use crate::telemetry::Redactor;
use crate::trust::TrustedReader;
use crate::trust::guard::TrustGuard;
use crate::trust::guarded_files::{agent_folders, content_files, guarded_files, trust_store};

mod builtins;
mod folders;
pub(crate) mod keys;
mod live_embedder;
mod mcp;
mod plugins;
mod sinks;
mod souls;
mod workers;

pub(crate) use live_embedder::LiveEmbedder;
pub(crate) use plugins::limits as plugin_limits;
use souls::SoulFiles;
use workers::PoolDependencies;
pub(crate) use workers::RunningPools;

/// A board with its worker pools and embedder.
#[derive(Debug)]
pub(crate) struct BoardAssembly {
    pub(crate) board: Board,
    /// `None` if no workers are configured.
    pub(crate) pools: Option<RunningPools>,
    pub(crate) embedder: Option<Arc<LiveEmbedder>>,
}

/// Opens the board on the configured database and resumes the unfinished work of the previous process.
pub(crate) async fn open_board(
    effective: &EffectiveConfig,
    pool: &ClientPool,
    redactor: &Arc<Redactor>,
    tracker: &TaskTracker,
    own_ports: &[u16],
    stop: &CancellationToken,
) -> anyhow::Result<BoardAssembly> {
    let EffectiveConfig { loaded, secrets, .. } = effective;
    let config = &loaded.config;
    let path = &config.storage.path;
    let store = SqliteStore::open(SqliteOptions::new(path))
        .with_context(|| format!("cannot open the database `{}`", path.display()))?;
    let store: Arc<dyn Store> = Arc::new(store);
    folders::create_closed_folders(loaded);
    let guard = trust_guard(loaded)?;
    let workspaces = workspaces(loaded, guard.clone(), tracker)?;
    let worker_ports = worker_ports(config, own_ports)?;
    let closed = ClosedPorts { own: own_ports, workers: worker_ports.as_ref() };
    let launch = launch(&workspaces, closed, guard.clone())?;
    let fetch = builtins::fetch(config)?;
    let mut tools =
        vec![builtins::builtins(config, secrets, fetch.clone(), &workspaces, &launch, guard.clone(), tracker)?];
    let pins = |of| Arc::new(mcp::StoredPins { namespace: of, store: store.clone(), clock: Arc::new(SystemClock) });
    tools.extend(mcp::hosts(loaded, secrets, &launch, pins("mcp"), tracker, stop)?.tool_hosts());
    let signals = TelemetryBus::default();
    let pools = worker_ports.map(|ports| {
        let dependencies = PoolDependencies { launch: &launch, ports, signals: &signals, redactor };
        RunningPools::start(loaded, secrets, dependencies, pins("workers"), tracker, stop)
    });
    let pools = pools.transpose()?;
    let plugins = plugins::start_host(
        config,
        secrets,
        plugins::PluginDependencies { fetch, store: store.clone(), guard },
        tracker,
        stop,
    )
    .await;
    let BoardSettings { agents, approval_policy, limits, budgets, prices } = settings(effective, pool)?;
    let embedder = http_embedder(effective, pool)?.map(|embedder| Arc::new(LiveEmbedder::new(embedder)));
    let board = Board::assemble(BoardParts {
        agents,
        pools: pools.as_ref().map(RunningPools::hosts).unwrap_or_default(),
        workers: pools.as_ref().map(RunningPools::workers),
        plugins: Some(plugins),
        channels: plugins::channels(config),
        telemetry: signals,
        bridge: bridge_options(config),
        tools,
        schemas: Arc::new(JsonSchemaCheck::default()),
        souls: Arc::new(soul_files(loaded)),
        folders: Arc::new(workspaces),
        embedder: embedder.clone().map(|embedder| -> Arc<dyn Embedder> { embedder }),
        budgets,
        prices,
        memory: MemoryOptions {
            episodic_window: config.memory.episodic_window as usize,
            semantic: config.memory.semantic,
            context_tokens: u64::from(config.memory.context_tokens),
        },
        hub: hub_options(config),
        notices: sinks::notice_options(config),
        sinks: sinks::sinks(loaded, secrets)?,
        approval_policy,
        limits,
        clock: Arc::new(SystemClock),
        ids: Arc::new(SystemIds),
        version: crate::VERSION,
        store,
    });
    board.open_keys(keys::file_keys(config, secrets)).await?;
    let AdoptionReport { resumed, closed, messages, deliveries } =
        board.adopt().await.context("cannot resume the unfinished work of the previous process")?;
    if closed > 0 {
        tracing::warn!(runs = closed, "the previous process stopped during runs; they ended as interrupted");
    }
    if resumed > 0 {
        tracing::info!(runs = resumed, "unfinished runs of the previous process are resumed");
    }
    if messages > 0 {
        tracing::info!(messages, "unfinished messages of the previous process are still being delivered to apps");
    }
    if deliveries > 0 {
        tracing::info!(deliveries, "channel messages left by the previous process are answered now");
    }
    Ok(BoardAssembly { board, pools, embedder })
}

/// What can be replaced while the board works.
pub(crate) fn settings(effective: &EffectiveConfig, pool: &ClientPool) -> anyhow::Result<BoardSettings> {
    let config = &effective.loaded.config;
    Ok(BoardSettings {
        agents: agents(effective, pool)?,
        approval_policy: approval_policy(config),
        limits: limits(config),
        budgets: budget_limits(&config.budgets),
        prices: config.price_table(),
    })
}

fn bridge_options(config: &Config) -> BridgeOptions {
    let bridge = &config.bridge;
    BridgeOptions {
        session_ttl: bridge.session_ttl.into(),
        max_sessions: bridge.max_sessions as usize,
        expose: bridge.expose.iter().map(|glob| Glob::new(glob.as_str())).collect(),
    }
}

fn hub_options(config: &Config) -> HubOptions {
    let hub = &config.hub;
    HubOptions {
        response_timeout: hub.response_timeout.into(),
        expiry: hub.expiry.into(),
        reroute_direct: hub.reroute_direct,
        follow_up: hub.follow_up.into(),
        pairing: match hub.pairing {
            section::PairingPolicy::Open => PairingMode::Open,
            section::PairingPolicy::Approve => PairingMode::Approve,
            section::PairingPolicy::Token => PairingMode::Token,
        },
        rules: hub.user_rules(),
        catch_all: hub.catch_all.as_deref().map(Into::into),
        agent: hub.agent.as_deref().map(Into::into),
        policy: match hub.policy {
            section::RoutingPolicy::Careful => ConfidencePolicy::CAREFUL,
            section::RoutingPolicy::Balanced => ConfidencePolicy::BALANCED,
            section::RoutingPolicy::Eager => ConfidencePolicy::EAGER,
        },
    }
}

fn agents(effective: &EffectiveConfig, pool: &ClientPool) -> anyhow::Result<AgentTable> {
    let config = &effective.loaded.config;
    let agents = config.agents.iter().map(|(name, agent)| agent_spec(effective, pool, name, agent));
    let agents = agents.collect::<anyhow::Result<Vec<AgentSpec>>>()?;
    let bindings = config.bindings.iter().cloned().map(|binding| AgentBinding {
        agent: binding.agent.into(),
        channel: binding.channel,
        account: binding.account,
        peer: binding.peer,
        guild: binding.guild,
        team: binding.team,
    });
    let table = AgentTable::new(agents, bindings.collect()).map_err(|error| anyhow!("{error}"))?;
    let providers = config.providers.keys().map(|name| single_provider(effective, pool, name));
    Ok(table.with_providers(providers.collect::<anyhow::Result<_>>()?, section::default_context_window))
}

/// A chain of one provider, for runs that choose one of its models.
fn single_provider(
    effective: &EffectiveConfig,
    pool: &ClientPool,
    name: &str,
) -> anyhow::Result<Arc<dyn ModelProvider>> {
    let link = ChainLink::new(link(effective, name, pool)?, ModelOverride::Requested);
    Ok(Arc::new(Chain::new(link, Vec::new(), ChainOptions::default())))
}

fn agent_spec(
    effective: &EffectiveConfig,
    pool: &ClientPool,
    name: &str,
    agent: &AgentConfig,
) -> anyhow::Result<AgentSpec> {
    let config = &effective.loaded.config;
    let routes = config.model_routes(agent);
    let mut links = routes.iter().enumerate().map(|(index, route)| {
        let choice = match index {
            0 => ModelOverride::Requested,
            _ => ModelOverride::Named(route.model.as_str().into()),
        };
        anyhow::Ok(ChainLink::new(link(effective, &route.provider, pool)?, choice))
    });
    let first = links.next().ok_or_else(|| anyhow!("agent `{name}` has no provider"))??;
    let fallbacks = links.collect::<anyhow::Result<Vec<ChainLink>>>()?;
    let model = routes.first().map(|route| route.model.clone()).unwrap_or_default();
    Ok(AgentSpec {
        name: name.into(),
        provider: Arc::new(Chain::new(first, fallbacks, ChainOptions::default())),
        context_window: agent.context_window_for(&model),
        model: model.into(),
        strategy: agent.strategy.kind(),
        reasoning: ReasoningOptions { search_limits: search_limits(effective, &routes), ..agent.reasoning() },
        source: agent_source(&effective.loaded, name),
        description: agent.description.as_deref().map(Into::into),
        max_tokens: agent.max_tokens,
        #[expect(clippy::cast_possible_truncation, reason = "a temperature between 0 and 2 fits")]
        temperature: agent.temperature.map(|temperature| temperature as f32),
        system_prompt: agent.system_prompt.as_deref().map(Into::into),
        tools: agent.tools.as_ref().map(|globs| globs.iter().map(|glob| Glob::new(glob.as_str())).collect()),
        budget: budget_limits(&agent.budget),
        max_run_tokens: agent.max_run_tokens,
        run_timeout: agent.run_timeout.into(),
    })
}

/// Searching asks the model many times for one reply; a model on this machine's processor gets less of it.
fn search_limits(effective: &EffectiveConfig, routes: &[ModelRoute]) -> SearchLimits {
    let is_local =
        effective.local_model.is_some() && routes.first().is_some_and(|route| route.provider == LOCAL_PROVIDER);
    match is_local {
        true => SearchLimits { model_calls: 12, max_tokens: Some(effective.loaded.config.local_model.max_tokens / 2) },
        false => SearchLimits::default(),
    }
}

/// A file in the working folder takes precedence over others when an agent's source is shown.
fn agent_source(loaded: &LoadedConfig, name: &str) -> AgentSource {
    let files = loaded.agent_files(name);
    let working_folder = &loaded.config.runs.working_folder;
    let is_here = |file: &ConfigFile| file.layer == FileLayer::Project || file.folder() == *working_folder;
    if files.iter().any(|file| is_here(file)) {
        AgentSource::Project
    } else if files.is_empty() && name == DEFAULT_AGENT {
        AgentSource::BuiltIn
    } else {
        AgentSource::User
    }
}

/// Options of a configured provider, including its key.
pub(crate) fn provider_options(
    loaded: &LoadedConfig,
    secrets: &Secrets,
    name: &str,
) -> anyhow::Result<ProviderOptions> {
    let provider = loaded.config.provider(name).ok_or_else(|| anyhow!("no provider is named `{name}`"))?;
    let kind = match provider.kind {
        section::ProviderKind::Anthropic => ProviderKind::Anthropic,
        section::ProviderKind::Openai => ProviderKind::OpenAi,
        section::ProviderKind::Offline => ProviderKind::Offline,
    };
    Ok(ProviderOptions {
        base_url: provider.api_root(&loaded.env),
        api_key: secrets.provider_keys.get(name).cloned(),
        model: Some(provider.default_model().into()),
        connect_timeout: provider.connect_timeout.into(),
        response_timeout: provider.response_timeout.into(),
        idle_timeout: provider.idle_timeout.into(),
        ..ProviderOptions::new(name, kind)
    })
}

/// One link of a chain. The local model's server is woken for its calls.
fn link(effective: &EffectiveConfig, name: &str, pool: &ClientPool) -> anyhow::Result<Arc<dyn Upstream>> {
    let EffectiveConfig { loaded, secrets, local_model } = effective;
    let upstream = upstream(provider_options(loaded, secrets, name)?, pool)?;
    Ok(match local_model {
        Some(server) if name == LOCAL_PROVIDER => Arc::new(LocalModel::new(server.clone(), upstream)),
        Some(_) | None => upstream,
    })
}

pub(crate) fn http_embedder(effective: &EffectiveConfig, pool: &ClientPool) -> anyhow::Result<Option<HttpEmbedder>> {
    let EffectiveConfig { loaded, secrets, .. } = effective;
    let Some(choice) = &loaded.config.memory.embedding else { return Ok(None) };
    let options = provider_options(loaded, secrets, &choice.provider)?;
    Ok(Some(embedder(options, choice.model.as_str(), pool)?))
}

/// The folders of the file tools, never in the data directory or where keys are.
fn workspaces(loaded: &LoadedConfig, guard: Arc<dyn WriteGuard>, tracker: &TaskTracker) -> anyhow::Result<Workspaces> {
    let config = &loaded.config;
    let mut protected = vec![config.data_dir.clone()];
    protected.extend(data_dir::secret_files(&config.data_dir, &config.storage.path));
    let credentials = loaded.folders.credentials_dir();
    // Each file is listed as well as its folder, so that hard links to it are recognised.
    let stored = credentials.iter().filter_map(|folder| folder.read_dir().ok()).flatten().flatten();
    protected.extend(stored.map(|entry| entry.path()));
    protected.extend(credentials);
    protected.extend(config.secret_files());
    // The trust store vouches for guarded files.
    protected.extend(trust_store(loaded).folders().iter().cloned());
    // Every file in this folder is loaded as a plugin.
    protected.extend(config.wasm.folder.clone());
    let options = WorkspaceOptions {
        working_folder: config.runs.working_folder.clone(),
        allowed_roots: config.runs.allowed_roots.clone(),
        protected,
        tasks: tracker.clone(),
        grants: GrantRules { guard: Some(guard), ..grant_rules(loaded) },
    };
    // A symlink loop is not a file and must not prevent the server's start.
    let is_symlink_loop = |path: &Path| {
        let loop_errno = Some(rustix::io::Errno::LOOP.raw_os_error());
        path.canonicalize().is_err_and(|error| error.raw_os_error() == loop_errno)
    };
    let sealed = content_files(loaded).into_iter().map(|file| file.path);
    let sealed = sealed.filter(|path| !is_symlink_loop(path)).collect();
    Workspaces::with_sealed(options, sealed).context("cannot open the working folder")
}

/// Which folders the operator can grant to single runs.
pub(crate) fn grant_rules(loaded: &LoadedConfig) -> GrantRules {
    GrantRules {
        home: loaded.folders.home.clone(),
        own_folders: iter::once(loaded.config.data_dir.clone()).chain(loaded.folders.config_dir.clone()).collect(),
        commands_are_jailed: commands_are_jailed(),
        guard: None,
    }
}

/// Whether commands are confined to their folder; if not, tools that write ask first. Only Linux has commands.
#[cfg(target_os = "linux")]
fn commands_are_jailed() -> bool {
    use patchboard_tools::sandbox::LandlockSupport;
    matches!(LandlockSupport::probe(), LandlockSupport::Available { .. })
}

#[cfg(not(target_os = "linux"))]
fn commands_are_jailed() -> bool {
    false
}

/// The guard for all paths this server executes or reads, with the folders agents may write to.
fn trust_guard(loaded: &LoadedConfig) -> anyhow::Result<Arc<TrustGuard>> {
    let config = &loaded.config;
    let here = std::env::current_dir().context("cannot find out in which folder this program was started")?;
    let bash = &config.tools.bash;
    let rights = ReducedRights {
        writable: vec![config.runs.working_folder.clone()],
        readable: bash.readable.iter().chain(&bash.path).cloned().collect(),
    };
    Ok(Arc::new(TrustGuard::new(trust_store(loaded), guarded_files(loaded, &here), agent_folders(config), rights)))
}

/// The port block of workers; `None` if there are none. It excludes the ports commands may connect to and this server's
/// own ports.
fn worker_ports(config: &Config, own_ports: &[u16]) -> anyhow::Result<Option<PortBlock>> {
    if config.workers.is_empty() {
        return Ok(None);
    }
    let avoid = [own_ports, &config.tools.bash.connect].concat();
    let block = PortBlock::choose(config.bridge.private_ports, &avoid).map_err(|error| anyhow!("{error}"))?;
    if let [first, .., last] = block.ports() {
        tracing::info!(first, last, "ports of workers, blocked in all other jails");
    }
    Ok(Some(block))
}

/// Ports that only their owners may connect to.
struct ClosedPorts<'a> {
    own: &'a [u16],
    workers: Option<&'a PortBlock>,
}

/// Programs are started by this executable through `/proc`, so that a replaced file does not matter.
#[cfg(target_os = "linux")]
fn launch(workspaces: &Workspaces, ports: ClosedPorts<'_>, guard: Arc<dyn WriteGuard>) -> anyhow::Result<LaunchMode> {
    use patchboard_tools::mcp::JailConfig;
    use patchboard_tools::sandbox::Spawner;
    let spawner = Spawner::new("/proc/self/exe").context("cannot prepare to start commands")?;
    Ok(LaunchMode::Jailed(JailConfig {
        spawner: spawner.with_guard(guard.clone()),
        protected: workspaces.protected().into(),
        closed_ports: ports.own.into(),
        worker_ports: ports.workers.map(PortBlock::ports).unwrap_or_default().into(),
        guard: Some(guard),
    }))
}

#[cfg(not(target_os = "linux"))]
fn launch(_: &Workspaces, _: ClosedPorts<'_>, _: Arc<dyn WriteGuard>) -> anyhow::Result<LaunchMode> {
    Ok(LaunchMode::Plain)
}

fn soul_files(loaded: &LoadedConfig) -> SoulFiles {
    let paths = loaded.config.agents.iter().filter_map(|(name, agent)| Some((name.clone(), agent.soul.clone()?)));
    SoulFiles::new(paths.collect::<HashMap<_, _>>(), Arc::new(TrustedReader { store: trust_store(loaded) }))
}

fn budget_limits(budgets: &BudgetsConfig) -> BudgetLimits {
    BudgetLimits { session: budgets.session, daily: budgets.daily, monthly: budgets.monthly }
}

fn approval_policy(config: &Config) -> ApprovalPolicy {
    let rules = config.tools.approval.iter().map(|(glob, approval)| {
        let approval = match approval {
            section::ToolApproval::Allow => ApprovalMode::Allow,
            section::ToolApproval::Ask => ApprovalMode::Ask,
            section::ToolApproval::Deny => ApprovalMode::Deny,
        };
        (Glob::new(glob.as_str()), approval)
    });
    ApprovalPolicy { rules: rules.collect() }
}

fn limits(config: &Config) -> board::BoardLimits {
    BoardLimits {
        run: RunLimits { orphan_grace: Duration::from(config.gateway.orphan_grace) },
        tool: ToolLimits {
            timeout: config.limits.tool_timeout.into(),
            output_bytes: config.limits.tool_output.as_usize(),
        },
        inputs: InputExpiries {
            approval: config.limits.approval_timeout.into(),
            other: config.limits.input_timeout.into(),
        },
        session_queue: config.limits.session_queue as usize,
        concurrent_runs: config.limits.concurrent_runs as usize,
    }
}
