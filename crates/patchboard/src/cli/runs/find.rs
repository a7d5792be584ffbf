//! `patchboard runs list` and `runs show`: finds runs of a server and shows what they did.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cli::failure::CommandFailure;
use crate::cli::moment;
use crate::cli::run::live_display::format_count;
use crate::cli::{ServerTarget, block_on};
use crate::client::GatewayClient;
use crate::output::{self, Column, TableCell, TextRole, TextTable, clock};

/// Events read by one request of `runs show --events`.
const EVENTS_PER_PAGE: usize = 500;
/// Most characters of an event's data in the list of `runs show --events`; `--json` shows all.
const SHOWN_DATA: usize = 160;

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    target: ServerTarget,
    /// Only runs in this state.
    #[arg(long, value_enum)]
    state: Option<StateName>,
    /// Only runs of this agent.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only runs with this strategy: react, dup, tot or got.
    #[arg(long, value_name = "NAME")]
    strategy: Option<String>,
    /// Only runs that came in here: gateway, runs, hub, bridge, mcp or webhook.
    #[arg(long, value_name = "NAME")]
    surface: Option<String>,
    /// Only runs that this caller started, as the list shows it.
    #[arg(long, value_name = "CALLER")]
    owner: Option<String>,
    /// Only runs of this session, as `sessions list` shows it.
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
    /// Only runs that started at this moment or later: a day such as 2026-11-01, or a time such as
    /// 2026-11-01T08:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    since: Option<Timestamp>,
    /// Only runs that started before this moment.
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    until: Option<Timestamp>,
    /// Only runs whose title contains this.
    #[arg(long, value_name = "WORDS")]
    text: Option<String>,
    /// How many at most, the newest.
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Print JSON, one run a line.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StateName {
    /// Under way.
    Running,
    /// Under way, and waiting for an answer.
    Waiting,
    /// Ended, however.
    Ended,
    Completed,
    Failed,
    Cancelled,
    /// Cut off by the end of the server.
    Interrupted,
}

impl StateName {
    fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Ended => "ended",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct ShowRunArgs {
    /// The run, as `runs list` shows it, or the id its client gave it; of several the newest.
    id: String,
    #[command(flatten)]
    target: ServerTarget,
    /// Show its events too.
    #[arg(long)]
    events: bool,
    /// Print JSON; with --events only the events, one a line.
    #[arg(long)]
    json: bool,
}

pub(super) fn list(args: ListArgs) -> Result<ExitCode, CommandFailure> {
    block_on(async move {
        let params = json!({
            "state": args.state.map(StateName::word), "agent": args.agent, "strategy": args.strategy,
            "surface": args.surface, "owner": args.owner, "session": args.session,
            "since": args.since.map(|since| since.to_string()), "until": args.until.map(|until| until.to_string()),
            "text": args.text, "limit": args.limit.clamp(1, 500),
        });
        let runs = args.target.connect().await?.list("run.list", params, args.limit).await?;
        if args.json {
            runs.iter().for_each(|run| output::print_line(&run.to_string()));
        } else {
            show_list(&runs);
        }
        Ok(ExitCode::SUCCESS)
    })
}

pub(super) fn show(args: ShowRunArgs) -> Result<ExitCode, CommandFailure> {
    block_on(async move {
        let mut client = args.target.connect().await?;
        let run = find(&mut client, &args.id).await?;
        if !args.json {
            show_run(&run);
        } else if !args.events {
            output::print_line(&run.to_string());
        }
        if args.events {
            show_events(&mut client, &run, args.json).await?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// By the run's own id, or by the id its client gave it.
async fn find(client: &mut GatewayClient, id: &str) -> Result<Value, CommandFailure> {
    let unknown = || {
        let id = output::one_line(id);
        CommandFailure::failed(format!("no run is kept under the id `{id}`"))
            .hint("`patchboard runs list` shows all that are")
    };
    if id.parse::<patchboard_core::id::RunId>().is_ok() {
        // The server says the same of runs that it does not have and of those of others.
        return client.call("run.describe", json!({ "run": id })).await.map_err(|_| unknown());
    }
    let found = client.list("run.list", json!({ "id": id, "limit": 1 }), 1).await?;
    found.into_iter().next().ok_or_else(unknown)
}

fn show_list(runs: &[Value]) {
    if runs.is_empty() {
        return output::eprint_line("no run is like that");
    }
    let columns = [
        Column::whole("RUN"),
        Column::whole("STATE"),
        Column::whole("STARTED"),
        Column::whole("AGENT"),
        Column::number("TOKENS"),
        Column::number("COST"),
        Column::cut("TITLE"),
    ];
    let mut table = TextTable::new(columns);
    for run in runs {
        table.push_row([
            TableCell::painted(text(run, "run"), TextRole::Name),
            text(run, "state").into(),
            clock::local(text(run, "started_at"), clock::MINUTE).into(),
            agent(run).into(),
            format_count(count(run, "input_tokens") + count(run, "output_tokens")).into(),
            cost(run).into(),
            text(run, "title").into(),
        ]);
    }
    table.print();
}

fn show_run(run: &Value) {
    let line = |name: &str, value: &str| {
        if !value.is_empty() {
            output::print_line(&format!("{name:<9} {}", output::one_line(value)));
        }
    };
    let time = |key| match text(run, key) {
        "" => String::new(),
        time => clock::local(time, clock::SECOND),
    };
    line("run", text(run, "run"));
    line("id", text(run, "id"));
    line("title", text(run, "title"));
    line("state", text(run, "state"));
    line("started", &time("started_at"));
    line("ended", &time("ended_at"));
    line("agent", &agent(run));
    line("model", text(run, "model"));
    let (calls, input, output) = (count(run, "model_calls"), count(run, "input_tokens"), count(run, "output_tokens"));
    let tokens = format!("{} in, {} out", format_count(input), format_count(output));
    line("took", &format!("{calls} model calls, {tokens}, {}", cost(run)));
    line("session", text(run, "session"));
    line("from", &format!("{} over {}", text(run, "owner"), text(run, "surface")));
    line("events", &count(run, "last_seq").to_string());
    for wait in run.get("waits_for").and_then(Value::as_array).into_iter().flatten() {
        let call = format!("{} {}", text(wait, "name"), wait.get("input").unwrap_or(&Value::Null));
        line("waits for", &format!("approval {} of {call}", text(wait, "approval_id")));
    }
}

async fn show_events(client: &mut GatewayClient, run: &Value, json: bool) -> Result<(), CommandFailure> {
    let mut after = json!(0);
    loop {
        let params = json!({ "run": text(run, "run"), "after": after, "limit": EVENTS_PER_PAGE });
        let page = client.call("run.events", params).await?;
        let items = page.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for item in items {
            output::print_line(&if json { item.to_string() } else { event_line(item) });
        }
        after = page.get("next_after").cloned().unwrap_or_default();
        // A run under way names where to go on although nothing more is stored yet.
        if after.is_null() || items.is_empty() {
            return Ok(());
        }
    }
}

/// Number, time, node, kind and the beginning of the data.
fn event_line(item: &Value) -> String {
    let time = clock::local(text(item, "at"), clock::SECOND);
    let node = item.get("node").map_or_else(String::new, |node| format!("#{node}"));
    let data = item.get("data").unwrap_or(&Value::Null);
    let shown = match data.get("pieces").and_then(Value::as_array) {
        Some(pieces) => pieces.iter().filter_map(Value::as_str).collect::<String>(),
        None => data.to_string(),
    };
    let shown = patchboard_core::text::cut_chars(&shown, SHOWN_DATA).into_owned();
    let line = format!("{:>6} {time} {node:>4} {:<18} {shown}", count(item, "seq"), text(item, "event"));
    output::one_line(line.trim_end())
}

/// The agent, and its strategy where that is not the usual one.
fn agent(run: &Value) -> String {
    match text(run, "strategy") {
        "react" | "" => text(run, "agent").to_owned(),
        strategy => format!("{} ({strategy})", text(run, "agent")),
    }
}

fn cost(run: &Value) -> String {
    format!("${:.4}", run.get("cost_usd").and_then(Value::as_f64).unwrap_or(0.0))
}

fn count(item: &Value, key: &str) -> u64 {
    item.get(key).and_then(Value::as_u64).unwrap_or(0)
}

fn text<'a>(item: &'a Value, key: &str) -> &'a str {
    item.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
