use super::*;

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 / 60 * 60 + minute * 60).unwrap()
}

fn recent(statistics: &CallStatistics, minutes: usize, now: i64) -> Vec<(String, u64, u64)> {
    let flows = statistics.flows(minutes, at(now)).into_iter();
    flows.map(|flow| (format!("{}>{}", flow.from, flow.to), flow.recent, flow.total)).collect()
}

#[test]
fn flows_are_counted_by_the_minute() {
    let statistics = CallStatistics::default();
    for minute in [0, 0, 3, 59, 60] {
        statistics.flowed(FlowKind::Run, "gateway", "default", at(minute));
    }
    statistics.flowed(FlowKind::ToolCall, "default", "files", at(60));
    let flow = |name: &str, recent, total| (name.to_owned(), recent, total);
    let cases = [
        (1, 60, [flow("gateway>default", 1, 5), flow("default>files", 1, 1)]),
        (2, 60, [flow("gateway>default", 2, 5), flow("default>files", 1, 1)]),
        (60, 60, [flow("gateway>default", 3, 5), flow("default>files", 1, 1)]),
        (1000, 61, [flow("gateway>default", 3, 5), flow("default>files", 1, 1)]),
        (60, 200, [flow("gateway>default", 0, 5), flow("default>files", 0, 1)]),
    ];
    for (minutes, now, expected) in cases {
        assert_eq!(recent(&statistics, minutes, now), expected, "{minutes} minutes before {now}");
    }
    statistics.flowed(FlowKind::Run, "gateway", "default", at(200));
    assert_eq!(recent(&statistics, 60, 200)[0], flow("gateway>default", 1, 6));
}

#[test]
fn what_does_not_fit_counts_together() {
    let statistics = CallStatistics::default();
    for number in 0..MAX_FLOWS + 10 {
        statistics.flowed(FlowKind::ToolCall, "default", &format!("host{number}"), at(0));
    }
    let flows = statistics.flows(60, at(0));
    assert_eq!(flows.len(), MAX_FLOWS + 1);
    assert_eq!((&*flows[0].from, &*flows[0].to, flows[0].total), (OTHER, OTHER, 10));
}

#[test]
fn tools_are_counted_up_to_a_bound() {
    let statistics = CallStatistics::default();
    for number in 0..=MAX_TOOLS {
        statistics.tool_called(&format!("tool{number}").into(), number == 0);
    }
    statistics.tool_called(&"tool0".into(), false);
    assert_eq!(statistics.tool_counts("tool0"), ToolCounts { calls: 2, failures: 1 });
    assert_eq!(statistics.tool_counts(&format!("tool{MAX_TOOLS}")), ToolCounts::default());
}
