use super::*;

fn parsed(line: &str) -> Result<Options, String> {
    Options::parse(line.split_whitespace().map(str::to_owned)).map_err(|error| format!("{error:#}"))
}

#[test]
fn every_flag_is_understood() {
    assert_eq!(parsed(""), Ok(Options::default()));
    assert_eq!(
        parsed(
            "--only ping --only start --seconds 2 --json out.json --turns 100000 --growth 1000000 --against old --pairs 9"
        ),
        Ok(Options {
            only: vec!["ping".to_owned(), "start".to_owned()],
            seconds: 2,
            json: Some("out.json".into()),
            turns: 100_000,
            growth: 1_000_000,
            against: Some("old".into()),
            pairs: 9,
        })
    );
}

#[test]
fn what_is_handed_on_reads_back_the_same() {
    for line in
        ["", "--only ping --only size", "--json out.json --seconds 9", "--turns 5000 --growth 6000", "--against old"]
    {
        let options = parsed(line).expect(line);
        assert_eq!(Options::parse(options.words().into_iter()).expect(line), options);
    }
}

#[test]
fn pairs_are_measured_shorter_unless_told_otherwise() {
    let seconds = |line: &str| parsed(line).expect(line).seconds;
    assert_eq!([seconds(""), seconds("--against old"), seconds("--seconds 3 --against old")], [4, 1, 3]);
}

#[test]
fn a_first_word_chooses_all_rows_that_begin_with_it() {
    let chosen = |line: &str| -> Vec<&str> {
        let options = parsed(line).expect(line);
        ROWS.iter().copied().filter(|row| options.chooses(row)).collect()
    };
    assert_eq!(chosen("").len(), ROWS.len());
    assert_eq!(chosen("--only ping"), ["ping"]);
    assert_eq!(chosen("--only runs-ping --only size"), ["size", "runs-ping"]);
    assert_eq!(chosen("--only runs"), ["runs-ping", "runs-list", "runs-first", "runs-streams", "runs-resume"]);
    assert_eq!(
        chosen("--only bridge"),
        ["bridge-ping", "bridge-tool", "bridge-worker", "bridge-binary", "bridge-replaced"]
    );
}

#[test]
fn mistakes_are_named() {
    for (line, part) in [
        ("--fast", "unknown argument of `bench`: `--fast`"),
        ("--only", "`--only` needs a value"),
        ("--only pong", "no row is called `pong`; there are ping, "),
        ("--only run", "no row is called `run`; there are ping, "),
        ("--only runs-", "no row is called `runs-`; there are ping, "),
        ("--seconds soon", "`soon` is not a number"),
        ("--pairs 3", "3 is out of range: 7 to 101 are accepted"),
        ("--seconds 0", "0 is out of range: 1 to 60 are accepted"),
    ] {
        let message = parsed(line).expect_err(line);
        assert!(message.contains(part), "`{line}` answered: {message}");
    }
}
