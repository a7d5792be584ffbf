use super::*;

/// `id=description …; from>to …`
fn short(plan: &TaskPlan) -> String {
    let tasks: Vec<String> = plan.tasks.iter().map(|task| format!("{}={}", task.id, task.description)).collect();
    let edges: Vec<String> = plan.edges.iter().map(|(from, to)| format!("{from}>{to}")).collect();
    format!("{}; {}", tasks.join(" "), edges.join(" "))
}

#[test]
fn plans_are_read_forgivingly() {
    let rows: [(&str, Option<&str>); 10] = [
        (
            r#"{"nodes": [{"id": "a", "description": "do a"}, {"id": "b", "description": "do b"}], "edges": [["a", "b"]]}"#,
            Some("a=do a b=do b; 0>1"),
        ),
        (
            "Here is the plan:\n```json\n{\"nodes\": [{\"id\": 1, \"task\": \"x\"}, {\"id\": 2}], \"edges\": [{\"from\": 1, \"to\": 2}]}\n```",
            Some("1=x 2=2; 0>1"),
        ),
        (r#"{"nodes": ["do x", "do y", null, {}]}"#, Some("task_1=do x task_2=do y; ")),
        (r#"{"nodes": [{"id": "a"}, {"id": "a", "description": "again"}]}"#, Some("a=a; ")),
        (
            r#"{"nodes": [{"id": "a"}, {"id": "b"}], "edges": [["a", "z"], ["a"], 7, ["a", "b"], ["a", "b"]]}"#,
            Some("a=a b=b; 0>1"),
        ),
        (r#"{"nodes": [{"id": "a_sub_1"}, {"id": "_sub_sub_"}]}"#, Some("a_part_1=a_part_1 _part_part_=_part_part_; ")),
        (r#"{"nodes": []}"#, Some("; ")),
        (r#"{"nodes": 3}"#, None),
        ("First do a, then b.", None),
        ("", None),
    ];
    for (text, expected) in rows {
        assert_eq!(TaskPlan::parse(text, 9).as_ref().map(short).as_deref(), expected, "{text}");
    }
}

#[test]
fn more_tasks_than_allowed_are_left_out() {
    let nodes: Vec<String> = (0..100).map(|n| format!("{{\"id\": \"t{n}\"}}")).collect();
    let text = format!(r#"{{"nodes": [{}], "edges": [["t0", "t2"], ["t1", "t99"]]}}"#, nodes.join(","));
    assert_eq!(short(&TaskPlan::parse(&text, 3).unwrap()), "t0=t0 t1=t1 t2=t2; 0>2");
}

#[test]
fn cycles_are_found_and_their_closing_edges_dropped() {
    let plan = |count: usize, edges: &[(usize, usize)]| TaskPlan {
        tasks: (0..count).map(|n| PlannedTask { id: format!("t{n}").into(), description: "".into() }).collect(),
        edges: edges.to_vec(),
    };
    type Row<'a> = (&'a [(usize, usize)], Option<&'a str>, &'a [(usize, usize)]);
    let rows: [Row<'_>; 5] = [
        (&[(0, 1), (1, 2), (0, 2)], None, &[(0, 1), (1, 2), (0, 2)]),
        (&[(0, 1), (1, 2), (2, 0)], Some("t2 > t0 > t1 > t2"), &[(0, 1), (1, 2)]),
        (&[(0, 0), (0, 1)], Some("t0 > t0"), &[(0, 1)]),
        (&[(0, 1), (1, 0), (1, 2), (2, 1)], Some("t1 > t0 > t1"), &[(0, 1), (1, 2)]),
        (&[], None, &[]),
    ];
    for (edges, cycle, left) in rows {
        let plan = plan(3, edges);
        assert_eq!(plan.find_cycle().map(|cycle| cycle.join(" > ")).as_deref(), cycle, "{edges:?}");
        let acyclic = plan.without_cycles();
        assert_eq!(acyclic.edges, left, "{edges:?}");
        assert_eq!(acyclic.find_cycle(), None);
    }
}
