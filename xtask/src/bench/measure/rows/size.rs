//! How large the program is, without symbols.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use super::Row;
use crate::bench::measure::env::Env;
use crate::bench::measure::figure::{Figure, Target, Unit};

#[derive(Debug)]
pub(super) struct Size;

impl Row for Size {
    fn name(&self) -> &'static str {
        "size"
    }

    fn about(&self) -> &'static str {
        "size of the release binary without symbols"
    }

    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>> {
        let stripped = env.folder()?.join("stripped");
        let strip = Command::new("strip").arg("-o").arg(&stripped).arg(&env.binary).status();
        let (measured, note) = match strip {
            Ok(status) if status.success() => (stripped.as_path(), "stripped"),
            Ok(_) | Err(_) => (env.binary.as_path(), "with symbols: no program called `strip` could strip it"),
        };
        Ok(vec![
            Figure::new("release binary", megabytes(measured)?, Unit::Megabytes)
                .target(Target::AtMost(45.0))
                .note(format!("{note}; {:.1} MB as built", megabytes(&env.binary)?)),
        ])
    }
}

fn megabytes(path: &Path) -> anyhow::Result<f64> {
    let metadata = std::fs::metadata(path).with_context(|| format!("cannot find {}", path.display()))?;
    Ok(metadata.len() as f64 / 1e6)
}
