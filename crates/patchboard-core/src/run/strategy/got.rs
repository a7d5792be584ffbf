//! Got, a graph of thoughts (Besta et al. 2023): plan the work as a graph of tasks, do what is ready at the same time,
//! and write one reply from what the tasks came to. Adaptive: a finished task may be split into further ones.
//!
//! Nodes: `plan_graph` (asks for a plan, again if it has a cycle), one `execute_graph` for each task (rounds with the
//! model, tools included), `aggregate` (one call writes the reply). A plan of one task has nothing to aggregate: that
//! task speaks to the user itself and is not split.
//!
//! A task fails alone. Those that build on it are told, and fail too only if everything they build on has failed; the
//! run fails if no task has come to anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rounds::{Heard, RoundLimits, Rounds};
use super::words::{self, kept};
use super::{Brief, Completion, Finish, Input, NodeKey, Step, Strategy, ToolUse, Voice};
use crate::agent::StrategyKind;
use crate::id::CallId;
use crate::model::{Message, Part};
use crate::run::finding::Finding;
use crate::tool::ToolOutput;
use graph::{Allowance, Graph, Growth, Outcome};
use plan::Plan;

mod graph;
mod plan;
mod prompts;

const PLAN: NodeKey = NodeKey(0);
/// Keys of tasks are far above it.
const AGGREGATE: NodeKey = NodeKey(1);

/// A plan, a task and the aggregate: with fewer calls the request is one task.
const SMALLEST_BUDGET: u32 = 3;
/// Tasks of one run, whatever is configured.
const MOST_TASKS: u32 = 64;
/// What is kept of a task's result.
const RESULT_BYTES: usize = 64 * 1024;

const NO_CALLS: &str = "the run's model calls are used up";
const NO_GROUND: &str = "every task it builds on failed";

#[derive(Debug)]
pub(super) struct Got {
    history: Vec<Message>,
    history_in_words: Vec<Message>,
    user: Message,
    max_tasks: u32,
    parallel: usize,
    max_plans: u32,
    max_turns: u32,
    is_adaptive: bool,
    /// Not yet asked, dealt out or kept for the aggregate.
    calls_left: u32,
    planning: Planning,
    graph: Graph,
    working: BTreeMap<NodeKey, Work>,
    reply: String,
}

/// The conversation about the plan.
#[derive(Debug, Default)]
struct Planning {
    messages: Vec<Message>,
    asked: u32,
    /// The latest plan, refused for its cycles.
    refused: Option<Plan>,
}

/// A task at work.
#[derive(Debug)]
enum Work {
    Rounds(Rounds),
    /// Done; the model is asked whether it should be split.
    Growing {
        result: Arc<str>,
    },
}

impl Got {
    pub(super) fn new(brief: Brief) -> Self {
        let Brief { history, user, reasoning, adaptive, .. } = brief;
        let options = reasoning.got;
        Self {
            history_in_words: words::in_words(&history),
            history,
            user,
            max_tasks: options.max_tasks.clamp(1, MOST_TASKS),
            parallel: options.parallel.max(1) as usize,
            max_plans: options.max_plans.max(1),
            max_turns: reasoning.max_turns.unwrap_or(u32::MAX),
            is_adaptive: adaptive || options.adaptive,
            calls_left: reasoning.model_calls(StrategyKind::Got),
            planning: Planning::default(),
            graph: Graph::default(),
            working: BTreeMap::new(),
            reply: String::new(),
        }
    }

    fn begin(&mut self, steps: &mut Vec<Step>) {
        steps.push(Step::Enter { node: PLAN, name: "plan_graph" });
        if self.calls_left < SMALLEST_BUDGET || self.max_tasks < 2 {
            return self.planned(Plan::single(&self.user.text()), steps);
        }
        self.planning.messages = words::ask(&self.history_in_words, &self.user, prompts::plan(self.max_tasks));
        self.ask_for_plan(steps);
    }

    fn ask_for_plan(&mut self, steps: &mut Vec<Step>) {
        self.calls_left = self.calls_left.saturating_sub(1);
        self.planning.asked += 1;
        let messages = self.planning.messages.clone();
        steps.push(Step::AskModel { node: PLAN, messages, tools: ToolUse::Withheld, voice: Voice::Draft });
    }

    fn plan_answered(&mut self, text: &str, steps: &mut Vec<Step>) {
        let read = Plan::read(text, self.max_tasks as usize).filter(|plan| !plan.tasks.is_empty());
        let plan = read.unwrap_or_else(|| Plan::single(&self.user.text()));
        match plan.cycle() {
            Some(cycle) if self.planning.asked < self.max_plans && self.calls_left >= SMALLEST_BUDGET => {
                self.planning.messages.push(Message::assistant(prompts::refused_plan(text)));
                self.planning.messages.push(Message::user(prompts::plan_again(&cycle)));
                self.planning.refused = Some(plan);
                self.ask_for_plan(steps);
            }
            Some(_) | None => self.planned(plan.without_cycles(), steps),
        }
    }

    /// The plan cannot be asked for; one that was refused is better than none.
    fn plan_failed(&mut self, error: String, steps: &mut Vec<Step>) {
        match self.planning.refused.take() {
            Some(plan) => self.planned(plan.without_cycles(), steps),
            None => self.fail(PLAN, error, steps),
        }
    }

    fn planned(&mut self, plan: Plan, steps: &mut Vec<Step>) {
        self.planning = Planning::default();
        let id = |index: usize| plan.tasks.get(index).map(|task| task.id.clone());
        let edges = plan.edges.iter().filter_map(|(from, to)| Some((id(*from)?, id(*to)?))).collect();
        steps.push(Step::Tell { node: PLAN, finding: Finding::Planned { tasks: plan.tasks.clone(), edges } });
        steps.push(Step::Leave { node: PLAN, failed: None });
        let tasks = u32::try_from(plan.tasks.len()).unwrap_or(u32::MAX);
        let for_aggregate = u32::from(tasks > 1);
        let allowance = Allowance {
            model_calls: self.calls_left.saturating_sub(for_aggregate),
            tasks: if self.is_adaptive { self.max_tasks.saturating_sub(tasks) } else { 0 },
        };
        self.calls_left = for_aggregate;
        self.graph = Graph::new(&plan, allowance);
        self.go_on(steps);
    }

    /// Does the one task the whole work?
    fn is_single(&self) -> bool {
        self.graph.len() == 1
    }

    /// Starts what is ready, as far as it may work at the same time; when all is done, the reply is written.
    fn go_on(&mut self, steps: &mut Vec<Step>) {
        while self.working.len() < self.parallel {
            let Some(key) = self.graph.ready() else { break };
            if self.start(key, steps) == Run::Over {
                return;
            }
        }
        if self.working.is_empty() {
            self.aggregate(steps);
        }
    }

    fn start(&mut self, key: NodeKey, steps: &mut Vec<Step>) -> Run {
        let Some(vertex) = self.graph.get_mut(key) else { return Run::GoesOn };
        vertex.is_started = true;
        let (task, model_calls) = (vertex.id.clone(), vertex.allowance.model_calls);
        steps.push(Step::Enter { node: key, name: "execute_graph" });
        steps.push(Step::Tell { node: key, finding: Finding::TaskStarted { task } });
        let Some(vertex) = self.graph.get(key) else { return Run::GoesOn };
        let refused = match () {
            () if self.graph.is_without_ground(vertex) => Some(NO_GROUND),
            () if model_calls == 0 => Some(NO_CALLS),
            () => None,
        };
        if let Some(error) = refused {
            return self.task_failed(key, error.to_owned(), steps);
        }
        let user = if self.is_single() {
            self.user.clone()
        } else {
            words::with_note(&self.user, prompts::task(&self.graph, vertex))
        };
        let rounds = Rounds::new(user, RoundLimits { model_calls, turns: self.max_turns });
        self.working.insert(key, Work::Rounds(rounds));
        self.ask(key, steps)
    }

    fn ask(&mut self, key: NodeKey, steps: &mut Vec<Step>) -> Run {
        let is_single = self.is_single();
        let Some(Work::Rounds(rounds)) = self.working.get_mut(&key) else { return Run::GoesOn };
        let Some(said) = rounds.ask() else { return self.out_of_calls(key, steps) };
        let mut messages = if is_single { self.history.clone() } else { Vec::new() };
        messages.extend_from_slice(said);
        let mut tools = ToolUse::Offered;
        if rounds.is_last() {
            if let Some(last) = messages.last_mut() {
                last.parts.push(Part::Text(format!("\n\n{}", prompts::LAST_CALL).into()));
            }
            if rounds.asked() == 1 {
                tools = ToolUse::Withheld;
                messages = words::in_words(&messages);
            }
        }
        let voice = if is_single { Voice::Reply } else { Voice::Draft };
        steps.push(Step::AskModel { node: key, messages, tools, voice });
        Run::GoesOn
    }

    fn out_of_calls(&mut self, key: NodeKey, steps: &mut Vec<Step>) -> Run {
        self.task_failed(key, "the task takes more rounds than it has".to_owned(), steps)
    }

    fn task_answered(&mut self, key: NodeKey, completion: Completion, steps: &mut Vec<Step>) {
        match self.working.get_mut(&key) {
            Some(Work::Rounds(rounds)) => match rounds.answered(completion) {
                Heard::Words(text) => self.task_done(key, text, steps),
                Heard::Calls(calls) => {
                    steps.extend(calls.into_iter().map(|call| Step::CallTool { node: key, call }));
                }
                Heard::TooMany => {
                    if self.out_of_calls(key, steps) == Run::GoesOn {
                        self.go_on(steps);
                    }
                }
            },
            Some(Work::Growing { .. }) => self.grow(key, Some(&completion.text), steps),
            None => {}
        }
    }

    fn tool_finished(&mut self, call: &CallId, output: ToolOutput, steps: &mut Vec<Step>) {
        let owner = self.working.iter_mut().find_map(|(key, work)| match work {
            Work::Rounds(rounds) if rounds.waits_for(call) => Some((*key, rounds)),
            Work::Rounds(_) | Work::Growing { .. } => None,
        });
        let Some((key, rounds)) = owner else { return };
        if rounds.tool_finished(call, output) && self.ask(key, steps) == Run::GoesOn && !self.working.contains_key(&key)
        {
            // The task had no call left and failed: others may start in its place.
            self.go_on(steps);
        }
    }

    fn task_done(&mut self, key: NodeKey, text: String, steps: &mut Vec<Step>) {
        self.count_calls(key);
        let Some(vertex) = self.graph.get(key) else { return };
        let result = kept(&text, RESULT_BYTES);
        let finding = Finding::TaskCompleted { task: vertex.id.clone(), result: result.clone() };
        steps.push(Step::Tell { node: key, finding });
        if self.is_single() {
            self.working.remove(&key);
            self.reply = text;
            steps.push(Step::Leave { node: key, failed: None });
            steps.push(Step::Finish(Finish::Completed));
            return;
        }
        let room = self.graph.room_to_grow(key);
        if room == 0 {
            return self.task_ends(key, Outcome::Done(result), steps);
        }
        let instruction = prompts::expand(vertex, &result, room as usize);
        let messages = vec![words::with_note(&self.user, instruction)];
        if let Some(vertex) = self.graph.get_mut(key) {
            vertex.allowance.model_calls = vertex.allowance.model_calls.saturating_sub(1);
        }
        self.working.insert(key, Work::Growing { result });
        steps.push(Step::AskModel { node: key, messages, tools: ToolUse::Withheld, voice: Voice::Draft });
    }

    /// Splits the finished task if the answer says so. A question that failed splits nothing.
    fn grow(&mut self, key: NodeKey, answer: Option<&str>, steps: &mut Vec<Step>) {
        let Some(Work::Growing { result }) = self.working.remove(&key) else { return };
        // One call has been taken for the question already.
        let room = self
            .graph
            .get(key)
            .map_or(0, |vertex| graph::MAX_CHILDREN.min(vertex.allowance.tasks).min(vertex.allowance.model_calls));
        let plan = answer.and_then(|text| Plan::read(text, room as usize)).filter(|plan| !plan.tasks.is_empty());
        if let Some(plan) = plan {
            let Growth { tasks, edges, dropped } = self.graph.grow(key, &plan.without_cycles());
            if let Some(vertex) = self.graph.get(key) {
                let finding = Finding::TaskExpanded { task: vertex.id.clone(), tasks, edges, dropped };
                steps.push(Step::Tell { node: key, finding });
            }
        }
        self.task_ends(key, Outcome::Done(result), steps);
    }

    fn task_ends(&mut self, key: NodeKey, outcome: Outcome, steps: &mut Vec<Step>) {
        self.working.remove(&key);
        self.graph.finish(key, outcome);
        steps.push(Step::Leave { node: key, failed: None });
        self.go_on(steps);
    }

    /// The caller goes on with what else is ready, unless the run is over.
    fn task_failed(&mut self, key: NodeKey, error: String, steps: &mut Vec<Step>) -> Run {
        self.count_calls(key);
        self.working.remove(&key);
        let error: Arc<str> = error.into();
        if let Some(vertex) = self.graph.get(key) {
            let finding = Finding::TaskFailed { task: vertex.id.clone(), error: error.clone() };
            steps.push(Step::Tell { node: key, finding });
        }
        if self.is_single() {
            self.fail(key, error.to_string(), steps);
            return Run::Over;
        }
        self.graph.finish(key, Outcome::Failed(error));
        steps.push(Step::Leave { node: key, failed: None });
        Run::GoesOn
    }

    /// Takes what the rounds of a task used from what it may spend.
    fn count_calls(&mut self, key: NodeKey) {
        let Some(Work::Rounds(rounds)) = self.working.get(&key) else { return };
        let asked = rounds.asked();
        if let Some(vertex) = self.graph.get_mut(key) {
            vertex.allowance.model_calls = vertex.allowance.model_calls.saturating_sub(asked);
        }
    }

    fn aggregate(&mut self, steps: &mut Vec<Step>) {
        if !self.graph.any_done() {
            let error = self.graph.first_error().unwrap_or_else(|| NO_CALLS.into());
            steps.push(Step::Finish(Finish::Failed(format!("no task could be done: {error}"))));
            return;
        }
        self.calls_left = 0;
        steps.push(Step::Enter { node: AGGREGATE, name: "aggregate" });
        let messages = words::ask(&self.history_in_words, &self.user, prompts::aggregate(&self.graph));
        steps.push(Step::AskModel { node: AGGREGATE, messages, tools: ToolUse::Withheld, voice: Voice::Reply });
    }

    fn aggregated(&mut self, completion: Completion, steps: &mut Vec<Step>) {
        self.reply = completion.text;
        steps.push(Step::Leave { node: AGGREGATE, failed: None });
        steps.push(Step::Finish(Finish::Completed));
    }

    fn fail(&mut self, node: NodeKey, error: String, steps: &mut Vec<Step>) {
        steps.push(Step::Leave { node, failed: Some(error.clone()) });
        steps.push(Step::Finish(Finish::Failed(error)));
    }

    fn model_failed(&mut self, node: NodeKey, error: String, steps: &mut Vec<Step>) {
        match (node, self.working.get(&node)) {
            (PLAN, _) => self.plan_failed(error, steps),
            (AGGREGATE, _) => self.fail(node, error, steps),
            (_, Some(Work::Growing { .. })) => self.grow(node, None, steps),
            (_, Some(Work::Rounds(_))) => {
                if self.task_failed(node, error, steps) == Run::GoesOn {
                    self.go_on(steps);
                }
            }
            (_, None) => {}
        }
    }
}

/// Does the run go on after a task was started or has failed?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    GoesOn,
    Over,
}

impl Strategy for Got {
    fn advance(&mut self, input: Input, steps: &mut Vec<Step>) {
        match input {
            Input::Begin => self.begin(steps),
            Input::ModelAnswered { node: PLAN, completion } => self.plan_answered(&completion.text, steps),
            Input::ModelAnswered { node: AGGREGATE, completion } => self.aggregated(completion, steps),
            Input::ModelAnswered { node, completion } => self.task_answered(node, completion, steps),
            Input::ModelFailed { node, error } => self.model_failed(node, error, steps),
            Input::ToolFinished { call, output } => self.tool_finished(&call, output, steps),
        }
    }

    fn transcript(&self) -> Vec<Message> {
        words::remembered(&self.user, &self.reply)
    }
}

#[cfg(test)]
mod tests;
