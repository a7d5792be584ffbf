//! Parses rows of runs and pages of their events.

use std::sync::Arc;

use patchboard_core::event::RunOutcome;
use patchboard_core::id::Seq;
use patchboard_core::model::TokenCount;
use patchboard_core::reply::{EventPage, PendingInput, RunReport, RunWait};
use patchboard_core::run_spec::StrategyKind;
use patchboard_core::store::{ListedRun, RunModel, RunState, RunUsage};
use serde_json::Value;

use super::{Read, approval, each, event, key, noon, number, run, text_of};

/// What is left out is the usual.
pub(super) fn report(json: &Value) -> Read<RunReport> {
    let outcome = match text_of(&json["ended"]) {
        "" => None,
        "completed" => Some(RunOutcome::Completed),
        "failed" => Some(RunOutcome::Failed),
        "cancelled" => Some(RunOutcome::Cancelled),
        "interrupted" => Some(RunOutcome::Interrupted),
        other => return Err(format!("no outcome is called `{other}`")),
    };
    let model = json["model"].as_str().map(|model| RunModel { provider: "main".into(), model: model.into() });
    Ok(RunReport {
        run: ListedRun {
            run: run(&json["run"]),
            session: key(&json["session"])?,
            principal: "local".into(),
            surface: "gateway".into(),
            client_id: text_of(&json["id"]).into(),
            agent: "default".into(),
            strategy: StrategyKind::from_name(text_of(&json["strategy"])).unwrap_or(StrategyKind::React),
            model,
            title: text_of(&json["title"]).into(),
            state: outcome.map_or(RunState::Running, RunState::Ended),
            started_at: noon()?,
            ended_at: outcome.map(|_| noon()).transpose()?,
            usage: RunUsage {
                model_calls: number(&json["calls"]),
                tokens: TokenCount { input: number(&json["input"]), output: number(&json["output"]) },
                cost_nanousd: number(&json["nanousd"]),
            },
            last_seq: Seq(number(&json["seq"])),
        },
        waits: each(&json["waits"], |wait| {
            let (run, session) = (run(&json["run"]), key(&json["session"])?);
            Ok(RunWait::Input(PendingInput { request: approval(wait)?, run, session }))
        })?,
    })
}

/// Format: `{"from": 1, "events": ["text \"Hi\"", …], "next": 2}`.
pub(super) fn events(json: &Value) -> Read<EventPage> {
    let mut next = Seq(number(&json["from"]).max(1));
    let mut events = Vec::new();
    for text in json["events"].as_array().into_iter().flatten() {
        let record = event::event(text_of(text), next)?;
        next = record.last_seq().next();
        events.push(Arc::new(record));
    }
    Ok(EventPage { events, next: json["next"].as_u64().map(Seq) })
}
