//! The findings of a search suffice to redraw its tree: what was proposed after what, how it was scored, what was
//! followed and where the search went back.

use proptest::prelude::{ProptestConfig, any, proptest};

use super::super::Tot;
use super::super::tree::{NEUTRAL_SCORE, ThoughtState, ThoughtTree};
use super::{candidates, depth_first, options, scores};
use crate::model::StopReason;
use crate::run::strategy::tests::{calls, spec};
use crate::run::strategy::{Completion, Strategy, StrategyInput, StrategyStep};
use crate::run_spec::NodeKey;
use crate::run_spec::finding::{StrategyFinding, ThoughtId};
use crate::run_spec::reasoning::{ReasoningOptions, SearchMethod, TotOptions};
use crate::tool::ToolOutput;

#[derive(Debug, Clone, PartialEq)]
struct DrawnThought {
    parent: usize,
    depth: u32,
    text: String,
    score: f32,
    is_followed: bool,
}

fn index(thought: ThoughtId) -> usize {
    usize::try_from(thought.0).unwrap()
}

/// The tree, the root first, from nothing but the findings.
fn redraw(findings: &[StrategyFinding]) -> Vec<DrawnThought> {
    let root = DrawnThought { parent: 0, depth: 0, text: String::new(), score: 0.0, is_followed: true };
    let mut tree = vec![root];
    let mut returned_to = None;
    for finding in findings {
        match finding {
            StrategyFinding::Expanded { of, first, depth, candidates } => {
                assert_eq!(index(*first), tree.len(), "thoughts are numbered as they are proposed");
                assert_eq!(*depth, tree[index(*of)].depth + 1);
                assert!(tree[index(*of)].is_followed, "only what is followed is expanded");
                tree.extend(candidates.iter().map(|text| DrawnThought {
                    parent: index(*of),
                    depth: *depth,
                    text: text.to_string(),
                    score: NEUTRAL_SCORE,
                    is_followed: false,
                }));
            }
            StrategyFinding::Evaluated { of, first, chosen, scores } => {
                let evaluated = &mut tree[index(*first)..][..scores.len()];
                for (thought, score) in evaluated.iter_mut().zip(scores) {
                    assert_eq!(thought.parent, index(*of));
                    thought.score = *score;
                }
                let best = scores.iter().copied().fold(0.0, f32::max);
                assert!(scores[usize::try_from(*chosen).unwrap()] >= best, "the chosen one is the best");
            }
            StrategyFinding::Followed { thought } => {
                let thought = &mut tree[index(*thought)];
                assert!(!thought.is_followed, "{thought:?} is followed twice");
                thought.is_followed = true;
                if let Some(parent) = returned_to.take() {
                    assert_eq!(thought.parent, parent, "a search goes on from where it went back to");
                }
            }
            StrategyFinding::Backtracked { from, to, to_depth, .. } => {
                assert_eq!(tree[index(*to)].depth, *to_depth);
                let mut above = index(*from);
                while above != index(*to) {
                    assert_ne!(above, 0, "{from:?} does not lie beneath {to:?}");
                    above = tree[above].parent;
                }
                assert_eq!(returned_to.replace(index(*to)), None, "it went back twice without going on");
            }
            StrategyFinding::Understood { .. }
            | StrategyFinding::Planned { .. }
            | StrategyFinding::TaskStarted { .. }
            | StrategyFinding::TaskCompleted { .. }
            | StrategyFinding::TaskFailed { .. }
            | StrategyFinding::TaskExpanded { .. } => panic!("not of a search: {finding:?}"),
        }
    }
    assert_eq!(returned_to, None, "it went back and did not go on");
    tree
}

/// The strategy's own tree.
fn own_tree(tree: &ThoughtTree) -> Vec<DrawnThought> {
    let thought = |id: usize| {
        let thought = tree.get(id).unwrap();
        DrawnThought {
            parent: tree.parent(id).unwrap_or(ThoughtTree::ROOT),
            depth: thought.depth,
            text: thought.text.to_string(),
            score: thought.score,
            is_followed: thought.state != ThoughtState::Proposed,
        }
    };
    (0..tree.len()).map(thought).collect()
}

/// Runs a search to its end: `answer` is what the model says in a node of that name, `ok` whether a tool succeeds.
/// Compares the redrawn tree with the strategy's after every input.
fn check(
    reasoning: ReasoningOptions,
    mut answer: impl FnMut(&str) -> String,
    mut ok: impl FnMut() -> bool,
) -> Vec<StrategyFinding> {
    let mut tot = Tot::new(spec(reasoning));
    let (mut findings, mut names) = (Vec::new(), Vec::new());
    let mut input = Some(StrategyInput::Begin);
    let mut open_calls = Vec::new();
    while let Some(next) = input.take() {
        let mut steps = Vec::new();
        tot.advance(next, &mut steps);
        for step in steps {
            match step {
                StrategyStep::Enter { node, name } => names.push((node, name)),
                StrategyStep::Report { finding, .. } => findings.push(finding),
                StrategyStep::AskModel { node, .. } => input = Some(answered(node, &names, &mut answer)),
                StrategyStep::CallTool { call, .. } => open_calls.push(call.id),
                StrategyStep::Leave { .. } | StrategyStep::Finish(_) => {}
            }
        }
        if let Some(call) = open_calls.pop() {
            let output = if ok() { ToolOutput::ok("found") } else { ToolOutput::error("not found") };
            input = Some(StrategyInput::ToolFinished { call, output });
        }
        // A thought that the search has just taken up is reported with the node that it enters next.
        if tot.followed.is_empty() {
            assert_eq!(redraw(&findings), own_tree(&tot.tree));
        }
    }
    assert_eq!(tot.followed, [], "every followed thought is reported");
    findings
}

fn answered(
    node: NodeKey,
    names: &[(NodeKey, &'static str)],
    answer: &mut impl FnMut(&str) -> String,
) -> StrategyInput {
    let name = names.iter().find(|(known, _)| *known == node).unwrap().1;
    let completion = Completion { text: answer(name), calls: Vec::new(), stop: StopReason::EndOfTurn };
    StrategyInput::ModelAnswered { node, completion }
}

/// The texts in their order, as a model that is asked one after the other.
fn in_order(texts: Vec<String>) -> impl FnMut(&str) -> String {
    let mut texts = texts.into_iter();
    move |_| texts.next().unwrap()
}

fn told(finding: &StrategyFinding) -> String {
    match finding {
        StrategyFinding::Expanded { of, first, .. } => format!("{} into {}…", of.0, first.0),
        StrategyFinding::Evaluated { of, first, .. } => format!("scores of {} from {}", of.0, first.0),
        StrategyFinding::Followed { thought } => format!("on with {}", thought.0),
        StrategyFinding::Backtracked { from, to, .. } => format!("back from {} to {}", from.0, to.0),
        StrategyFinding::Understood { .. }
        | StrategyFinding::Planned { .. }
        | StrategyFinding::TaskStarted { .. }
        | StrategyFinding::TaskCompleted { .. }
        | StrategyFinding::TaskFailed { .. }
        | StrategyFinding::TaskExpanded { .. } => panic!("not of a search: {finding:?}"),
    }
}

#[test]
fn the_tree_of_a_wide_beam_is_redrawn() {
    let reasoning = options(TotOptions { depth: 2, beam: 2, breadth: 2, ..TotOptions::default() });
    let texts = vec![
        candidates(&["a", "b"]),
        scores(&[0.5, 0.8]),
        candidates(&["b1", "b2"]),
        scores(&[0.3, 0.4]),
        candidates(&["a1", "a2"]),
        scores(&[0.6, 0.35]),
        "the answer".to_owned(),
    ];
    let findings = check(reasoning, in_order(texts), || true);
    let told: Vec<String> = findings.iter().map(told).collect();
    let expected = [
        "0 into 1…",
        "scores of 0 from 1",
        "on with 2",
        "on with 1",
        "2 into 3…",
        "scores of 2 from 3",
        "1 into 5…",
        "scores of 1 from 5",
        "on with 5",
        "on with 4",
    ];
    assert_eq!(told, expected);
}

#[test]
fn the_tree_of_a_search_that_goes_back_is_redrawn() {
    let reasoning = options(TotOptions { depth: 3, breadth: 3, ..depth_first() });
    let texts = vec![
        candidates(&["a", "b"]),
        scores(&[0.9, 0.6]),
        candidates(&["a1 + ls", "a2 + ls", "a3"]),
        scores(&[0.8, 0.7, 0.2]),
        candidates(&["final b1"]),
        "the answer".to_owned(),
    ];
    let findings = check(reasoning, in_order(texts), || false);
    let told: Vec<String> = findings.iter().map(told).collect();
    let expected = [
        "0 into 1…",
        "scores of 0 from 1",
        "on with 1",
        "1 into 3…",
        "scores of 1 from 3",
        "on with 3",
        "back from 3 to 1",
        "on with 4",
        "back from 4 to 0",
        "on with 2",
        "2 into 6…",
        "scores of 2 from 6",
        "on with 6",
    ];
    assert_eq!(told, expected);
}

/// Numbers that depend on nothing but the seed.
fn dice(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |sides| {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (seed >> 33) % sides
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_search_is_redrawn(
        (breadth, depth, beam, is_beam) in (1u32..5, 1u32..5, 1u32..4, any::<bool>()),
        limit in 1u32..40,
        (seed, luck) in any::<(u64, u64)>(),
    ) {
        let search = if is_beam { SearchMethod::Beam } else { SearchMethod::DepthFirst };
        let tot = TotOptions { breadth, depth, beam, search, threshold: 0.4 };
        let (mut roll, mut luck) = (dice(seed), dice(luck));
        let answer = |name: &str| match name {
            "think_expand" => {
                let thoughts: Vec<String> = (0..roll(6))
                    .map(|_| match roll(6) {
                        0 => format!("final thought {}", roll(30)),
                        1 | 2 => format!("thought {} + ls", roll(30)),
                        _ => format!("thought {}", roll(30)),
                    })
                    .collect();
                candidates(&thoughts.iter().map(String::as_str).collect::<Vec<_>>())
            }
            "think_evaluate" => {
                let given: Vec<f32> = (0..breadth).map(|_| roll(11) as f32 / 10.0).collect();
                if roll(5) == 0 { "no idea".to_owned() } else { scores(&given) }
            }
            _ => "at last".to_owned(),
        };
        check(ReasoningOptions { tot, ..calls(limit) }, answer, || luck(2) == 0);
    }
}
