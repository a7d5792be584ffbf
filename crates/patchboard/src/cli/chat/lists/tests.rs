use serde_json::json;

use super::{ChatFacts, find_model, models, sessions, status, tools, unknown_name, usage};
use crate::cli::caller_folder::CallerFolder;
use crate::cli::chat::context::ChatContext;
use crate::output::PageLayout;
use crate::telemetry::LogColour;

fn talk() -> ChatContext {
    ChatContext {
        channel: "cli".into(),
        account: "local".into(),
        peer: "main".into(),
        agent: None,
        model: None,
        folder: CallerFolder::default(),
    }
}

#[test]
fn the_status_line_tells_who_answers_and_what_it_cost() {
    let mut facts = ChatFacts { agent: Some("default".into()), model: Some("main/gpt".into()), ..ChatFacts::default() };
    assert_eq!(status(&facts, &talk(), 80), "─ default · main/gpt");
    (facts.tokens, facts.cost) = (12_345, 0.01234);
    let other = ChatContext { peer: "work".into(), model: Some("main/\u{1b}[2J".into()), ..talk() };
    assert_eq!(status(&facts, &other, 80), "─ default · main/\\u{1b}[2J · work · 12,345 tokens · $0.0123");
    assert_eq!(status(&facts, &other, 20), "─ default · main/\\…");
}

#[test]
fn models_are_listed_and_found() {
    let report = json!({
        "models": [
            {"id": "main/gpt-4o", "name": "gpt-4o", "provider": "main", "default": true},
            {"id": "claude/opus", "name": "Opus", "provider": "claude"},
        ],
        "unavailable": [{"provider": "lab", "reason": "did not answer within 2 s"}],
    });
    assert_eq!(
        models(&report, &talk()),
        [
            "* main/gpt-4o  (the agent's own)",
            "  claude/opus",
            "  lab/…  (did not answer within 2 s; any model of it can be named)"
        ]
    );
    let chosen = ChatContext { model: Some("claude/opus".into()), ..talk() };
    assert_eq!(models(&report, &chosen)[1], "* claude/opus");
    assert_eq!(find_model(&report, "gpt-4o"), Ok("main/gpt-4o".to_owned()));
    assert_eq!(find_model(&report, "claude/opus"), Ok("claude/opus".to_owned()));
    assert_eq!(find_model(&report, "lab/anything"), Ok("lab/anything".to_owned()));
    assert_eq!(
        find_model(&report, "main/gpt-4"),
        Err("there is no model main/gpt-4: did you mean main/gpt-4o?".into())
    );
    assert_eq!(find_model(&report, "opus"), Err("there is no model opus: did you mean claude/opus?".into()));
}

#[test]
fn conversations_are_shown_with_local_times() {
    let item = |peer: &str| {
        json!({
            "session": format!("default:cli:local:{peer}"), "agent": "default", "channel": "cli", "account": "local",
            "peer": peer, "turns": 3, "used_at": "2026-11-15T12:00:00Z"
        })
    };
    let shown = sessions(&[item("main"), item("work")], &talk(), PageLayout { columns: None, colour: LogColour::Off });
    let names: Vec<&str> = shown.iter().map(|line| line.get(..24).unwrap_or_default()).collect();
    assert_eq!(names, ["  NAME  AGENT    TURNS  ", "* main  default      3  ", "  work  default      3  "]);
    assert!(shown[1].contains("2026-11-1"), "{shown:?}");
    assert_eq!(
        unknown_name("conversation", "wrok", &["work".into()]),
        "there is no conversation wrok: did you mean work?"
    );
}

#[test]
fn tools_are_a_line_each_or_the_whole_of_one() {
    let items = [
        json!({"name": "ls", "description": "Lists a folder.\nMore."}),
        json!({"name": "read", "description": "Reads a file of any length there is."}),
    ];
    assert_eq!(tools(&items, None, 30).unwrap(), ["ls    Lists a folder.", "read  Reads a file of any le…"]);
    assert_eq!(tools(&items, Some("ls"), 30).unwrap(), ["Lists a folder.", "More."]);
    assert_eq!(tools(&items, Some("reed"), 30).unwrap_err(), "there is no tool reed: did you mean read?");
}

#[test]
fn usage_tells_what_budgets_leave() {
    let facts = ChatFacts { tokens: 1_500, cost: 2.5, ..ChatFacts::default() };
    let budget = json!({
        "session": {"used": 1500, "reserved": 0, "limit": null},
        "daily": {"used": 1500, "reserved": 0, "limit": 10_000},
        "monthly": {"used": 0, "reserved": 0, "limit": null},
    });
    assert_eq!(
        usage(&facts, &budget),
        [
            "this chat: 1,500 tokens, $2.50",
            "this conversation: 1,500 tokens, no limit",
            "today: 1,500 of 10,000 tokens, 8,500 left"
        ]
    );
}
