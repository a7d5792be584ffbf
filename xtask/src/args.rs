//! The command line, read by hand: six verbs do not pay for a parser.

use anyhow::{Context, bail};

use crate::bench;
use crate::codegen::Mode;
use crate::plugins;
use crate::test::{Options, Step};
use crate::tidy::Scope;

pub(crate) const HELP: &str = "\
Usage: cargo xtask <command>

  test      every check and test, as run before a merge
              --fast         leave out the release build and the end-to-end drivers
              --keep-going   run the remaining steps after one has failed
              --only STEP    run this step alone (may be repeated):
                             fmt, clippy, tidy, plugins, tests, build, e2e
              --side-by-side N
                             how many files of end-to-end tests run at a time
  tidy      dependency arrows, licences, file sizes, links, stale generated files
              --static       do not compile anything: leave out the generated files' own tests
  codegen   rewrite the generated files
              --check        only say which are stale
  plugins   build the plugins into target/plugins
              --test         format, lint and test their sources, and compare plugins/built
              --commit       copy those that are for people to plugins/built
  bench     build as for publishing and measure, beside bare baselines
              --only ROW     measure this row alone (may be repeated):
                             ping, turns, tokens, streams, start, memory, returned, size, growth, bash, hub,
                             runs-ping, runs-list, runs-first, runs-streams, runs-resume,
                             or runs for all of these five,
                             bridge-ping, bridge-tool, bridge-worker, bridge-binary, bridge-replaced,
                             or bridge for all five,
                             plugin, hostile
              --against BINARY
                             measure this other build too, by turns, and show how the two compare
              --pairs N      how often each of the two is measured (7)
              --seconds N    time for each rate, and for its baseline again (4; 1 against another build)
              --turns N      turns after which memory is looked at
              --growth N     stored events beside which a turn is timed
              --json PATH    where to write the figures (target/bench-results.json)
  bench routing FILE...
            how well the utterances of these files find their apps, cold and after learning
              --json PATH    where to write the figures (target/bench-routing.json)";

/// Of files of end-to-end tests; each has a server or several.
const MOST_SIDE_BY_SIDE: usize = 32;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Test(Options),
    Tidy(Scope),
    Codegen(Mode),
    Plugins(plugins::Options),
    Bench(bench::Options),
    BenchRouting(bench::routing::Options),
    /// A process that `bench` starts; of no use by hand.
    #[cfg(feature = "bench")]
    BenchPart(bench::Part),
}

pub(crate) fn parse(words: impl IntoIterator<Item = String>) -> anyhow::Result<Command> {
    let mut words = words.into_iter();
    let Some(verb) = words.next() else { return Ok(Command::Help) };
    match verb.as_str() {
        "help" | "--help" | "-h" => Ok(Command::Help),
        "test" => parse_test(words),
        "tidy" => Ok(flag(words, "tidy", "--static")?
            .map_or(Command::Tidy(Scope::Everything), |()| Command::Tidy(Scope::WithoutCompiling))),
        "codegen" => Ok(flag(words, "codegen", "--check")?
            .map_or(Command::Codegen(Mode::Write), |()| Command::Codegen(Mode::Check))),
        "plugins" => parse_plugins(words),
        "bench" => {
            let mut words = words.peekable();
            match words.next_if(|word| word == "routing") {
                Some(_) => Ok(Command::BenchRouting(bench::routing::Options::parse(words)?)),
                None => Ok(Command::Bench(bench::Options::parse(words)?)),
            }
        }
        #[cfg(feature = "bench")]
        part if part.starts_with("bench-") => Ok(Command::BenchPart(bench::Part::parse(part, words)?)),
        other => bail!("unknown command `{other}`\n\n{HELP}"),
    }
}

fn parse_test(mut words: impl Iterator<Item = String>) -> anyhow::Result<Command> {
    let mut options = Options::default();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--fast" => options.fast = true,
            "--keep-going" => options.keep_going = true,
            "--only" => {
                let name = words.next().context("`--only` needs the name of a step")?;
                options.only.push(Step::parse(&name)?);
            }
            "--side-by-side" => {
                let text = words.next().context("`--side-by-side` needs a number")?;
                let number = text.parse().ok().filter(|number| (1..=MOST_SIDE_BY_SIDE).contains(number));
                options.side_by_side =
                    Some(number.with_context(|| format!("`--side-by-side` takes 1 to {MOST_SIDE_BY_SIDE}: `{text}`"))?);
            }
            "--help" | "-h" => return Ok(Command::Help),
            other => bail!("unknown argument of `test`: `{other}`\n\n{HELP}"),
        }
    }
    if options.fast && !options.only.is_empty() {
        bail!("`--fast` and `--only` each choose the steps: give one of them");
    }
    Ok(Command::Test(options))
}

fn parse_plugins(words: impl Iterator<Item = String>) -> anyhow::Result<Command> {
    let mut options = plugins::Options::default();
    for word in words {
        match word.as_str() {
            "--commit" => options.commit = true,
            "--test" => options.test = true,
            other => bail!("unknown argument of `plugins`: `{other}`\n\n{HELP}"),
        }
    }
    if options.commit && options.test {
        bail!("`--test` compares what `--commit` would replace: give one of them");
    }
    Ok(Command::Plugins(options))
}

/// The one flag a verb knows: present, absent, or a complaint about anything else.
fn flag(words: impl Iterator<Item = String>, verb: &str, known: &str) -> anyhow::Result<Option<()>> {
    let mut seen = None;
    for word in words {
        if word != known {
            bail!("unknown argument of `{verb}`: `{word}`\n\n{HELP}");
        }
        seen = Some(());
    }
    Ok(seen)
}

#[cfg(test)]
mod tests;
