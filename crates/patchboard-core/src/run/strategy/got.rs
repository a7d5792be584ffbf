//! Got, a graph of thoughts (Besta et al. 2023): plan the work as a graph of tasks, run the ready tasks concurrently,
//! and write one reply from their results. Adaptive: a finished task may be split into further ones.
//!
//! Nodes: `plan_graph` (requests a plan, again if it has a cycle), one `execute_graph` for each task (rounds with the
//! model, tools included), `aggregate` (one call writes the reply). A plan of one task needs no aggregation: that task
//! answers the user directly and is not split.
//!
//! A failed task does not fail the run. Its dependents are given the error, and fail too only if all their
//! prerequisites have failed; the run fails if no task succeeded.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::prompt_text::{self, truncate_shared};
use super::tool_loop::{RoundOutcome, ToolLoop, ToolLoopLimits};
use super::{
    AnswerKind, Completion, Strategy, StrategyInput, StrategyOutcome, StrategySpec, StrategyStep, ToolAvailability,
};
use crate::id::CallId;
use crate::model::{ContentPart, ModelMessage};
use crate::run_spec::NodeKey;
use crate::run_spec::StrategyKind;
use crate::run_spec::finding::StrategyFinding;
use crate::tool::ToolOutput;
use graph::{GraphExpansion, TaskBudget, TaskDag, TaskOutcome};
use plan::TaskPlan;

mod graph;
mod plan;
mod prompts;

const PLAN_NODE: NodeKey = NodeKey(0);
/// Cannot collide: keys of tasks start far above it.
const AGGREGATE_NODE: NodeKey = NodeKey(1);

/// A plan, a task and the aggregate: with fewer calls the request is run as one task.
const MIN_MODEL_CALLS: u32 = 3;
/// Hard limit on the tasks of one run, whatever is configured.
const MAX_TASKS: u32 = 64;
/// Results of tasks are cut to this length.
const RESULT_BYTES: usize = 64 * 1024;

const CALLS_EXHAUSTED: &str = "the run's model calls are used up";
const ALL_INPUTS_FAILED: &str = "every task it builds on failed";

#[derive(Debug)]
pub(super) struct Got {
    history: Vec<ModelMessage>,
    history_as_text: Vec<ModelMessage>,
    user: ModelMessage,
    max_tasks: u32,
    parallel: usize,
    max_plans: u32,
    max_turns: u32,
    is_adaptive: bool,
    /// Model calls neither made, nor distributed to tasks, nor reserved for the aggregate.
    calls_left: u32,
    planning: PlanningState,
    graph: TaskDag,
    active_tasks: BTreeMap<NodeKey, TaskWork>,
    reply: String,
}

/// The conversation about the plan.
#[derive(Debug, Default)]
struct PlanningState {
    messages: Vec<ModelMessage>,
    plan_requests: u32,
    /// The latest plan, refused because of a cycle.
    refused_plan: Option<TaskPlan>,
}

/// A task in progress.
#[derive(Debug)]
enum TaskWork {
    Loop(ToolLoop),
    /// Finished; the model is being asked whether to split it.
    Splitting {
        result: Arc<str>,
    },
}

impl Got {
    pub(super) fn new(spec: StrategySpec) -> Self {
        let StrategySpec { history, user, reasoning, adaptive, .. } = spec;
        let options = reasoning.got;
        Self {
            history_as_text: prompt_text::tool_parts_as_text(&history),
            history,
            user,
            max_tasks: options.max_tasks.clamp(1, MAX_TASKS),
            parallel: options.parallel.max(1) as usize,
            max_plans: options.max_plans.max(1),
            max_turns: reasoning.max_turns.unwrap_or(u32::MAX),
            is_adaptive: adaptive || options.adaptive,
            calls_left: reasoning.model_calls(StrategyKind::Got),
            planning: PlanningState::default(),
            graph: TaskDag::default(),
            active_tasks: BTreeMap::new(),
            reply: String::new(),
        }
    }

    fn begin(&mut self, steps: &mut Vec<StrategyStep>) {
        steps.push(StrategyStep::Enter { node: PLAN_NODE, name: "plan_graph" });
        if self.calls_left < MIN_MODEL_CALLS || self.max_tasks < 2 {
            return self.adopt_plan(TaskPlan::single(&self.user.text()), steps);
        }
        self.planning.messages =
            prompt_text::with_instruction(&self.history_as_text, &self.user, prompts::plan(self.max_tasks));
        self.ask_for_plan(steps);
    }

    fn ask_for_plan(&mut self, steps: &mut Vec<StrategyStep>) {
        self.calls_left = self.calls_left.saturating_sub(1);
        self.planning.plan_requests += 1;
        let messages = self.planning.messages.clone();
        steps.push(StrategyStep::AskModel {
            node: PLAN_NODE,
            messages,
            tools: ToolAvailability::Withheld,
            answer_kind: AnswerKind::Draft,
        });
    }

    fn plan_answered(&mut self, text: &str, steps: &mut Vec<StrategyStep>) {
        let parsed = TaskPlan::parse(text, self.max_tasks as usize).filter(|plan| !plan.tasks.is_empty());
        let plan = parsed.unwrap_or_else(|| TaskPlan::single(&self.user.text()));
        match plan.find_cycle() {
            Some(cycle) if self.planning.plan_requests < self.max_plans && self.calls_left >= MIN_MODEL_CALLS => {
                self.planning.messages.push(ModelMessage::assistant(prompts::refused_plan(text)));
                self.planning.messages.push(ModelMessage::user(prompts::plan_again(&cycle)));
                self.planning.refused_plan = Some(plan);
                self.ask_for_plan(steps);
            }
            Some(_) | None => self.adopt_plan(plan.without_cycles(), steps),
        }
    }

    /// The plan request failed; a plan that was refused earlier is used rather than none.
    fn plan_failed(&mut self, error: String, steps: &mut Vec<StrategyStep>) {
        match self.planning.refused_plan.take() {
            Some(plan) => self.adopt_plan(plan.without_cycles(), steps),
            None => self.fail_run(PLAN_NODE, error, steps),
        }
    }

    fn adopt_plan(&mut self, plan: TaskPlan, steps: &mut Vec<StrategyStep>) {
        self.planning = PlanningState::default();
        let id = |index: usize| plan.tasks.get(index).map(|task| task.id.clone());
        let edges = plan.edges.iter().filter_map(|(from, to)| Some((id(*from)?, id(*to)?))).collect();
        steps.push(StrategyStep::Report {
            node: PLAN_NODE,
            finding: StrategyFinding::Planned { tasks: plan.tasks.clone(), edges },
        });
        steps.push(StrategyStep::Leave { node: PLAN_NODE, failed: None });
        let tasks = u32::try_from(plan.tasks.len()).unwrap_or(u32::MAX);
        let for_aggregate = u32::from(tasks > 1);
        let allowance = TaskBudget {
            model_calls: self.calls_left.saturating_sub(for_aggregate),
            tasks: if self.is_adaptive { self.max_tasks.saturating_sub(tasks) } else { 0 },
        };
        self.calls_left = for_aggregate;
        self.graph = TaskDag::new(&plan, allowance);
        self.start_ready_tasks(steps);
    }

    /// Is there only one task?
    fn is_single(&self) -> bool {
        self.graph.len() == 1
    }

    /// Starts ready tasks up to the concurrency limit; once all tasks have ended, requests the reply.
    fn start_ready_tasks(&mut self, steps: &mut Vec<StrategyStep>) {
        while self.active_tasks.len() < self.parallel {
            let Some(key) = self.graph.next_ready() else { break };
            if self.start(key, steps) == RunProgress::Finished {
                return;
            }
        }
        if self.active_tasks.is_empty() {
            self.aggregate(steps);
        }
    }

    fn start(&mut self, key: NodeKey, steps: &mut Vec<StrategyStep>) -> RunProgress {
        let Some(vertex) = self.graph.get_mut(key) else { return RunProgress::Continues };
        vertex.is_started = true;
        let (task, model_calls) = (vertex.id.clone(), vertex.budget.model_calls);
        steps.push(StrategyStep::Enter { node: key, name: "execute_graph" });
        steps.push(StrategyStep::Report { node: key, finding: StrategyFinding::TaskStarted { task } });
        let Some(vertex) = self.graph.get(key) else { return RunProgress::Continues };
        let refused = match () {
            () if self.graph.all_inputs_failed(vertex) => Some(ALL_INPUTS_FAILED),
            () if model_calls == 0 => Some(CALLS_EXHAUSTED),
            () => None,
        };
        if let Some(error) = refused {
            return self.fail_task(key, error.to_owned(), steps);
        }
        let user = if self.is_single() {
            self.user.clone()
        } else {
            prompt_text::with_note(&self.user, prompts::task(&self.graph, vertex))
        };
        let tool_loop = ToolLoop::new(user, ToolLoopLimits { model_calls, turns: self.max_turns });
        self.active_tasks.insert(key, TaskWork::Loop(tool_loop));
        self.ask(key, steps)
    }

    fn ask(&mut self, key: NodeKey, steps: &mut Vec<StrategyStep>) -> RunProgress {
        let is_single = self.is_single();
        let Some(TaskWork::Loop(tool_loop)) = self.active_tasks.get_mut(&key) else { return RunProgress::Continues };
        let Some(request) = tool_loop.next_request() else { return self.out_of_calls(key, steps) };
        let mut messages = if is_single { self.history.clone() } else { Vec::new() };
        messages.extend_from_slice(request);
        let mut tools = ToolAvailability::Offered;
        if tool_loop.is_last() {
            if let Some(last) = messages.last_mut() {
                last.parts.push(ContentPart::Text(format!("\n\n{}", prompts::LAST_CALL).into()));
            }
            // A task with a single call could not use tool results, so no tools are offered.
            if tool_loop.model_calls() == 1 {
                tools = ToolAvailability::Withheld;
                messages = prompt_text::tool_parts_as_text(&messages);
            }
        }
        let answer_kind = if is_single { AnswerKind::Reply } else { AnswerKind::Draft };
        steps.push(StrategyStep::AskModel { node: key, messages, tools, answer_kind });
        RunProgress::Continues
    }

    fn out_of_calls(&mut self, key: NodeKey, steps: &mut Vec<StrategyStep>) -> RunProgress {
        self.fail_task(key, "the task takes more rounds than it has".to_owned(), steps)
    }

    fn task_answered(&mut self, key: NodeKey, completion: Completion, steps: &mut Vec<StrategyStep>) {
        match self.active_tasks.get_mut(&key) {
            Some(TaskWork::Loop(tool_loop)) => match tool_loop.push_answer(completion) {
                RoundOutcome::Text(text) => self.task_done(key, text, steps),
                RoundOutcome::Calls(calls) => {
                    steps.extend(calls.into_iter().map(|call| StrategyStep::CallTool { node: key, call }));
                }
                RoundOutcome::LimitReached => {
                    if self.out_of_calls(key, steps) == RunProgress::Continues {
                        self.start_ready_tasks(steps);
                    }
                }
            },
            Some(TaskWork::Splitting { .. }) => self.split_task(key, Some(&completion.text), steps),
            None => {}
        }
    }

    fn tool_finished(&mut self, call: &CallId, output: ToolOutput, steps: &mut Vec<StrategyStep>) {
        let owner = self.active_tasks.iter_mut().find_map(|(key, work)| match work {
            TaskWork::Loop(tool_loop) if tool_loop.is_waiting_for(call) => Some((*key, tool_loop)),
            TaskWork::Loop(_) | TaskWork::Splitting { .. } => None,
        });
        let Some((key, tool_loop)) = owner else { return };
        if tool_loop.push_result(call, output)
            && self.ask(key, steps) == RunProgress::Continues
            && !self.active_tasks.contains_key(&key)
        {
            // The task had no call left and failed, which frees a slot for others.
            self.start_ready_tasks(steps);
        }
    }

    fn task_done(&mut self, key: NodeKey, text: String, steps: &mut Vec<StrategyStep>) {
        self.count_calls(key);
        let Some(vertex) = self.graph.get(key) else { return };
        let result = truncate_shared(&text, RESULT_BYTES);
        let finding = StrategyFinding::TaskCompleted { task: vertex.id.clone(), result: result.clone() };
        steps.push(StrategyStep::Report { node: key, finding });
        if self.is_single() {
            self.active_tasks.remove(&key);
            self.reply = text;
            steps.push(StrategyStep::Leave { node: key, failed: None });
            steps.push(StrategyStep::Finish(StrategyOutcome::Completed));
            return;
        }
        let max_tasks = self.graph.max_split(key);
        if max_tasks == 0 {
            return self.finish_task(key, TaskOutcome::Done(result), steps);
        }
        let instruction = prompts::expand(vertex, &result, max_tasks as usize);
        let messages = vec![prompt_text::with_note(&self.user, instruction)];
        if let Some(vertex) = self.graph.get_mut(key) {
            vertex.budget.model_calls = vertex.budget.model_calls.saturating_sub(1);
        }
        self.active_tasks.insert(key, TaskWork::Splitting { result });
        steps.push(StrategyStep::AskModel {
            node: key,
            messages,
            tools: ToolAvailability::Withheld,
            answer_kind: AnswerKind::Draft,
        });
    }

    /// Splits the finished task if the answer asks for it. A failed request splits nothing.
    fn split_task(&mut self, key: NodeKey, answer: Option<&str>, steps: &mut Vec<StrategyStep>) {
        let Some(TaskWork::Splitting { result }) = self.active_tasks.remove(&key) else { return };
        // The call for this question has been deducted already.
        let max_tasks = self
            .graph
            .get(key)
            .map_or(0, |vertex| graph::MAX_CHILDREN.min(vertex.budget.tasks).min(vertex.budget.model_calls));
        let plan =
            answer.and_then(|text| TaskPlan::parse(text, max_tasks as usize)).filter(|plan| !plan.tasks.is_empty());
        if let Some(plan) = plan {
            let GraphExpansion { tasks, edges, dropped } = self.graph.expand(key, &plan.without_cycles());
            if let Some(vertex) = self.graph.get(key) {
                let finding = StrategyFinding::TaskExpanded { task: vertex.id.clone(), tasks, edges, dropped };
                steps.push(StrategyStep::Report { node: key, finding });
            }
        }
        self.finish_task(key, TaskOutcome::Done(result), steps);
    }

    fn finish_task(&mut self, key: NodeKey, outcome: TaskOutcome, steps: &mut Vec<StrategyStep>) {
        self.active_tasks.remove(&key);
        self.graph.finish(key, outcome);
        steps.push(StrategyStep::Leave { node: key, failed: None });
        self.start_ready_tasks(steps);
    }

    /// The caller starts further ready tasks, unless the run is over.
    fn fail_task(&mut self, key: NodeKey, error: String, steps: &mut Vec<StrategyStep>) -> RunProgress {
        self.count_calls(key);
        self.active_tasks.remove(&key);
        let error: Arc<str> = error.into();
        if let Some(vertex) = self.graph.get(key) {
            let finding = StrategyFinding::TaskFailed { task: vertex.id.clone(), error: error.clone() };
            steps.push(StrategyStep::Report { node: key, finding });
        }
        if self.is_single() {
            self.fail_run(key, error.to_string(), steps);
            return RunProgress::Finished;
        }
        self.graph.finish(key, TaskOutcome::Failed(error));
        steps.push(StrategyStep::Leave { node: key, failed: None });
        RunProgress::Continues
    }

    /// Deducts the model calls of the task's loop from its budget.
    fn count_calls(&mut self, key: NodeKey) {
        let Some(TaskWork::Loop(tool_loop)) = self.active_tasks.get(&key) else { return };
        let used_calls = tool_loop.model_calls();
        if let Some(vertex) = self.graph.get_mut(key) {
            vertex.budget.model_calls = vertex.budget.model_calls.saturating_sub(used_calls);
        }
    }

    fn aggregate(&mut self, steps: &mut Vec<StrategyStep>) {
        if !self.graph.any_done() {
            let error = self.graph.first_error().unwrap_or_else(|| CALLS_EXHAUSTED.into());
            steps.push(StrategyStep::Finish(StrategyOutcome::Failed(format!("no task could be done: {error}"))));
            return;
        }
        self.calls_left = 0;
        steps.push(StrategyStep::Enter { node: AGGREGATE_NODE, name: "aggregate" });
        let messages =
            prompt_text::with_instruction(&self.history_as_text, &self.user, prompts::aggregate(&self.graph));
        steps.push(StrategyStep::AskModel {
            node: AGGREGATE_NODE,
            messages,
            tools: ToolAvailability::Withheld,
            answer_kind: AnswerKind::Reply,
        });
    }

    fn aggregated(&mut self, completion: Completion, steps: &mut Vec<StrategyStep>) {
        self.reply = completion.text;
        steps.push(StrategyStep::Leave { node: AGGREGATE_NODE, failed: None });
        steps.push(StrategyStep::Finish(StrategyOutcome::Completed));
    }

    fn fail_run(&mut self, node: NodeKey, error: String, steps: &mut Vec<StrategyStep>) {
        steps.push(StrategyStep::Leave { node, failed: Some(error.clone()) });
        steps.push(StrategyStep::Finish(StrategyOutcome::Failed(error)));
    }

    fn model_failed(&mut self, node: NodeKey, error: String, steps: &mut Vec<StrategyStep>) {
        match (node, self.active_tasks.get(&node)) {
            (PLAN_NODE, _) => self.plan_failed(error, steps),
            (AGGREGATE_NODE, _) => self.fail_run(node, error, steps),
            (_, Some(TaskWork::Splitting { .. })) => self.split_task(node, None, steps),
            (_, Some(TaskWork::Loop(_))) => {
                if self.fail_task(node, error, steps) == RunProgress::Continues {
                    self.start_ready_tasks(steps);
                }
            }
            (_, None) => {}
        }
    }
}

/// Whether the run continues after a task was started or failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunProgress {
    Continues,
    Finished,
}

impl Strategy for Got {
    fn advance(&mut self, input: StrategyInput, steps: &mut Vec<StrategyStep>) {
        match input {
            StrategyInput::Begin => self.begin(steps),
            StrategyInput::ModelAnswered { node: PLAN_NODE, completion } => self.plan_answered(&completion.text, steps),
            StrategyInput::ModelAnswered { node: AGGREGATE_NODE, completion } => self.aggregated(completion, steps),
            StrategyInput::ModelAnswered { node, completion } => self.task_answered(node, completion, steps),
            StrategyInput::ModelFailed { node, error } => self.model_failed(node, error, steps),
            StrategyInput::ToolFinished { call, output } => self.tool_finished(&call, output, steps),
        }
    }

    fn transcript(&self) -> Vec<ModelMessage> {
        prompt_text::user_and_reply(&self.user, &self.reply)
    }
}

#[cfg(test)]
mod tests;
