use clap::Parser;
use clap::error::ErrorKind;

use super::{HubErrorContext, HubTarget};
use crate::cli::{Cli, ConfigLocation};
use crate::client::hub::HubError;

#[track_caller]
fn check(line: &str, expected: Result<(), ErrorKind>) {
    let words = ["patchboard", "hub"].into_iter().chain(line.split(' '));
    assert_eq!(Cli::try_parse_from(words).map(drop).map_err(|error| error.kind()), expected, "{line}");
}

#[test]
fn what_can_be_said() {
    for line in [
        "send hello",
        "send -",
        "send hello --wait",
        "send hello --wait 5 --json",
        "send --wait hello",
        "send hello --voice --confidence 0.9 --data-dir x",
        "clients",
        "clients --all --json",
        "messages --state held --limit 3 --json --data-dir x",
        "show msg-1 --json",
        "resend msg-1 --url http://127.0.0.1:1",
        "route msg-1 notebook",
        "cancel msg-1",
        "why hello",
        "approve notebook",
        "pair notebook",
        "forget notebook --unpair",
        "check ws://127.0.0.1:9474 --once --json --timeout 5",
    ] {
        check(line, Ok(()));
    }
}

#[test]
fn what_cannot() {
    check("send hello --confidence 0.9", Err(ErrorKind::MissingRequiredArgument));
    check("send hello --voice --confidence 2", Err(ErrorKind::ValueValidation));
    check("messages --state lost", Err(ErrorKind::InvalidValue));
    check("route msg-1", Err(ErrorKind::MissingRequiredArgument));
    check("check", Err(ErrorKind::MissingRequiredArgument));
    check("check ws://127.0.0.1:1 --timeout 0", Err(ErrorKind::ValueValidation));
}

#[test]
fn refusals_say_where_to_look() {
    let shown = |context: HubErrorContext, status| {
        let error = HubError::Refused { status, message: "no such thing".to_owned() };
        format!("{:?}", context.to_failure(error))
    };
    assert!(shown(HubErrorContext::Message, 404).contains("hub messages"));
    assert!(shown(HubErrorContext::General, 401).contains("PATCHBOARD_TOKEN"));
    assert!(shown(HubErrorContext::General, 404).contains("not Patchboard's hub"));
    assert!(!shown(HubErrorContext::General, 409).contains("hint: Some"));
}

#[test]
fn no_server_is_told_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let target =
        HubTarget { place: ConfigLocation { config: None, data_dir: Some(folder.path().to_owned()) }, url: None };
    let failure = target.client().expect_err("nobody runs there");
    assert!(format!("{failure:?}").contains("no server runs on"), "{failure:?}");
    let foreign = HubTarget { url: Some("http://example.com:1".to_owned()), ..target };
    assert!(format!("{:?}", foreign.client()).contains("not on this machine"));
}
