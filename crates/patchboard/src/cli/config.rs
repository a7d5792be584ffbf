//! `patchboard config`

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::failure::Failure;
use super::{Where, output};
use crate::config::show::ShowOrigin;
use crate::config::{report, sample, schema, show};

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    verb: ConfigVerb,
}

#[derive(Debug, Subcommand)]
enum ConfigVerb {
    /// Report every problem at once, each with its place and a hint.
    Check {
        #[command(flatten)]
        place: Where,
        /// Print one JSON object: `ok`, `files` and `problems`.
        #[arg(long)]
        json: bool,
    },
    /// Show the configuration in force. Secrets are shown as references only.
    Show {
        #[command(flatten)]
        place: Where,
        /// Say for each value where it comes from.
        #[arg(long)]
        origin: bool,
    },
    /// Print the JSON Schema of patchboard.toml.
    Schema,
    /// Print a patchboard.toml with every key, its default and what it does.
    Sample,
}

pub(super) fn run(args: ConfigArgs) -> Result<ExitCode, Failure> {
    match args.verb {
        ConfigVerb::Check { place, json } => {
            let report = report::check(place.request()?);
            output::line(&if json { report.to_json() } else { report.to_string() });
            Ok(if report.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(2) })
        }
        ConfigVerb::Show { place, origin } => {
            let loaded = place.load()?;
            output::line(show::show(&loaded, if origin { ShowOrigin::Yes } else { ShowOrigin::No }).trim_end());
            Ok(ExitCode::SUCCESS)
        }
        ConfigVerb::Schema => {
            output::line(schema::schema_text().trim_end());
            Ok(ExitCode::SUCCESS)
        }
        ConfigVerb::Sample => {
            output::line(sample::sample().trim_end());
            Ok(ExitCode::SUCCESS)
        }
    }
}
