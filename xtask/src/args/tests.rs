use super::*;

fn parsed(line: &str) -> Result<Command, String> {
    parse(line.split_whitespace().map(str::to_owned)).map_err(|error| error.to_string())
}

#[test]
fn every_verb_and_flag_is_understood() {
    assert_eq!(parsed(""), Ok(Command::Help));
    assert_eq!(parsed("test --help"), Ok(Command::Help));
    assert_eq!(parsed("test"), Ok(Command::Test(Options::default())));
    assert_eq!(
        parsed("test --fast --keep-going"),
        Ok(Command::Test(Options { fast: true, keep_going: true, ..Options::default() }))
    );
    assert_eq!(
        parsed("test --only fmt --only e2e"),
        Ok(Command::Test(Options { only: vec![Step::Fmt, Step::E2e], ..Options::default() }))
    );
    assert_eq!(
        parsed("test --side-by-side 3"),
        Ok(Command::Test(Options { side_by_side: Some(3), ..Options::default() }))
    );
    assert_eq!(parsed("tidy"), Ok(Command::Tidy(Scope::Everything)));
    assert_eq!(parsed("tidy --static"), Ok(Command::Tidy(Scope::WithoutCompiling)));
    assert_eq!(parsed("codegen"), Ok(Command::Codegen(Mode::Write)));
    assert_eq!(parsed("codegen --check"), Ok(Command::Codegen(Mode::Check)));
    let plugins = |commit, test| Ok(Command::Plugins(plugins::Options { commit, test }));
    assert_eq!(parsed("plugins"), plugins(false, false));
    assert_eq!(parsed("plugins --commit"), plugins(true, false));
    assert_eq!(parsed("plugins --test"), plugins(false, true));
    assert_eq!(
        parsed("bench --seconds 2"),
        Ok(Command::Bench(bench::Options { seconds: 2, ..bench::Options::default() }))
    );
    assert!(matches!(parsed("bench routing desk.json"), Ok(Command::BenchRouting(_))));
}

#[test]
fn mistakes_are_named() {
    for (line, part) in [
        ("tset", "unknown command `tset`"),
        ("test --slow", "unknown argument of `test`: `--slow`"),
        ("test --only", "`--only` needs the name of a step"),
        ("test --only lint", "no step is called `lint`"),
        ("test --side-by-side many", "`--side-by-side` takes 1 to 32: `many`"),
        ("test --side-by-side 0", "`--side-by-side` takes 1 to 32: `0`"),
        ("test --fast --only fmt", "give one of them"),
        ("bench --slow", "unknown argument of `bench`: `--slow`"),
        ("bench routing", "`bench routing` needs a file"),
        ("plugins --all", "unknown argument of `plugins`: `--all`"),
        ("plugins --test --commit", "give one of them"),
        ("tidy --fast", "unknown argument of `tidy`: `--fast`"),
    ] {
        let message = parsed(line).expect_err(line);
        assert!(message.contains(part), "`{line}` answered: {message}");
    }
}

#[test]
fn the_help_names_every_step() {
    for step in Step::ALL {
        assert!(HELP.contains(step.name()), "help lacks `{}`", step.name());
    }
}

#[test]
fn the_help_names_every_row() {
    for row in bench::ROWS {
        assert!(HELP.contains(row), "help lacks `{row}`");
    }
}
