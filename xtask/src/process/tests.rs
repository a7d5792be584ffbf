use super::*;

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[test]
fn both_streams_are_observed_and_success_is_success() {
    let mut lines = Vec::new();
    let ended = watch(&mut shell("echo out; echo err >&2; printf unfinished"), &mut |line| lines.push(line.to_owned()))
        .expect("sh runs");
    lines.sort();
    assert_eq!((ended, lines), (Ended::Success, vec!["err".to_owned(), "out".to_owned(), "unfinished".to_owned()]));
}

#[test]
fn a_failing_child_is_a_failure() {
    let ended = watch(&mut shell("exit 3"), &mut |_| {}).expect("sh runs");
    assert_eq!(ended, Ended::Failure("exit status: 3".to_owned()));
}

#[test]
fn a_missing_program_is_named() {
    let error = watch(&mut Command::new("no-such-program-anywhere"), &mut |_| {}).expect_err("it does not exist");
    assert!(error.to_string().contains("no-such-program-anywhere"), "{error}");
}

#[test]
fn a_child_beyond_its_limit_may_clean_up_and_is_reported() {
    let mut lines = Vec::new();
    let limit = Duration::from_secs(2);
    let ended =
        watch_until(&mut shell("trap 'echo cleaned; exit 0' TERM; while :; do sleep 0.05; done"), limit, &mut |line| {
            lines.push(line.to_owned());
        })
        .expect("sh runs");
    assert_eq!((ended, lines), (Ended::TimedOut(limit), vec!["cleaned".to_owned()]));
}

#[test]
fn a_grandchild_holding_the_pipe_does_not_hold_us() {
    // The grandchild outlives any patience of a test runner and is ended by what the shell prints.
    let mut grandchild = String::new();
    let ended =
        watch(&mut shell("sleep 3600 & echo $!"), &mut |line| line.clone_into(&mut grandchild)).expect("sh runs");
    assert_eq!(ended, Ended::Success);
    let killed = Command::new("kill").arg(&grandchild).status().expect("kill runs");
    assert!(killed.success(), "the grandchild had ended, so nothing was shown");
}

#[test]
fn both_streams_of_a_logged_child_are_in_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let ended = run_logged(&mut shell("echo out; echo err >&2; exit 3"), Duration::MAX, &log).expect("sh runs");
    let text = std::fs::read_to_string(&log).expect("the log is there");
    assert_eq!((ended, text.as_str()), (Ended::Failure("exit status: 3".to_owned()), "out\nerr\n"));
}

#[test]
fn a_logged_child_beyond_its_limit_may_clean_up_and_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let limit = Duration::from_secs(2);
    let script = "trap 'echo cleaned; exit 0' TERM; while :; do sleep 0.05; done";
    let ended = run_logged(&mut shell(script), limit, &log).expect("sh runs");
    let text = std::fs::read_to_string(&log).expect("the log is there");
    assert_eq!((ended, text.as_str()), (Ended::TimedOut(limit), "cleaned\n"));
}

#[test]
fn colour_codes_are_removed() {
    assert_eq!(without_colour("\u{1b}[32;1m     Summary\u{1b}[0m [ 1s]"), "     Summary [ 1s]");
    assert_eq!(without_colour("plain ✓"), "plain ✓");
    assert_eq!(without_colour("cut\u{1b}["), "cut");
}
