use std::ffi::OsString;

use super::{parse_failure, parse_words};

#[track_caller]
fn check(line: &str, message: &str, hint: &str) {
    let words: Vec<OsString> = ["patchboard"].into_iter().chain(line.split(' ')).map(Into::into).collect();
    let error = parse_words(&words).expect_err("it is wrong");
    assert_eq!(parse_failure(&error, &words).texts(), (message, Some(hint)), "{line}");
}

#[test]
fn commands_that_are_not_there() {
    check("srve", "there is no command `patchboard srve`", "did you mean `patchboard serve`?");
    check("hub sned hi", "there is no command `patchboard hub sned`", "did you mean `patchboard hub send`?");
    check("send hi", "there is no command `patchboard send`", "did you mean `patchboard hub send`?");
    check("start", "there is no command `patchboard start`", "did you mean `patchboard serve`?");
    let lists = "`patchboard runs --help` lists the commands";
    check("runs frobnicate", "there is no command `patchboard runs frobnicate`", lists);
    check("runs cancle x", "there is no command `patchboard runs cancle`", "did you mean `patchboard runs cancel`?");
    check("list", "there is no command `patchboard list`", "`patchboard --help` lists the commands");
    check(
        "tools frobnicate",
        "there is no command `patchboard tools frobnicate`",
        "`patchboard tools --help` lists the commands",
    );
}

#[test]
fn options_that_are_not_there() {
    let missing = "`patchboard usage` has no option --jsno";
    check("usage --jsno", missing, "did you mean `--json`?");
    let missing = "`patchboard usage` has no option --frobnicate";
    check("usage --frobnicate", missing, "`patchboard usage --help` tells what there is");
    check("--json doctor", "--json stands before its command", "write it behind: `patchboard doctor --json …`");
    let usage = "put a text of several words in quotes; usage: patchboard hub show [OPTIONS] <ID>";
    check("hub show a b", "`b` is one word too many for `patchboard hub show`", usage);
}

#[test]
fn values_that_do_not_fit() {
    check("usage --by dya", "`dya` is nothing that --by can be", "did you mean `day`?");
    let all = "it is one of day, model, provider, agent, session";
    check("usage --by weight", "`weight` is nothing that --by can be", all);
    check("usage --by", "--by needs a value", all);
    let message = "`2` is nothing that --confidence can be: it lies between 0 and 1";
    check("hub send x --voice --confidence 2", message, "`patchboard hub send --help` tells what there is");
}

#[test]
fn what_is_missing_or_too_much() {
    let usage = "usage: patchboard tools show [OPTIONS] <NAME>";
    check("tools show", "`patchboard tools show` needs <NAME>", usage);
    let usage = "usage: patchboard approvals answer [OPTIONS] <ANSWER> <ID>";
    check("approvals answer x --approve --refuse", "--approve and --refuse cannot be used together", usage);
}

#[test]
fn approvals_without_a_verb_take_the_options_of_their_list() {
    for line in ["approvals", "approvals --json --data-dir d", "approvals list --json", "approvals answer x --refuse"] {
        let words: Vec<OsString> = ["patchboard"].into_iter().chain(line.split(' ')).map(Into::into).collect();
        assert!(parse_words(&words).is_ok(), "{line}");
    }
    check(
        "approvals lsit",
        "there is no command `patchboard approvals lsit`",
        "did you mean `patchboard approvals list`?",
    );
}
