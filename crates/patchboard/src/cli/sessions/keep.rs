//! `patchboard sessions search`, `rename`, `hide` and `fork`.

use clap::Args;
use serde_json::{Value, json};

use super::super::ServerTarget;
use super::super::failure::CommandFailure;
use super::{keys, lines, unknown_session};
use crate::client::GatewayClient;
use crate::output;
use crate::output::{Column, TableCell, TextRole, TextTable, clock};

#[derive(Debug, Args)]
pub(super) struct SearchArgs {
    /// Words that the turn contains, all of them.
    #[arg(required = true)]
    words: Vec<String>,
    #[command(flatten)]
    target: ServerTarget,
    /// How many at most.
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// Print JSON, one turn a line.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct RenameArgs {
    /// The session's key, as `sessions list` shows it.
    session: String,
    /// The new title.
    title: String,
    #[command(flatten)]
    target: ServerTarget,
}

#[derive(Debug, Args)]
pub(super) struct HideArgs {
    /// The session's key, as `sessions list --hidden` shows it.
    session: String,
    #[command(flatten)]
    target: ServerTarget,
    /// Put it back into the list.
    #[arg(long)]
    show: bool,
}

#[derive(Debug, Args)]
pub(super) struct ForkArgs {
    /// The session's key, as `sessions list` shows it.
    session: String,
    #[command(flatten)]
    target: ServerTarget,
    /// The last turn to copy, by its number in `sessions show --json`; without it all turns are copied.
    #[arg(long, value_name = "N")]
    turn: Option<u64>,
    /// The last turn to copy, by its run.
    #[arg(long, value_name = "ID", conflicts_with = "turn")]
    run: Option<String>,
}

pub(super) async fn search(args: SearchArgs) -> Result<(), CommandFailure> {
    let SearchArgs { words, target, limit, json } = args;
    let params = json!({ "query": words.join(" "), "limit": limit.min(500) });
    let found = target.connect().await?.list("session.search", params, limit).await?;
    if json {
        lines(&found);
        return Ok(());
    }
    if found.is_empty() {
        output::eprint_line("no turn contains all of these words");
        return Ok(());
    }
    let mut table = TextTable::new([
        Column::whole("SESSION"),
        Column::number("TURN"),
        Column::whole("WHEN"),
        Column::wrap("PASSAGE"),
    ]);
    for turn in &found {
        let text = |key: &str| turn.get(key).and_then(Value::as_str).unwrap_or_default();
        table.push_row([
            TableCell::painted(text("session"), TextRole::Name),
            turn.get("turn").map(ToString::to_string).unwrap_or_default().into(),
            clock::local(text("at"), clock::MINUTE).into(),
            text("excerpt").into(),
        ]);
    }
    table.print();
    Ok(())
}

pub(super) async fn rename(args: RenameArgs) -> Result<(), CommandFailure> {
    let mut client = args.target.connect().await?;
    let params = json!({ "session": args.session, "title": args.title });
    let renamed = call(&mut client, "session.rename", params, &args.session).await?;
    let title = renamed.get("title").and_then(Value::as_str).unwrap_or_default();
    output::print_line(&output::one_line(&format!("renamed: {title}")));
    Ok(())
}

pub(super) async fn hide(args: HideArgs) -> Result<(), CommandFailure> {
    let mut client = args.target.connect().await?;
    let params = json!({ "session": args.session, "hidden": !args.show });
    call(&mut client, "session.hide", params, &args.session).await?;
    output::print_line(if args.show { "shown" } else { "hidden" });
    Ok(())
}

pub(super) async fn fork(args: ForkArgs) -> Result<(), CommandFailure> {
    let mut client = args.target.connect().await?;
    let params = json!({ "session": args.session, "turn": args.turn, "run": args.run });
    let forked = call(&mut client, "session.fork", params, &args.session).await?;
    output::print_line(&output::one_line(forked.get("session").and_then(Value::as_str).unwrap_or_default()));
    Ok(())
}

/// For an unknown session the failure names the nearest known one.
async fn call(client: &mut GatewayClient, method: &str, params: Value, session: &str) -> Result<Value, CommandFailure> {
    match client.call(method, params).await {
        Ok(answer) => Ok(answer),
        Err(error) => match keys(client).await {
            Ok(known) if !known.iter().any(|key| key == session) => Err(unknown_session(client, session).await),
            Ok(_) | Err(_) => Err(error.into()),
        },
    }
}
