use super::*;

#[test]
fn events_are_shown_on_one_line() {
    let at = "2026-11-01T08:00:00Z";
    let time = clock::local(at, clock::SECOND);
    let long = "x".repeat(500);
    for (item, expected) in [
        (
            json!({ "seq": 7, "at": at, "node": 3, "event": "answer_text", "data": { "pieces": ["It ", "is\n", "雨"] } }),
            format!("     7 {time}   #3 answer_text        It is\\n雨"),
        ),
        (
            json!({ "seq": 12, "at": at, "event": "done", "data": { "outcome": "completed" } }),
            format!("    12 {time}      done               {{\"outcome\":\"completed\"}}"),
        ),
        (
            json!({ "seq": 1, "at": at, "event": "error", "data": { "pieces": [long] } }),
            format!("     1 {time}      error              {}…", "x".repeat(SHOWN_DATA)),
        ),
    ] {
        assert_eq!(event_line(&item), expected);
    }
}

#[test]
fn only_an_unusual_strategy_is_named() {
    for (strategy, expected) in [("react", "main"), ("tot", "main (tot)")] {
        assert_eq!(agent(&json!({ "agent": "main", "strategy": strategy })), expected);
    }
}
