use std::path::Path;
use std::time::Instant;

use tokio::io::AsyncReadExt;

use super::*;

async fn start(script: &str, env: &[(&str, &str)]) -> (ServerProcess, pipe::Sender, ChildStdout) {
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), SecretString::from(*value))).collect();
    let arguments = ["-c".to_owned(), script.to_owned()];
    let command =
        ServerCommand { program: "/bin/sh", arguments: &arguments, env: &env, working_folder: None, private: None };
    spawn(&"srv".into(), command, &LaunchMode::Plain, &TaskTracker::new()).await.unwrap()
}

async fn all(mut output: ChildStdout) -> String {
    let mut text = String::new();
    output.read_to_string(&mut text).await.unwrap();
    text
}

/// Until it has ended by itself and everything it said was read: `end` gives it only so much time for that.
async fn over(process: &mut ServerProcess) {
    process.exited().await;
    while process.stderr_task.as_ref().is_some_and(|listening| !listening.is_finished()) {
        tokio::task::yield_now().await;
    }
}

fn is_alive(pid: &str) -> bool {
    // A zombie that has not been reaped yet is dead.
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test]
async fn it_sees_only_the_named_variables() {
    // Cargo sets this for every test.
    #[expect(clippy::disallowed_methods, reason = "that it is there is what makes its absence below worth anything")]
    let is_set = std::env::vars_os().any(|(name, _)| name == "CARGO_MANIFEST_DIR");
    assert!(is_set);
    let (process, input, output) = start("env", &[("API_TOKEN", "for the server")]).await;
    drop(input);
    let text = all(output).await;
    process.end().await;
    for line in text.lines() {
        let name = line.split('=').next().unwrap();
        // The shell sets the last three by itself.
        let expected = ["API_TOKEN", "PATH", "HOME", "LANG", "LANGUAGE", "PWD", "SHLVL", "_"];
        assert!(expected.contains(&name) || name.starts_with("LC_"), "{line}");
    }
    assert!(text.contains("API_TOKEN=for the server"), "{text}");
    assert!(text.contains("PATH="), "{text}");
}

#[tokio::test]
async fn one_that_ends_by_itself_tells_how() {
    let (mut process, input, _output) = start("read line; echo 'first' >&2; echo 'no\tway' >&2; exit 3", &[]).await;
    drop(input);
    over(&mut process).await;
    assert_eq!(process.end().await.message_suffix(), ": it ended with exit status: 3: first | no way");
}

#[tokio::test]
async fn one_that_stays_is_killed_with_its_children() {
    let script = "sleep 1000 & echo $!; trap '' TERM HUP; sleep 1000 & echo $!; echo $$; wait";
    let (process, input, mut output) = start(script, &[]).await;
    let mut pids = String::new();
    while pids.lines().count() < 3 {
        let mut piece = [0; 64];
        let read = output.read(&mut piece).await.unwrap();
        pids.push_str(std::str::from_utf8(&piece[..read]).unwrap());
    }
    assert!(pids.lines().all(is_alive), "{pids}");
    drop(input);
    let began = Instant::now();
    let last = process.end().await;
    assert!(began.elapsed() >= EXIT_GRACE, "it was given time to end by itself: {:?}", began.elapsed());
    assert_eq!(last.message_suffix(), "", "it did not end by itself and said nothing");
    gone(&pids).await;
}

#[tokio::test]
async fn one_that_is_dropped_is_killed_with_its_children() {
    let (process, _input, mut output) = start("sleep 1000 & echo $!; wait", &[]).await;
    let mut piece = [0; 64];
    let read = output.read(&mut piece).await.unwrap();
    let pid = std::str::from_utf8(&piece[..read]).unwrap().to_owned();
    assert!(is_alive(&pid));
    drop(process);
    gone(&pid).await;
}

/// Killing is not waiting: the kernel may take a moment.
async fn gone(pids: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while pids.lines().any(is_alive) {
        assert!(Instant::now() < deadline, "still there: {pids}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn endless_chatter_costs_bounded_memory() {
    let (mut process, input, _output) =
        start("head -c 3000000 /dev/zero | tr '\\0' x >&2; echo >&2; seq 1 1000 >&2", &[]).await;
    drop(input);
    over(&mut process).await;
    let last = process.end().await;
    assert_eq!(last.stderr, "998 | 999 | 1000");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_an_error() {
    let env = BTreeMap::new();
    let command = ServerCommand {
        program: "/nonexistent/program",
        arguments: &[],
        env: &env,
        working_folder: None,
        private: None,
    };
    let error = spawn(&"srv".into(), command, &LaunchMode::Plain, &TaskTracker::new()).await.unwrap_err();
    assert_eq!(error, "cannot start `/nonexistent/program`: No such file or directory (os error 2)");
}
