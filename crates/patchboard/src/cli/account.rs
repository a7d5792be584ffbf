//! `patchboard account forget`: deletes everything that is stored of an account.

use std::io::{IsTerminal, stdin};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::failure::CommandFailure;
use super::memory::AccountName;
use super::{ServerTarget, block_on};
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct AccountArgs {
    #[command(subcommand)]
    verb: AccountCommand,
}

#[derive(Debug, Subcommand)]
enum AccountCommand {
    /// Delete everything stored of an account: conversations, runs, facts, search index, names. Its active runs are
    /// cancelled first. `patchboard memory export` writes it to a file before.
    Forget {
        /// The account, as `patchboard memory accounts` shows it.
        #[arg(value_name = "CHANNEL/ACCOUNT")]
        account: AccountName,
        #[command(flatten)]
        target: ServerTarget,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
}

pub(super) fn run(args: AccountArgs) -> Result<ExitCode, CommandFailure> {
    let AccountCommand::Forget { account, target, yes } = args.verb;
    block_on(async move {
        let mut client = target.connect().await?;
        let report = client.call("account.describe", account.params()).await?;
        output::eprint_line(&format!("{}: {}", account.shown(), contents(&report)));
        match number(&report, "live_runs") {
            0 => {}
            1 => output::eprint_line("1 run is active and will be cancelled"),
            some => output::eprint_line(&format!("{some} runs are active and will be cancelled")),
        }
        if !yes && !confirmed(&account)? {
            return Err(CommandFailure::failed("nothing was deleted"));
        }
        let forgotten = client.call("account.forget", account.params()).await?;
        output::print_line(&format!("forgot {}: {}", account.shown(), contents(&forgotten)));
        Ok(ExitCode::SUCCESS)
    })
}

/// The name must be typed: a key pressed by mistake deletes nothing.
fn confirmed(account: &AccountName) -> Result<bool, CommandFailure> {
    if !stdin().is_terminal() {
        let failure = CommandFailure::unusable("this deletes for good, and there is no terminal to ask at");
        return Err(failure.hint("add --yes if that is what you want"));
    }
    output::eprint(&format!("This cannot be undone. Type `{}` to delete it: ", account.shown()));
    let mut line = String::new();
    stdin().read_line(&mut line)?;
    Ok(line.trim() == account.shown())
}

fn contents(report: &Value) -> String {
    let parts = [
        ("sessions", "session", "sessions"),
        ("turns", "turn", "turns"),
        ("runs", "run", "runs"),
        ("facts", "fact", "facts"),
        ("superseded_facts", "superseded fact", "superseded facts"),
    ];
    let shown = parts.map(|(key, one, many)| match number(report, key) {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    });
    shown.join(", ")
}

fn number(report: &Value, key: &str) -> u64 {
    report.get(key).and_then(Value::as_u64).unwrap_or(0)
}
