use proptest::prelude::*;

use super::*;

fn parsed(arguments: &Value) -> Result<Vec<(String, Value)>, String> {
    parse(arguments).map(|calls| calls.into_iter().map(|(name, input)| (name.to_string(), (*input).clone())).collect())
}

#[test]
fn calls_are_read_in_order() {
    let calls = json!({"calls": [
        {"tool": "read", "parameters": {"path": "a"}},
        {"tool": "ls", "parameters": {}},
        {"tool": "read"}
    ]});
    let expected = [("read", json!({"path": "a"})), ("ls", json!({})), ("read", json!({}))];
    assert_eq!(parsed(&calls).unwrap(), expected.map(|(name, input)| (name.to_owned(), input)));

    let calls = |count| json!({"calls": vec![json!({"tool": "ls", "parameters": {}}); count]});
    assert_eq!(parsed(&calls(25)).unwrap().len(), 25);
    for (bad, expected) in [
        (json!({}), "`calls` must be a list of calls"),
        (json!({"calls": "ls"}), "`calls` must be a list of calls"),
        (calls(0), "a batch holds 1 to 25 calls, not 0"),
        (calls(26), "a batch holds 1 to 25 calls, not 26"),
        (json!({"calls": [{"parameters": {}}]}), "every call names its `tool`"),
        (json!({"calls": [{"tool": 1}]}), "every call names its `tool`"),
        (json!({"calls": [{"tool": "ls", "parameters": [1]}]}), "`parameters` of `ls` must be an object"),
    ] {
        assert_eq!(parsed(&bad).unwrap_err(), expected);
    }
}

#[test]
fn results_are_told_in_order_under_their_names() {
    let results = [
        ("read".into(), ToolOutput::ok("  1\thello")),
        ("read".into(), ToolOutput::error("no such file: b")),
        ("ls".into(), ToolOutput::ok("")),
    ];
    let expected = "[1] read: ok\n  1\thello\n\n[2] read: error\nno such file: b\n\n[3] ls: ok\n";
    assert_eq!(render(&results), ToolOutput::ok(expected));
    assert!(render(&results[1..2]).is_error, "nothing worked");
}

#[test]
fn long_results_are_cut_and_all_of_them_fit() {
    let long = |bytes: usize| ("read".into(), ToolOutput::ok("é".repeat(bytes / 2)));
    let one = render(&[long(6000), ("ls".into(), ToolOutput::ok("short"))]).content;
    let shown = "é".repeat(2048);
    assert_eq!(*one, format!("[1] read: ok\n{shown}\n[cut: 4096 of 6000 bytes shown]\n\n[2] ls: ok\nshort"));

    let mut results = vec![long(60_000); 25];
    results[24] = ("ls".into(), ToolOutput::ok("the last"));
    let all = render(&results).content;
    assert!(all.ends_with("[25] ls: ok\nthe last"), "nothing is lost at the end");
    assert!(all.len() < 64 * 1024, "{}", all.len());
    assert_eq!(all.matches(" of 60000 bytes shown]").count(), 24);
    let name = render(&[("é".repeat(1000).into(), ToolOutput::error("unknown tool"))]).content;
    assert_eq!(*name, format!("[1] {}: error\nunknown tool", "é".repeat(100)));
}

proptest! {
    #[test]
    fn any_results_fit(sizes in proptest::collection::vec(0..70_000_usize, 1..=25)) {
        let results: Vec<_> =
            sizes.iter().map(|size| (Arc::from("t".repeat(300)), ToolOutput::ok("x".repeat(*size)))).collect();
        let content = render(&results).content;
        prop_assert!(content.len() <= 60 * 1024, "{}", content.len());
        // Short results are shown whole.
        let result_limit = TOTAL_BYTES / sizes.len();
        let whole = sizes.iter().filter(|size| **size <= result_limit.min(RESULT_BYTES)).count();
        prop_assert!(content.matches("bytes shown]").count() <= sizes.len() - whole);
    }
}
