//! Methods about accounts, their facts, and conversations as a user keeps them.

use patchboard_core::command::{
    AccountRef, CorrectFact, DescribeAccount, ExportAccount, ExportPage, ExportSection, ForgetAccount, ForgetFact,
    ForkPoint, ForkSession, HideSession, ListAccounts, ListFacts, PageRequest, RenameSession, SearchTurns,
};
use patchboard_core::event::RunOutcome;
use patchboard_core::id::MemoryOwner;
use patchboard_core::reply::{AccountReport, ForgottenAccount};
use patchboard_core::store::{
    AccountContents, AccountRow, AccountTurn, FactRecord, FoundTurn, HiddenSessions, PageCursor, ResultPage, RunRow,
    RunState,
};
use serde_json::{Value, json};

use super::super::wire;
use super::{GatewayRequest, call, done, fact_item, history, list, page, parse_optional_params, parse_params, session};

/// `None` for a method that is not one of these.
pub(super) fn request(method: &str, params: &str) -> Option<GatewayRequest> {
    Some(match method {
        "memory.accounts" => parse_optional_params(method, params, |query: wire::ListParams| {
            Ok(call(ListAccounts(page(query)), |page| list(page, |row| account_item(&row))))
        }),
        "memory.list" => parse_params(method, params, |query: wire::FactList| {
            let page = PageRequest::new(query.limit, query.cursor.map(PageCursor));
            let account = AccountRef { channel: query.channel, account: query.account };
            let command = ListFacts { account, with_superseded: query.superseded, page };
            Ok(call(command, |page| list(page, |record| record_item(&record))))
        }),
        "memory.correct" => parse_params(method, params, |correct: wire::FactCorrection| {
            let account = AccountRef { channel: correct.channel, account: correct.account };
            let command = CorrectFact { account, fact: correct.fact, object: correct.object };
            Ok(call(command, |record| record_item(&record)))
        }),
        "memory.forget" => parse_params(method, params, |forget: wire::FactParams| {
            let account = AccountRef { channel: forget.channel, account: forget.account };
            Ok(call(ForgetFact { account, fact: forget.fact }, done))
        }),
        "memory.export" => parse_params(method, params, export),
        "account.describe" => parse_params(method, params, |about: wire::AccountParams| {
            let account = AccountRef { channel: about.channel, account: about.account };
            Ok(call(DescribeAccount { account }, |report| account_report(&report)))
        }),
        "account.forget" => parse_params(method, params, |about: wire::AccountParams| {
            let account = AccountRef { channel: about.channel, account: about.account };
            Ok(call(ForgetAccount { account }, |forgotten| forgotten_account(&forgotten)))
        }),
        "session.rename" => parse_params(method, params, |rename: wire::SessionRename| {
            let title = rename.title;
            Ok(call(RenameSession { session: session(rename.about)?, title }, |title| json!({ "title": title })))
        }),
        "session.hide" => parse_params(method, params, |hide: wire::SessionHide| {
            let hidden = hide.hidden.unwrap_or(true);
            Ok(call(HideSession { session: session(hide.about)?, hidden }, done))
        }),
        "session.search" => parse_params(method, params, |search: wire::SessionSearch| {
            let page = PageRequest::new(search.limit, search.cursor.map(PageCursor));
            Ok(call(SearchTurns { text: search.query, page }, |page| list(page, |turn| found_item(&turn))))
        }),
        "session.fork" => parse_params(method, params, |fork: wire::SessionFork| {
            let after = match (fork.turn, fork.run) {
                (None, None) => ForkPoint::LastTurn,
                (Some(turn), None) => ForkPoint::Turn(turn),
                (None, Some(run)) => ForkPoint::Run(run.parse().map_err(|_| "`run` is not a run's id".to_owned())?),
                (Some(_), Some(_)) => return Err("at most one of `turn` and `run` is accepted".to_owned()),
            };
            let command = ForkSession { session: session(fork.about)?, after };
            Ok(call(command, |key| json!({ "session": key.as_str() })))
        }),
        _ => return None,
    })
}

pub(super) fn hidden_sessions(named: Option<&str>) -> Result<HiddenSessions, String> {
    match named {
        None | Some("no") => Ok(HiddenSessions::LeftOut),
        Some("also") => Ok(HiddenSessions::Included),
        Some("only") => Ok(HiddenSessions::Only),
        Some(other) => Err(format!("`hidden` is one of no, also, only; not {other}")),
    }
}

fn export(export: wire::AccountExport) -> Result<GatewayRequest, String> {
    let section = match export.section.as_str() {
        "facts" => ExportSection::Facts,
        "sessions" => ExportSection::Sessions,
        "turns" => ExportSection::Turns,
        "runs" => ExportSection::Runs,
        other => return Err(format!("`section` is one of facts, sessions, turns, runs; not {other}")),
    };
    let account = AccountRef { channel: export.channel, account: export.account };
    let page = PageRequest::new(export.limit, export.cursor.map(PageCursor));
    Ok(call(ExportAccount { account, section, page }, export_page))
}

fn export_page(page: ExportPage) -> Value {
    match page {
        ExportPage::Facts(page) => list(page, |record| record_item(&record)),
        ExportPage::Sessions(page) => list(page, |row| super::session_item(&row)),
        ExportPage::Turns(page) => list(page, turn_item),
        ExportPage::Runs(page) => list(page, |run| run_item(&run)),
    }
}

fn account_item(row: &AccountRow) -> Value {
    let (channel, account) = names(&row.account);
    json!({
        "channel": channel, "account": account, "sessions": row.sessions, "turns": row.turns, "facts": row.facts,
        "used_at": row.used_at.map(|at| at.to_string()),
    })
}

fn names(owner: &MemoryOwner) -> (String, String) {
    owner.parts().unwrap_or_default()
}

fn record_item(record: &FactRecord) -> Value {
    let mut item = fact_item(&record.fact);
    if let Some(fields) = item.as_object_mut() {
        fields.remove("score");
        fields.insert("fact".into(), record.fact.number.into());
        fields.insert("run".into(), record.run.map(|run| run.to_string()).into());
        fields.insert("supersedes".into(), record.supersedes.into());
        if let Some(superseded) = record.superseded {
            fields.insert("superseded_at".into(), superseded.at.to_string().into());
            fields.insert("superseded_by".into(), superseded.by.into());
        }
    }
    item
}

fn contents(contents: &AccountContents) -> Value {
    json!({
        "sessions": contents.sessions, "turns": contents.turns, "runs": contents.runs, "facts": contents.facts,
        "superseded_facts": contents.superseded_facts,
    })
}

fn account_report(report: &AccountReport) -> Value {
    let mut item = contents(&report.contents);
    if let Some(fields) = item.as_object_mut() {
        fields.insert("live_runs".into(), report.live_runs.into());
    }
    item
}

fn forgotten_account(forgotten: &ForgottenAccount) -> Value {
    let mut item = contents(&forgotten.contents);
    if let Some(fields) = item.as_object_mut() {
        fields.insert("deliveries".into(), forgotten.deliveries.into());
        fields.insert("cancelled_runs".into(), forgotten.cancelled_runs.into());
    }
    item
}

fn turn_item(turn: AccountTurn) -> Value {
    let AccountTurn { session, turn } = turn;
    let (number, run, at) = (turn.number, turn.run.to_string(), turn.at.to_string());
    let mut messages = history(ResultPage { items: vec![turn], next: None });
    let messages = messages.get_mut("items").map(Value::take).unwrap_or_default();
    json!({ "session": session.as_str(), "turn": number, "run": run, "at": at, "messages": messages })
}

fn run_item(run: &RunRow) -> Value {
    let outcome = match run.state {
        RunState::Running => "running",
        RunState::Ended(RunOutcome::Completed) => "completed",
        RunState::Ended(RunOutcome::Failed) => "failed",
        RunState::Ended(RunOutcome::Cancelled) => "cancelled",
        RunState::Ended(RunOutcome::Interrupted) => "interrupted",
    };
    json!({
        "run": run.run.to_string(), "session": run.session.as_str(), "id": &*run.client_id,
        "started_at": run.started_at.to_string(), "outcome": outcome, "input": &*run.input,
    })
}

fn found_item(found: &FoundTurn) -> Value {
    json!({
        "session": found.session.as_str(), "title": found.title.as_deref(), "turn": found.turn,
        "run": found.run.to_string(), "at": found.at.to_string(), "excerpt": found.excerpt,
    })
}
