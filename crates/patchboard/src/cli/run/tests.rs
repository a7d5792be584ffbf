use std::path::Path;

use clap::Parser;
use clap::error::ErrorKind;

use super::{AttachArgs, RunArgs, request};
use crate::cli::{Cli, CliCommand};

fn parsed(words: &[&str]) -> Result<RunArgs, ErrorKind> {
    let cli = Cli::try_parse_from(["patchboard", "run"].iter().chain(words)).map_err(|error| error.kind())?;
    let CliCommand::Run(args) = cli.command else { panic!("{:?}", cli.command) };
    Ok(args)
}

#[test]
fn a_message_is_one_argument_or_plain_words() {
    let message = |words: &[&str]| request(&parsed(words).unwrap(), Path::new("/")).map_err(|_| ()).unwrap().message;
    assert_eq!(message(&["-m", "two words"]), "two words");
    assert_eq!(message(&["two", "words", "--agent", "tot"]), "two words");
    assert_eq!(parsed(&[]).map(drop), Err(ErrorKind::MissingRequiredArgument));
    assert_eq!(parsed(&["-m", "a", "b"]).map(drop), Err(ErrorKind::ArgumentConflict));
}

#[test]
fn a_request_says_what_the_flags_say() {
    let plain = request(&parsed(&["hi"]).unwrap(), Path::new("/here")).map_err(|_| ()).unwrap();
    assert_eq!((plain.agent.as_str(), plain.thread_id), ("react", None));
    assert_eq!((plain.working_folder.as_deref(), plain.grant_folder), (Some("/here"), true));
    assert!(!plain.detach && !plain.got_adaptive && !plain.verbose);
    assert!(plain.id.starts_with("run-"));
    let words = "hi --agent got --thread t --working-folder sub --adaptive --detach --id mine --verbose";
    let words: Vec<&str> = words.split(' ').collect();
    let full = request(&parsed(&words).unwrap(), Path::new("/here")).map_err(|_| ()).unwrap();
    assert_eq!((full.agent.as_str(), full.thread_id.as_deref(), full.id.as_str()), ("got", Some("t"), "mine"));
    assert_eq!(full.working_folder.as_deref(), Some("/here/sub"));
    assert!(full.detach && full.got_adaptive && full.verbose);
    let absolute = request(&parsed(&["hi", "-w", "/there"]).unwrap(), Path::new("/here")).map_err(|_| ()).unwrap();
    assert_eq!((absolute.working_folder.as_deref(), absolute.grant_folder), (Some("/there"), true));
    let by_address = request(&parsed(&["hi", "--url", "ws://h"]).unwrap(), Path::new("/here")).map_err(|_| ()).unwrap();
    assert_eq!((by_address.working_folder, by_address.grant_folder), (None, false));
}

#[test]
fn a_run_is_joined_from_a_number() {
    let attach = |words: &[&str]| {
        let cli = Cli::try_parse_from(["patchboard", "attach"].iter().chain(words)).unwrap();
        let CliCommand::Attach(AttachArgs { id, after, .. }) = cli.command else { panic!("{:?}", cli.command) };
        (id, after)
    };
    assert_eq!(attach(&["r"]), ("r".to_owned(), 0));
    assert_eq!(attach(&["r", "--after", "7"]), ("r".to_owned(), 7));
}
