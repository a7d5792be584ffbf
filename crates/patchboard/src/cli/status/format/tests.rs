use serde_json::json;

use super::*;

#[test]
fn a_server_that_answers_is_told_in_full() {
    let all = json!({
        "running": true, "data_dir": "/data", "pid": 4711, "version": "0.1.0", "state": "ready", "role": "server",
        "started_at": "2026-11-19T07:01:02.5Z", "memory_bytes": 40 * 1024 * 1024,
        "addresses": {"gateway": "127.0.0.1:7200", "runs": null, "hub": null, "bridge": null},
        "agents": [{"name": "default", "provider": "main", "model": "m\u{1b}[2J"}, {"name": "b", "provider": "p", "model": ""}],
        "sessions": 3, "runs": 1, "approvals": 1, "apps": {"connected": 1, "known": 2},
        "workers": [{"name": "py", "ready": 1, "wanted": 2, "trouble": "gone"}],
        "budget": {"daily": {"used": 10, "reserved": 5, "limit": 100}, "monthly": {"used": 14839, "reserved": 0, "limit": null}},
    });
    let now = "2026-11-19T08:03:00Z".parse().unwrap();
    assert_eq!(
        lines(&all, true, now, &TimeZone::UTC, None),
        [
            "Patchboard 0.1.0 is running (pid 4711, since 2026-11-19 07:01:02, 1h1m)",
            "  data       /data",
            "  gateway    http://127.0.0.1:7200",
            "  runs       off",
            "  hub        off",
            "  bridge     off",
            "  memory     40 MiB",
            "  model      default: main / m\\u{1b}[2J",
            "  model      b: p / its own default",
            "  chats      3",
            "  runs       1 at work",
            "  workers    py: 1 of 2 ready: gone",
            "  apps       1 connected of 2",
            "  approvals  1 waits: `patchboard approvals`",
            "  today      85 of 100 tokens left",
            "  month      14,839 tokens used, no limit",
        ]
    );
}

#[test]
fn on_a_terminal_a_long_trouble_goes_on_below_its_beginning() {
    let trouble = "cannot start `pyhton3`: No such file or directory";
    let all = json!({"workers": [{"name": "py", "ready": 0, "wanted": 1, "trouble": trouble}]});
    let now = "2026-11-19T08:03:00Z".parse().unwrap();
    let lines = lines(&all, true, now, &TimeZone::UTC, Some(50));
    let wanted = ["  workers    py: 0 of 1 ready: cannot start", "             `pyhton3`: No such file or directory"];
    assert_eq!(lines.get(3..5), Some(wanted.map(str::to_owned).as_slice()));
}

#[test]
fn a_server_that_stops_tells_what_is_left() {
    let all =
        json!({ "running": true, "pid": 1, "state": "stopping", "role": "server", "addresses": null, "runs_left": 2 });
    let now = "2026-11-19T08:03:00Z".parse().unwrap();
    assert_eq!(
        lines(&all, false, now, &TimeZone::UTC, None),
        ["Patchboard is stopping (pid 1)", "  runs       2 still at work"]
    );
}

#[test]
fn the_last_stop_says_what_goes_on() {
    let stop = |suspended| LastStop { pid: 1, at: "2026-11-19T07:01:02Z".to_owned(), cancelled: 0, suspended };
    let shown = |suspended| last_stop(&stop(suspended), &TimeZone::UTC);
    assert_eq!(shown(0), "the last one stopped 2026-11-19 07:01:02");
    assert!(
        shown(1).ends_with("; 1 run goes on at the next start")
            && shown(2).ends_with("; 2 runs go on at the next start")
    );
}
