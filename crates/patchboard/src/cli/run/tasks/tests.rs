use serde_json::json;

use super::TaskGraph;

#[track_caller]
fn check(tasks: &TaskGraph, expected: &str) {
    assert_eq!(tasks.lines().join("\n"), expected.trim_start_matches('\n').trim_end());
}

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

#[test]
fn a_graph_is_worked_on() {
    let mut tasks = TaskGraph::default();
    tasks.planned(&ids(&["gather", "compare", "report"]));
    check(
        &tasks,
        "
graph of tasks: 0 of 3 done
· gather
· compare
· report
",
    );
    let state = json!({
        "task_graph": {
            "nodes": [
                { "id": "gather", "description": "Collect the figures." },
                { "id": "compare", "description": "Compare\nboth." },
                { "id": "report", "description": "" },
            ],
            "edges": [["gather", "compare"], ["gather", "report"], ["compare", "report"]],
        },
        "node_states": {},
    });
    tasks.apply_state(&state);
    tasks.started("gather");
    tasks.completed("gather");
    tasks.started("compare");
    check(
        &tasks,
        "
graph of tasks: 1 of 3 done
✓ gather   Collect the figures.
… compare ← gather  Compare\\nboth.
· report  ← gather, compare
",
    );
    tasks.failed("compare", "the model\x07 failed");
    tasks.apply_state(&state);
    check(
        &tasks,
        "
graph of tasks: 1 of 3 done
✓ gather   Collect the figures.
✗ compare ← gather  the model\\u{7} failed
· report  ← gather, compare
",
    );
}

#[test]
fn tasks_that_are_split_are_wired_anew() {
    let mut tasks = TaskGraph::default();
    tasks.planned(&ids(&["a", "b"]));
    tasks.started("a");
    tasks.completed("a");
    tasks.apply_state(&json!({
        "task_graph": {
            "nodes": [
                { "id": "a", "description": "" }, { "id": "b", "description": "" },
                { "id": "a_sub_1", "description": "more" },
            ],
            "edges": [["a", "a_sub_1"], ["a_sub_1", "b"]],
        },
    }));
    check(
        &tasks,
        "
graph of tasks: 1 of 3 done
✓ a
· b       ← a_sub_1
· a_sub_1 ← a  more
",
    );
}

#[test]
fn joined_late_a_state_tells_how_far_tasks_are() {
    let mut tasks = TaskGraph::default();
    tasks.apply_state(&json!({
        "task_graph": { "nodes": [{ "id": "a" }, { "id": "b" }, { "id": "c" }, { "id": "d" }], "edges": [] },
        "node_states": {
            "a": { "status": "Done" }, "b": { "status": "Running" },
            "c": { "status": "Failed", "error": "no" }, "d": { "status": "Pending" },
        },
    }));
    check(&tasks, "graph of tasks: 1 of 4 done\n✓ a\n… b\n✗ c  no\n· d");
}

#[test]
fn nonsense_does_no_harm() {
    let mut tasks = TaskGraph::default();
    tasks.apply_state(&json!({ "task_graph": { "nodes": 5, "edges": [[1, 2], "x", ["only"]] } }));
    tasks.apply_state(&json!(null));
    let many: Vec<String> = (0..5_000).map(|number| number.to_string()).collect();
    tasks.planned(&many);
    tasks.started("4999");
    assert_eq!(tasks.lines().len(), 1_001);
}
