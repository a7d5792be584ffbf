//! The findings of a run suffice to redraw its graph: the tasks, the edges by name, and how each task ended.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::{ProptestConfig, any, proptest};

use super::super::Got;
use super::super::graph::{TaskDag, TaskOutcome};
use super::plan;
use crate::model::StopReason;
use crate::run::strategy::tests::{calls, spec};
use crate::run::strategy::{Completion, Strategy, StrategyInput, StrategySpec, StrategyStep};
use crate::run_spec::NodeKey;
use crate::run_spec::finding::StrategyFinding;
use crate::run_spec::reasoning::{GotOptions, ReasoningOptions};

#[derive(Debug, Default, PartialEq)]
struct DrawnGraph {
    /// The description of each task.
    tasks: BTreeMap<String, String>,
    edges: BTreeSet<(String, String)>,
    started: BTreeSet<String>,
    results: BTreeMap<String, Result<String, String>>,
}

/// The graph, from nothing but the findings.
fn redraw(findings: &[StrategyFinding]) -> DrawnGraph {
    let mut graph = DrawnGraph::default();
    for finding in findings {
        match finding {
            StrategyFinding::Planned { tasks, edges } => {
                let listed = tasks.iter().map(|task| (task.id.to_string(), task.description.to_string()));
                graph.tasks.extend(listed);
                graph.edges.extend(edges.iter().map(|(from, to)| (from.to_string(), to.to_string())));
            }
            StrategyFinding::TaskExpanded { tasks, edges, dropped, .. } => {
                let listed = tasks.iter().map(|task| (task.id.to_string(), task.description.to_string()));
                graph.tasks.extend(listed);
                for (from, to) in dropped {
                    assert!(graph.edges.remove(&(from.to_string(), to.to_string())), "no edge {from} to {to}");
                }
                graph.edges.extend(edges.iter().map(|(from, to)| (from.to_string(), to.to_string())));
            }
            StrategyFinding::TaskStarted { task } => {
                assert!(graph.started.insert(task.to_string()), "{task} started twice");
            }
            StrategyFinding::TaskCompleted { task, result } => {
                assert_eq!(graph.results.insert(task.to_string(), Ok(result.to_string())), None);
            }
            StrategyFinding::TaskFailed { task, error } => {
                assert_eq!(graph.results.insert(task.to_string(), Err(error.to_string())), None);
            }
            StrategyFinding::Understood { .. }
            | StrategyFinding::Expanded { .. }
            | StrategyFinding::Evaluated { .. }
            | StrategyFinding::Followed { .. }
            | StrategyFinding::Backtracked { .. } => panic!("not of a graph: {finding:?}"),
        }
    }
    for (from, to) in &graph.edges {
        assert!(
            graph.tasks.contains_key(from) && graph.tasks.contains_key(to),
            "an edge leads nowhere: {from} to {to}"
        );
    }
    graph
}

/// The strategy's own graph.
fn own_graph(graph: &TaskDag) -> DrawnGraph {
    let mut drawn = DrawnGraph::default();
    for vertex in graph.vertices() {
        let id = vertex.id.to_string();
        drawn.tasks.insert(id.clone(), vertex.description.to_string());
        drawn.edges.extend(graph.inputs(vertex).into_iter().map(|input| (input.id.to_string(), id.clone())));
        if vertex.is_started {
            drawn.started.insert(id.clone());
        }
        match &vertex.outcome {
            Some(TaskOutcome::Done(result)) => drop(drawn.results.insert(id, Ok(result.to_string()))),
            Some(TaskOutcome::Failed(error)) => drop(drawn.results.insert(id, Err(error.to_string()))),
            None => {}
        }
    }
    drawn
}

/// Runs a graph to its end; the model answers or fails as `answer` says for the node of that name. Of several open
/// questions `pick` chooses which is answered next.
fn check(
    strategy_spec: StrategySpec,
    mut answer: impl FnMut(&str) -> Result<String, String>,
    mut pick: impl FnMut(usize) -> usize,
) -> DrawnGraph {
    let mut got = Got::new(strategy_spec);
    let (mut findings, mut names) = (Vec::new(), BTreeMap::new());
    let mut open: Vec<NodeKey> = Vec::new();
    let mut input = Some(StrategyInput::Begin);
    while let Some(next) = input.take() {
        let mut steps = Vec::new();
        got.advance(next, &mut steps);
        let mut is_over = false;
        for step in steps {
            match step {
                StrategyStep::Enter { node, name } => drop(names.insert(node, name)),
                StrategyStep::Report { finding, .. } => findings.push(finding),
                StrategyStep::AskModel { node, .. } => open.push(node),
                StrategyStep::Finish(_) => is_over = true,
                StrategyStep::Leave { .. } | StrategyStep::CallTool { .. } => {}
            }
        }
        if is_over {
            break;
        }
        let node = open.swap_remove(pick(open.len()));
        input = Some(match answer(names[&node]) {
            Ok(text) => {
                let completion = Completion { text, calls: Vec::new(), stop: StopReason::EndOfTurn };
                StrategyInput::ModelAnswered { node, completion }
            }
            Err(error) => StrategyInput::ModelFailed { node, error },
        });
    }
    let (redrawn, own) = (redraw(&findings), own_graph(&got.graph));
    // A task that has answered and is asked whether to split it has a result that others cannot use yet, and the only
    // task of a run ends with the run.
    let has_ended = |id: &&String| own.results.contains_key(*id);
    assert!(own.results.iter().all(|(id, result)| redrawn.results.get(id) == Some(result)), "{redrawn:?} {own:?}");
    assert!(own.tasks.len() == 1 || redrawn.results.keys().all(|id| has_ended(&id)), "{redrawn:?} {own:?}");
    assert_eq!((&redrawn.tasks, &redrawn.edges, &redrawn.started), (&own.tasks, &own.edges, &own.started));
    redrawn
}

fn adaptive(reasoning: ReasoningOptions) -> StrategySpec {
    StrategySpec { adaptive: true, ..spec(reasoning) }
}

#[test]
fn a_split_graph_is_redrawn_with_its_edges() {
    let mut texts = [
        Ok(plan("a b c; a>b a>c")),
        Ok("found a".to_owned()),
        Ok(plan("x y; x>y")),
        Ok("found x".to_owned()),
        Ok("no".to_owned()),
        Ok("found y".to_owned()),
        Ok("no".to_owned()),
        Ok("found b".to_owned()),
        Ok("no".to_owned()),
        Err("down".to_owned()),
        Ok("all".to_owned()),
    ]
    .into_iter();
    let options = ReasoningOptions { got: GotOptions { parallel: 1, ..GotOptions::default() }, ..calls(60) };
    let graph = check(adaptive(options), |_| texts.next().unwrap(), |open| open - 1);
    let edges: Vec<String> = graph.edges.iter().map(|(from, to)| format!("{from}>{to}")).collect();
    assert_eq!(edges, ["a>a_sub_1", "a_sub_1>a_sub_2", "a_sub_2>b", "a_sub_2>c"]);
    assert_eq!(graph.results.get("c"), Some(&Err("down".to_owned())));
    assert_eq!(graph.results.len(), 5);
}

/// Numbers that depend on nothing but the seed.
fn dice(mut seed: u64) -> impl FnMut(usize) -> usize {
    move |sides| {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        usize::try_from((seed >> 33) % sides as u64).unwrap()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_graph_is_redrawn(
        (max_tasks, parallel, max_plans) in (1u32..20, 1u32..5, 1u32..4),
        limit in 1u32..60,
        (seed, order) in any::<(u64, u64)>(),
        is_adaptive in any::<bool>(),
    ) {
        let got = GotOptions { max_tasks, parallel, max_plans, adaptive: is_adaptive };
        let (mut roll, order) = (dice(seed), dice(order));
        let answer = |name: &str| match (roll(12), name) {
            (0, _) => Err("down".to_owned()),
            (1..=4, "execute_graph") | (1..=10, "plan_graph") => {
                let nodes: Vec<String> = (0..roll(7)).map(|number| format!("t{number}")).collect();
                let edges: Vec<String> = (0..roll(9)).map(|_| format!("t{}>t{}", roll(7), roll(7))).collect();
                Ok(plan(&format!("{}; {}", nodes.join(" "), edges.join(" "))))
            }
            _ => Ok(format!("words {}", roll(100))),
        };
        check(StrategySpec { adaptive: is_adaptive, ..spec(ReasoningOptions { got, ..calls(limit) }) }, answer, order);
    }
}
