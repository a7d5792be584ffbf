//! Whatever a model does, every strategy ends within its limits, keeps the rules of the trait, and can be replayed.

use crate::run_spec::reasoning::{GotOptions, SearchMethod, TotOptions};
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::{ProptestConfig, Strategy as Generate, any, prop_assert_eq, proptest};

use super::*;
use crate::model::MessageRole;
use crate::run::strategy::Strategy;

/// Pseudo-random numbers that depend only on the seed.
struct Dice(u64);

impl Dice {
    fn of(parts: &[u64]) -> Self {
        let mut dice = Self(0x9e37_79b9_7f4a_7c15);
        for part in parts {
            dice.0 ^= part.wrapping_mul(0xff51_afd7_ed55_8ccd);
            dice.roll(2);
        }
        dice
    }

    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % sides as u64).unwrap()
    }
}

/// A model whose answer depends on the node and on how often it was asked there, never on when.
#[derive(Debug, Clone, Copy)]
struct Whim {
    seed: u64,
    /// Of ten answers, how many are in the form that was asked for.
    sanity: usize,
    /// Of ten answers in words, how many call tools too.
    industry: usize,
    /// Of a hundred questions, how many fail.
    trouble: usize,
}

impl Whim {
    fn answer(self, node: NodeKey, name: &str, nth: u32) -> StrategyInput {
        let mut dice = Dice::of(&[self.seed, u64::from(node.0), u64::from(nth)]);
        if dice.roll(100) < self.trouble {
            return StrategyInput::ModelFailed { node, error: format!("no answer in {}", node.0) };
        }
        let forms = ["think", "think_expand", "think_evaluate", "plan_graph"];
        let form = if dice.roll(10) < self.sanity { name } else { forms[dice.roll(forms.len())] };
        let text = match form {
            "think_expand" => thoughts(&mut dice),
            "think_evaluate" => scores(&mut dice),
            "plan_graph" => graph(&mut dice),
            "execute_graph" if nth > 0 && dice.roll(2) == 0 => graph(&mut dice),
            _ => words(&mut dice),
        };
        let count = if dice.roll(10) < self.industry { 1 + dice.roll(3) } else { 0 };
        let ids: Vec<String> = (0..count).map(|index| format!("c{}.{nth}.{index}", node.0)).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        StrategyInput::ModelAnswered { node, completion: completion(&text, &ids) }
    }
}

fn words(dice: &mut Dice) -> String {
    match dice.roll(6) {
        0 => String::new(),
        1 => "{\"nodes\": [".to_owned(),
        2 => "no </result> idea ".repeat(1 + dice.roll(4_000)),
        3 => "{\"nodes\": []}".to_owned(),
        _ => format!("words {}", dice.roll(1_000)),
    }
}

fn thoughts(dice: &mut Dice) -> String {
    let count = dice.roll(7);
    let line = |number: usize, dice: &mut Dice| {
        let label = if dice.roll(8) == 0 { "FINAL" } else { "THOUGHT" };
        let calls = if dice.roll(3) == 0 { "[{\"name\": \"ls\"}, {\"name\": \"read\"}]" } else { "[]" };
        format!("CANDIDATE {number}: {label}: idea {} | TOOL_CALLS: {calls}\n", dice.roll(20))
    };
    (1..=count).map(|number| line(number, dice)).collect()
}

fn scores(dice: &mut Dice) -> String {
    let scores: Vec<f64> = (0..dice.roll(6)).map(|_| f64::from(u32::try_from(dice.roll(11)).unwrap()) / 10.0).collect();
    format!("{{\"scores\": {scores:?}}}")
}

fn graph(dice: &mut Dice) -> String {
    let count = dice.roll(8);
    let nodes: Vec<String> = (0..count).map(|n| format!("{{\"id\": \"t{n}\", \"description\": \"do {n}\"}}")).collect();
    let edges: Vec<String> =
        (0..dice.roll(10)).map(|_| format!("[\"t{}\", \"t{}\"]", dice.roll(9), dice.roll(9))).collect();
    format!("{{\"nodes\": [{}], \"edges\": [{}]}}", nodes.join(","), edges.join(","))
}

/// Is this call's tool one that fails? Depends on the call alone.
fn tool_output(call: &CallId) -> ToolOutput {
    let sum: u64 = call.0.bytes().map(u64::from).sum();
    match sum % 4 {
        0 => ToolOutput::error("failed"),
        _ => ToolOutput::ok(format!("result of {call}")),
    }
}

/// What waits to be done for a strategy.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Open {
    Question(NodeKey, u32),
    Tool(NodeKey, CallId),
}

impl Open {
    fn node(&self) -> NodeKey {
        match self {
            Self::Question(node, _) | Self::Tool(node, _) => *node,
        }
    }
}

/// Executes a strategy's steps and checks the rules of the trait.
struct Runner {
    machine: Box<dyn Strategy>,
    whim: Whim,
    limit: u32,
    names: BTreeMap<NodeKey, &'static str>,
    left: BTreeSet<NodeKey>,
    open: Vec<Open>,
    calls: BTreeSet<String>,
    questions: BTreeMap<(NodeKey, u32), Vec<ModelMessage>>,
    log: Vec<(NodeKey, StrategyInput)>,
    ended: Option<StrategyOutcome>,
}

/// The results that must not depend on the order of inputs.
#[derive(Debug, PartialEq)]
struct Outcome {
    ended: StrategyOutcome,
    transcript: Vec<ModelMessage>,
    questions: BTreeMap<(NodeKey, u32), Vec<ModelMessage>>,
}

impl Runner {
    fn new(kind: StrategyKind, spec: StrategySpec, whim: Whim) -> Self {
        let limit = spec.reasoning.model_calls(kind);
        let mut runner = Self {
            machine: build(kind, spec),
            whim,
            limit,
            names: BTreeMap::new(),
            left: BTreeSet::new(),
            open: Vec::new(),
            calls: BTreeSet::new(),
            questions: BTreeMap::new(),
            log: Vec::new(),
            ended: None,
        };
        runner.put(StrategyInput::Begin);
        runner
    }

    fn put(&mut self, input: StrategyInput) {
        assert_eq!(self.ended, None, "asked after its end");
        let mut steps = Vec::new();
        self.machine.advance(input, &mut steps);
        for step in steps {
            assert_eq!(self.ended, None, "a step after the end: {step:?}");
            self.take(step);
        }
        assert!(self.ended.is_some() || !self.open.is_empty(), "it waits for nothing");
    }

    fn is_inside(&self, node: NodeKey) -> bool {
        self.names.contains_key(&node) && !self.left.contains(&node)
    }

    fn take(&mut self, step: StrategyStep) {
        match step {
            StrategyStep::Enter { node, name } => {
                assert!(self.names.insert(node, name).is_none(), "{node:?} entered twice");
            }
            StrategyStep::Leave { node, .. } => {
                assert!(self.is_inside(node), "{node:?} left without being in it");
                assert!(self.open.iter().all(|open| open.node() != node), "{node:?} left with work open");
                self.left.insert(node);
            }
            StrategyStep::Report { node, .. } => assert!(self.is_inside(node)),
            StrategyStep::AskModel { node, messages, .. } => {
                assert!(self.is_inside(node));
                assert!(self.open.iter().all(|open| open.node() != node), "a second question in {node:?}");
                check_conversation(&messages);
                let nth = u32::try_from(self.questions.range((node, 0)..=(node, u32::MAX)).count()).unwrap();
                self.open.push(Open::Question(node, nth));
                self.questions.insert((node, nth), messages);
                assert!(self.questions.len() <= self.limit as usize, "more than {} model calls", self.limit);
            }
            StrategyStep::CallTool { node, call } => {
                assert!(self.is_inside(node));
                assert!(self.calls.insert(call.id.to_string()), "{} called twice", call.id);
                self.open.push(Open::Tool(node, call.id));
            }
            StrategyStep::Finish(finish) => {
                if finish == StrategyOutcome::Completed {
                    assert_eq!(self.open, []);
                    assert_eq!(self.names.len(), self.left.len(), "nodes were not left");
                }
                self.ended = Some(finish);
            }
        }
    }

    fn input_for(&self, open: &Open) -> StrategyInput {
        match open {
            Open::Question(node, nth) => self.whim.answer(*node, self.names[node], *nth),
            Open::Tool(_, call) => StrategyInput::ToolFinished { call: call.clone(), output: tool_output(call) },
        }
    }

    fn step(&mut self, dice: &mut Dice) {
        let open = self.open.swap_remove(dice.roll(self.open.len()));
        let input = self.input_for(&open);
        self.log.push((open.node(), input.clone()));
        self.put(input);
    }

    fn run(mut self, dice: &mut Dice) -> Outcome {
        while self.ended.is_none() {
            self.step(dice);
        }
        let transcript = self.machine.transcript();
        check_remembered(&transcript);
        Outcome { ended: self.ended.unwrap(), transcript, questions: self.questions }
    }

    /// Feeds what is on record of nodes that were left, in the order it happened.
    fn replay(&mut self, log: &[(NodeKey, StrategyInput)], left: &BTreeSet<NodeKey>) {
        for (node, input) in log.iter().filter(|(node, _)| left.contains(node)) {
            let is_meant = |open: &Open| match (open, input) {
                (Open::Tool(_, call), StrategyInput::ToolFinished { call: finished, .. }) => call == finished,
                (Open::Question(asked, _), StrategyInput::ModelAnswered { .. } | StrategyInput::ModelFailed { .. }) => {
                    asked == node
                }
                _ => false,
            };
            let at = self.open.iter().position(is_meant).expect("what was recorded is waited for again");
            self.open.remove(at);
            self.put(input.clone());
        }
    }
}

fn check_conversation(messages: &[ModelMessage]) {
    assert_eq!(messages.last().map(|message| message.role), Some(MessageRole::User));
    check_remembered(messages);
    let bytes: usize = messages.iter().map(|message| message.text().len()).sum();
    assert!(bytes < 2_000_000, "a question of {bytes} bytes");
}

fn check_remembered(messages: &[ModelMessage]) {
    assert_eq!(messages.first().map(|message| message.role), Some(MessageRole::User));
    for pair in messages.windows(2) {
        assert_ne!(pair[0].role, pair[1].role, "roles alternate");
    }
}

fn reasonings() -> impl Generate<Value = (ReasoningOptions, bool)> {
    let tot = (1u32..6, 1u32..5, any::<bool>(), 1u32..4, 0u32..10).prop_map(
        |(breadth, depth, beam_first, beam, threshold)| {
            let search = if beam_first { SearchMethod::Beam } else { SearchMethod::DepthFirst };
            TotOptions { breadth, depth, search, beam, threshold: threshold as f32 / 10.0 }
        },
    );
    let got = (1u32..20, 1u32..5, 1u32..4, any::<bool>())
        .prop_map(|(max_tasks, parallel, max_plans, adaptive)| GotOptions { max_tasks, parallel, max_plans, adaptive });
    let limits = (proptest::option::of(1u32..60), proptest::option::of(0u32..5));
    (limits, tot, got, any::<bool>()).prop_map(|((max_model_calls, max_turns), tot, got, adaptive)| {
        (ReasoningOptions { max_model_calls, max_turns, tot, got, ..ReasoningOptions::default() }, adaptive)
    })
}

fn whims() -> impl Generate<Value = Whim> {
    (any::<u64>(), 2usize..=10, 0usize..=10, 0usize..12).prop_map(|(seed, sanity, industry, trouble)| Whim {
        seed,
        sanity,
        industry,
        trouble,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(768))]

    #[test]
    fn every_strategy_ends_within_its_limits_and_can_be_replayed(
        kind in proptest::sample::select(StrategyKind::ALL.to_vec()),
        (reasoning, adaptive) in reasonings(),
        whim in whims(),
        (order, other_order, cut) in any::<(u64, u64, u64)>(),
    ) {
        let spec = || StrategySpec { adaptive, ..spec(reasoning.clone()) };
        let mut first = Runner::new(kind, spec(), whim);
        let mut dice = Dice::of(&[order]);
        let mut moments: Vec<BTreeSet<NodeKey>> = vec![first.left.clone()];
        while first.ended.is_none() {
            first.step(&mut dice);
            moments.push(first.left.clone());
        }
        let log = first.log.clone();
        let outcome = first.run(&mut dice);

        // Nodes at work at once may come back in any order.
        let shuffled = Runner::new(kind, spec(), whim).run(&mut Dice::of(&[other_order]));
        prop_assert_eq!(&shuffled, &outcome);

        // A crash at any moment: what was left by then is replayed, the rest is done again.
        let crash = Dice::of(&[cut]).roll(moments.len());
        let mut resumed = Runner::new(kind, spec(), whim);
        if crash + 1 < moments.len() {
            resumed.replay(&log[..crash], &moments[crash]);
            prop_assert_eq!(resumed.run(&mut Dice::of(&[order, cut])), outcome);
        }
    }
}

#[test]
fn the_defaults_end_any_run_within_200_model_calls() {
    for kind in StrategyKind::ALL {
        assert!(ReasoningOptions::default().model_calls(kind) <= 200);
        for seed in 0..20 {
            let whim = Whim { seed, sanity: 8, industry: 7, trouble: 0 };
            let spec = StrategySpec { adaptive: true, ..spec(ReasoningOptions::default()) };
            Runner::new(kind, spec, whim).run(&mut Dice::of(&[seed]));
        }
    }
}
