use anyhow::Context;

use super::{CommandFailure, ExitKind, ownership_hint, strip_os_error_codes};
use crate::client::error::ConnectError;

#[test]
fn numbers_of_the_system_are_left_out() {
    assert_eq!(strip_os_error_codes("cannot: No such file (os error 2)"), "cannot: No such file");
    assert_eq!(strip_os_error_codes("one (os error 2), two (os error 13): three"), "one, two: three");
    assert_eq!(strip_os_error_codes("as it is (so)"), "as it is (so)");
}

#[test]
fn troubles_with_a_server_have_their_kind_and_say_what_to_do() {
    let place = || "127.0.0.1:7200".to_owned();
    for (error, kind) in [
        (ConnectError::BadAddress(place()), ExitKind::Unusable),
        (ConnectError::TokenRejected { authority: place() }, ExitKind::Failed),
        (
            ConnectError::Unreachable { authority: place(), why: "nobody listens there".to_owned() },
            ExitKind::Unreachable,
        ),
    ] {
        let failure = CommandFailure::from(anyhow::Error::from(error.clone()));
        assert_eq!(failure.kind, kind);
        assert_eq!(failure.texts(), (error.to_string().as_str(), Some(error.hint())));
    }
    let other: anyhow::Result<()> = Err(anyhow::anyhow!("below")).context("above");
    assert_eq!(CommandFailure::from(other.unwrap_err()).texts(), ("above: below", None));
}

#[test]
fn a_name_that_nothing_has_is_answered_with_the_nearest() {
    let unknown = |name: &str| CommandFailure::unknown_name("no tool", name, ["read", "ls"], "see the list");
    assert_eq!(unknown("reed").texts().1, Some("did you mean `read`?"));
    assert_eq!(unknown("frobnicate").texts().1, Some("see the list"));
}

#[test]
fn a_file_that_may_not_be_read_is_somebody_s() {
    assert_eq!(ownership_hint("a.toml", 7, 0o100_200, 7), "`chmod u+r a.toml` lets you read it; its mode is 200");
    assert!(
        ownership_hint("a.toml", 0, 0o100_600, 7)
            .starts_with("it belongs to the user with id 0, has mode 600, and you are 7")
    );
}
