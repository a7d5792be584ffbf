//! A board that needs nothing outside the process: a store in memory, a model that follows a script, a clock that is set
//! by hand and ids that count.

use std::sync::Arc;
use std::time::Duration;

use patchboard_core::agent::{AgentSpec, AgentTable};
use patchboard_core::approval::policy::ApprovalPolicy;
use patchboard_core::bridge::{BridgeOptions, TelemetryBus};
use patchboard_core::budget::BudgetLimits;
use patchboard_core::budget::price::PriceTable;
use patchboard_core::hub::HubOptions;
use patchboard_core::hub::notice::NoticeOptions;
use patchboard_core::in_memory::InMemoryStore;
use patchboard_core::memory::MemoryOptions;
use patchboard_core::run_spec::reasoning::ReasoningOptions;
use patchboard_core::run_spec::{AgentSource, StrategyKind};
use patchboard_core::scripted::{
    AcceptAnyArguments, AcceptAnyFolder, CountingIds, FixedSoul, ManualClock, Script, ScriptedModel,
};
use patchboard_core::{Board, BoardLimits, BoardParts};

/// Everything is as in a fresh configuration, with one agent named `default`; a test changes what it is about.
#[derive(Debug)]
pub struct TestBoard(BoardParts);

impl TestBoard {
    /// The model answers with one script after the other, then with `ok`.
    pub fn new(scripts: impl IntoIterator<Item = Script>) -> Self {
        Self::with_agent(test_agent(ScriptedModel::new(scripts)))
    }

    #[expect(clippy::expect_used, reason = "for tests only; a table of one agent has no duplicates")]
    pub fn with_agent(agent: AgentSpec) -> Self {
        Self(BoardParts {
            store: Arc::new(InMemoryStore::new()),
            clock: Arc::new(ManualClock::default()),
            ids: Arc::new(CountingIds::default()),
            agents: AgentTable::new(vec![agent], vec![]).expect("one agent makes a table"),
            tools: Vec::new(),
            pools: Vec::new(),
            workers: None,
            plugins: None,
            channels: Vec::new(),
            telemetry: TelemetryBus::default(),
            bridge: BridgeOptions::default(),
            hub: HubOptions::default(),
            notices: NoticeOptions::default(),
            sinks: Vec::new(),
            schemas: Arc::new(AcceptAnyArguments),
            souls: Arc::new(FixedSoul(None)),
            folders: Arc::new(AcceptAnyFolder),
            embedder: None,
            budgets: BudgetLimits::default(),
            prices: PriceTable(Vec::new()),
            memory: MemoryOptions::default(),
            approval_policy: ApprovalPolicy::default(),
            limits: BoardLimits::default(),
            version: "1.2.3",
        })
    }

    pub fn with(mut self, change: impl FnOnce(&mut BoardParts)) -> Self {
        change(&mut self.0);
        self
    }

    pub fn assemble(self) -> Board {
        Board::assemble(self.0)
    }
}

/// The agent of a [`TestBoard`], without limits that a short test could reach.
pub fn test_agent(model: Arc<ScriptedModel>) -> AgentSpec {
    AgentSpec {
        name: "default".into(),
        provider: model,
        model: "script-1".into(),
        strategy: StrategyKind::React,
        reasoning: ReasoningOptions::default(),
        source: AgentSource::User,
        description: None,
        max_tokens: 1000,
        temperature: None,
        system_prompt: None,
        tools: None,
        budget: BudgetLimits::default(),
        max_run_tokens: None,
        run_timeout: Duration::from_secs(3600),
        context_window: 100_000,
    }
}
