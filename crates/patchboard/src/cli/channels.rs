//! `patchboard channels`: shows channels and their deliveries.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::failure::CommandFailure;
use super::{ServerTarget, block_on};
use crate::output;
use crate::output::{Column, TableCell, TextRole, TextTable, clock};

#[derive(Debug, Args)]
pub(crate) struct ChannelsArgs {
    #[command(subcommand)]
    verb: ChannelsCommand,
}

#[derive(Debug, Subcommand)]
enum ChannelsCommand {
    /// List the configured channels.
    List(ListArgs),
    /// List messages of channels and what became of their answers, the newest first.
    Deliveries(DeliveriesArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    target: ServerTarget,
    /// Print JSON, one channel a line.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct DeliveriesArgs {
    #[command(flatten)]
    target: ServerTarget,
    /// Only those of this channel.
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// Only those in this state: received, answered, sent or failed.
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// How many at most.
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Print JSON, one delivery a line.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: ChannelsArgs) -> Result<ExitCode, CommandFailure> {
    match args.verb {
        ChannelsCommand::List(args) => block_on(list(args)),
        ChannelsCommand::Deliveries(args) => block_on(deliveries(args)),
    }
}

async fn list(args: ListArgs) -> Result<ExitCode, CommandFailure> {
    let channels = args.target.connect().await?.list("channel.list", json!({}), usize::MAX).await?;
    if args.json {
        channels.iter().for_each(|channel| output::print_line(&channel.to_string()));
    } else if channels.is_empty() {
        output::eprint_line("no channel is configured: [channels.NAME] adds one");
    } else {
        let columns = [Column::whole("NAME"), Column::whole("PLUGIN"), Column::number("UNANSWERED")];
        let mut table = TextTable::new(columns);
        for channel in &channels {
            let number = |key: &str| channel.get(key).and_then(Value::as_u64).unwrap_or(0);
            table.push_row([
                TableCell::painted(text(channel, "name"), TextRole::Name),
                text(channel, "plugin").into(),
                format!("{} of {}", number("unanswered"), number("max_unanswered")).into(),
            ]);
        }
        table.print();
    }
    Ok(ExitCode::SUCCESS)
}

async fn deliveries(args: DeliveriesArgs) -> Result<ExitCode, CommandFailure> {
    let params = json!({ "channel": args.channel, "state": args.state, "limit": args.limit.min(500) });
    let deliveries = args.target.connect().await?.list("delivery.list", params, args.limit).await?;
    if args.json {
        deliveries.iter().for_each(|delivery| output::print_line(&delivery.to_string()));
    } else if deliveries.is_empty() {
        output::eprint_line("there are no such deliveries");
    } else {
        let columns =
            [Column::whole("RECEIVED"), Column::whole("CHANNEL"), Column::whole("STATE"), Column::whole("ID")];
        let mut table = TextTable::new(columns);
        for delivery in &deliveries {
            table.push_row([
                clock::local(text(delivery, "received_at"), clock::SECOND).into(),
                TableCell::painted(text(delivery, "channel"), TextRole::Name),
                text(delivery, "state").into(),
                text(delivery, "id").into(),
            ]);
            if !text(delivery, "problem").is_empty() {
                table.add_remark(text(delivery, "problem"));
            }
        }
        table.print();
    }
    Ok(ExitCode::SUCCESS)
}

fn text<'a>(item: &'a Value, key: &str) -> &'a str {
    item.get(key).and_then(Value::as_str).unwrap_or_default()
}
