use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{age, memory, pools};
use crate::cli::workers::report::{self, PoolStatus};
use crate::output::PageLayout;
use crate::telemetry::LogColour;

const PIPE: PageLayout = PageLayout { columns: None, colour: LogColour::Off };

fn now() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

fn read(items: serde_json::Value) -> Vec<PoolStatus> {
    items.as_array().unwrap().iter().map(|item| report::parse(item).unwrap()).collect()
}

#[test]
fn a_paragraph_a_pool() {
    let shown = pools(
        &read(json!([
            {
                "name": "py", "ready": 1, "wanted": 2, "queued": 3, "tools": 12, "succeeded": 1234, "failed": 4,
                "timed_out": 5, "refused": 6, "restarts": 1, "recycled": 7, "trouble": "died:\n\u{1b}[31mred",
                "workers": [
                    {"id": "py-10", "state": "ready", "pid": 4711, "in_flight": 2, "capacity": 16, "calls": 99,
                     "memory_bytes": 47_395_635, "since": "2026-11-15T11:55:48Z", "address": "127.0.0.1:4"},
                    {"id": "py-9", "state": "backing_off", "pid": null, "in_flight": 0, "capacity": 0, "calls": 0,
                     "memory_bytes": null, "since": "2026-11-15T12:00:00Z", "address": null},
                ],
            },
            {"name": "r", "wanted": 1, "tools": 1, "restarts": 0, "trouble": null, "workers": []},
        ])),
        now(),
        PIPE,
    );
    let wanted = "\
py: 1 of 2 ready, 3 queued, 12 tools
  calls: 1234 succeeded, 4 failed, 5 timed out, 6 refused; 1 restart, 7 recycled
  last trouble: died:\\n\\u{1b}[31mred
  WORKER  STATE         PID  BUSY  DONE    MEMORY    AGE
  py-10   ready        4711  2/16    99  45.2 MiB  4m12s
  py-9    backing off     –   0/0     0         –     0s

r: 0 of 1 ready, 0 queued, 1 tool
  calls: 0 succeeded, 0 failed, 0 timed out, 0 refused; 0 restarts, 0 recycled
  no worker yet";
    assert_eq!(shown.join("\n"), wanted);
}

#[test]
fn no_pools_are_said_to_be_none() {
    assert_eq!(pools(&[], now(), PIPE), ["no pool of workers is configured: [[workers]] adds one"]);
}

#[test]
fn words_of_a_newer_server_are_shown_as_they_are() {
    let shown = pools(&read(json!([{"name": "py", "news": 1, "workers": [{"state": "asleep\u{7}"}]}])), now(), PIPE);
    assert_eq!(shown.last().unwrap(), "          asleep\\u{7}    –   0/0     0       –    –");
}

#[test]
fn ages() {
    let cases = [
        (-5, "0s"),
        (0, "0s"),
        (59, "59s"),
        (60, "1m0s"),
        (3_599, "59m59s"),
        (3_600, "1h0m"),
        (86_399, "23h59m"),
        (86_400, "1d0h"),
        (1_000_000, "11d13h"),
    ];
    for (seconds, wanted) in cases {
        assert_eq!(age(now() - SignedDuration::from_secs(seconds), now()), wanted, "{seconds}");
    }
}

#[test]
fn sizes() {
    let cases = [(0, "0.0 MiB"), (1 << 20, "1.0 MiB"), ((1 << 30) - 1, "1024.0 MiB"), (3 << 29, "1.5 GiB")];
    for (bytes, wanted) in cases {
        assert_eq!(memory(bytes), wanted, "{bytes}");
    }
}
