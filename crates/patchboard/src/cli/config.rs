//! `patchboard config`: checks, shows and documents the configuration.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use patchboard_config::show::ShowOrigin;
use patchboard_config::{report, sample, schema, show};

use super::ConfigLocation;
use super::failure::CommandFailure;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    verb: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Report every problem at once, each with its place and a hint.
    Check {
        #[command(flatten)]
        place: ConfigLocation,
        /// Print one JSON object: `ok`, `files` and `problems`.
        #[arg(long)]
        json: bool,
    },
    /// Show the configuration in force. Secrets are shown as references only.
    Show {
        #[command(flatten)]
        place: ConfigLocation,
        /// Say for each value where it comes from.
        #[arg(long)]
        origin: bool,
    },
    /// Print the JSON Schema of patchboard.toml.
    Schema,
    /// Print a patchboard.toml with every key, its default and what it does.
    Sample,
}

pub(super) fn run(args: ConfigArgs) -> Result<ExitCode, CommandFailure> {
    match args.verb {
        ConfigCommand::Check { place, json } => {
            let report = report::check(place.request()?);
            output::print_line(&if json { report.to_json() } else { report.to_string() });
            Ok(if report.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(2) })
        }
        ConfigCommand::Show { place, origin } => {
            let loaded = place.load()?;
            output::print_line(show::show(&loaded, if origin { ShowOrigin::Yes } else { ShowOrigin::No }).trim_end());
            Ok(ExitCode::SUCCESS)
        }
        ConfigCommand::Schema => {
            output::print_line(schema::schema_text().trim_end());
            Ok(ExitCode::SUCCESS)
        }
        ConfigCommand::Sample => {
            output::print_line(sample::sample().trim_end());
            Ok(ExitCode::SUCCESS)
        }
    }
}
