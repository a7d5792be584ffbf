use clap::Parser;
use clap::error::ErrorKind;
use serde_json::json;

use super::ChatArgs;
use super::context::ChatContext;
use crate::cli::caller_folder::{CallerFolder, ServerLookup};
use crate::cli::{Cli, CliCommand};

fn parsed(words: &[&str]) -> Result<ChatArgs, ErrorKind> {
    let cli = Cli::try_parse_from(["patchboard", "chat"].iter().chain(words)).map_err(|error| error.kind())?;
    let CliCommand::Chat(args) = cli.command else { panic!("{:?}", cli.command) };
    Ok(args)
}

#[test]
fn a_message_is_one_argument_or_plain_words() {
    assert_eq!(parsed(&["-m", "two words"]).unwrap().message_text().unwrap(), "two words");
    assert_eq!(parsed(&["two", "words", "--agent", "coder"]).unwrap().message_text().unwrap(), "two words");
    assert_eq!(parsed(&[]).unwrap().message_text(), None);
    assert_eq!(parsed(&["-m", "a", "b"]).map(drop), Err(ErrorKind::ArgumentConflict));
}

#[test]
fn a_request_says_what_the_flags_say() {
    let sent = |words: &[&str]| ChatContext::new(&parsed(words).unwrap(), CallerFolder::default()).send_params("hi");
    assert_eq!(
        sent(&[]),
        json!({"channel": "cli", "account": "local", "peer": "main", "content": "hi", "approvals": true})
    );
    assert_eq!(
        sent(&["--agent", "coder", "--model", "m", "--peer", "p", "--account", "a", "--url", "localhost:1"]),
        json!({
            "channel": "terminal", "account": "a", "peer": "p", "content": "hi", "approvals": true,
            "agent": "coder", "model": "m"
        })
    );
}

#[test]
fn a_request_says_where_it_was_typed_and_gives_way_where_that_is_refused() {
    let folder = CallerFolder::new(None, std::path::Path::new("/here"), ServerLookup::DataDir).map_err(drop).unwrap();
    let mut context = ChatContext::new(&parsed(&[]).unwrap(), folder);
    let sent = context.send_params("hi");
    assert_eq!((&sent["working_folder"], &sent["grant_folder"]), (&json!("/here"), &json!(true)));
    assert!(
        context.folder.fall_back("invalid chat.send params: working folder is the whole home folder: /here").is_some()
    );
    assert_eq!(context.send_params("hi").get("working_folder"), None);
}
