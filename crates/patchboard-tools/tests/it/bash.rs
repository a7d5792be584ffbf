//! The tool `bash`, with real commands.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use patchboard_core::id::{CallId, MemoryOwner, SessionKey};
use patchboard_core::model::{ToolCall, ToolInput};
use patchboard_core::port::ToolHost;
use patchboard_core::port::{ProgressSink, ToolScope};
use patchboard_core::tool::ToolOutput;
use patchboard_tools::builtin::{BashOptions, bash};
use patchboard_tools::sandbox::Spawner;
use patchboard_tools::{BuiltinOptions, BuiltinTools, GrantRules, WorkspaceOptions, Workspaces};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::support::{Children, Marked, jailer, lacks_landlock, mark, until};

/// Time limits in milliseconds, tried one after the other: on a busy machine a shell has not even begun when a short
/// one is over.
const LIMITS: [u64; 4] = [300, 1200, 5000, 20_000];
const MAX_COMMAND_BYTES: usize = 120 * 1024;

struct Fixture {
    dir: TempDir,
    tools: BuiltinTools,
}

impl Fixture {
    fn new() -> Self {
        Self::with_protected(&[])
    }

    fn with_protected(protected: &[&str]) -> Self {
        Self::with(protected, |_, _| {})
    }

    /// `widen` is told where the working folder lies.
    fn with(protected: &[&str], widen: impl FnOnce(&mut BashOptions, &Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("work/sub")).unwrap();
        let work = dir.path().join("work");
        let tasks = TaskTracker::new();
        let workspaces = Workspaces::new(WorkspaceOptions {
            working_folder: work.clone(),
            allowed_roots: vec![work.clone()],
            protected: protected.iter().map(|path| work.join(path)).collect(),
            tasks: tasks.clone(),
            grants: GrantRules::default(),
        });
        let workspaces = workspaces.unwrap();
        let mut options = BashOptions::new(workspaces.clone(), tasks.clone(), Spawner::new(jailer()).unwrap());
        options.timeout = Duration::from_secs(60);
        widen(&mut options, dir.path());
        Self { dir, tools: BuiltinTools::new(BuiltinOptions { workspaces, tasks }).with(bash(options)) }
    }

    fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    async fn start(&self, scope: &ToolScope, arguments: &Value, stop: CancellationToken) -> ToolOutput {
        let input = ToolInput::Json(Arc::new(arguments.clone()));
        let call = ToolCall { id: CallId("call-1".into()), name: "bash".into(), input };
        self.tools.call(scope, &call, arguments, stop).await
    }

    async fn call(&self, arguments: Value) -> ToolOutput {
        self.start(&scope(ProgressSink::default()), &arguments, CancellationToken::new()).await
    }

    async fn run(&self, command: &str) -> ToolOutput {
        self.call(json!({"command": command})).await
    }

    /// The same, expected to succeed; without the last line.
    async fn prints(&self, command: &str) -> String {
        let output = self.run(command).await;
        assert!(!output.is_error, "{command}: {}", output.content);
        output.content.strip_suffix("exit code: 0").unwrap().to_owned()
    }

    /// Runs a command with a time limit, and with longer ones as long as its output `is_too_early`: a limit counts from
    /// the call, and not from the moment at which the shell runs. Also says the limit.
    async fn limited(
        &self,
        scope: &ToolScope,
        command: &str,
        is_too_early: impl Fn(&str) -> bool,
    ) -> (ToolOutput, u64) {
        let mut limits = LIMITS.into_iter();
        loop {
            let limit = limits.next().expect("the command got nowhere within the longest limit");
            let (arguments, started) = (json!({"command": command, "timeout": limit}), Instant::now());
            let output = self.start(scope, &arguments, CancellationToken::new()).await;
            assert!(started.elapsed() >= Duration::from_millis(limit), "{command}: {:?}", started.elapsed());
            if !is_too_early(&output.content) {
                return (output, limit);
            }
        }
    }

    async fn fails(&self, command: &str) -> String {
        let output = self.run(command).await;
        assert!(output.is_error, "{command}: {}", output.content);
        output.content.to_string()
    }
}

fn scope(sender: ProgressSink) -> ToolScope {
    let session = SessionKey::conversation("a", "b", "c", "d");
    ToolScope {
        session,
        owner: MemoryOwner::account("b", "c"),
        folder: None,
        folder_grant: None,
        progress: sender,
        call_metadata: None,
    }
}

/// Hears what a tool says until `word` was said.
async fn hear(receiver: &mut mpsc::Receiver<String>, word: &str) {
    let mut heard = String::new();
    while !heard.contains(word) {
        heard.push_str(&receiver.recv().await.expect("the command ended too soon"));
    }
}

#[tokio::test]
async fn output_and_exit_code_are_told() {
    let fixture = Fixture::new();
    for (command, expected) in [
        ("true", ToolOutput::ok("exit code: 0")),
        ("echo hello", ToolOutput::ok("hello\nexit code: 0")),
        ("printf hello", ToolOutput::ok("hello\nexit code: 0")),
        ("echo oops >&2", ToolOutput::ok("stderr:\noops\nexit code: 0")),
        ("echo a; echo b >&2", ToolOutput::ok("stdout:\na\nstderr:\nb\nexit code: 0")),
        ("echo a; exit 3", ToolOutput::error("a\nexit code: 3")),
        ("kill -SEGV $$", ToolOutput::error("killed by signal 11")),
        (r"printf 'a\xffb'", ToolOutput::ok("a\u{fffd}b\nexit code: 0")),
        ("cat", ToolOutput::ok("exit code: 0")),
        ("echo x > made; cat made; rm made", ToolOutput::ok("x\nexit code: 0")),
        ("diff <(echo a) <(echo a) && echo same", ToolOutput::ok("same\nexit code: 0")),
        ("exec >&- 2>&-; true", ToolOutput::ok("exit code: 0")),
    ] {
        assert_eq!(fixture.run(command).await, expected, "{command}");
    }
}

#[tokio::test]
async fn works_in_the_folder_it_is_told() {
    let fixture = Fixture::new();
    let work = fixture.work().canonicalize().unwrap();
    fs::write(work.join("file"), "").unwrap();
    std::os::unix::fs::symlink(fixture.dir.path(), work.join("out")).unwrap();
    let told = |path: &Path| format!("{}\nexit code: 0", path.display());
    for (workdir, expected) in [
        (json!("."), ToolOutput::ok(told(&work))),
        (json!("sub"), ToolOutput::ok(told(&work.join("sub")))),
        (json!("nope"), ToolOutput::error("`nope` does not exist")),
        (json!("file"), ToolOutput::error("`file` is a file: `workdir` must be a folder")),
    ] {
        assert_eq!(fixture.call(json!({"command": "pwd -P", "workdir": workdir})).await, expected);
    }
    for outside in ["..", "out", "/", "sub/../.."] {
        let output = fixture.call(json!({"command": "pwd", "workdir": outside})).await;
        assert!(output.content.contains("outside the working folder"), "{outside}: {}", output.content);
    }
}

#[tokio::test]
async fn a_command_nobody_can_run_is_refused() {
    let fixture = Fixture::new();
    let output = fixture.run(&"x".repeat(MAX_COMMAND_BYTES + 1)).await;
    assert_eq!(output, ToolOutput::error("`command` is longer than 122880 bytes: put it into a file"));
    let output = fixture.run("echo \0").await;
    assert_eq!(output, ToolOutput::error("`command` holds a NUL character, which no command can"));
    let longest = format!("echo {}", "x".repeat(MAX_COMMAND_BYTES - 5));
    assert!(!fixture.run(&longest).await.is_error);
}

#[tokio::test]
async fn long_output_keeps_both_ends_and_the_exit_code() {
    let fixture = Fixture::new();
    let output = fixture.run("echo start; yes 0123456789 | head -c 10000000; echo end; exit 4").await;
    assert!(output.is_error);
    assert!(output.content.len() <= 64 * 1024, "{}", output.content.len());
    assert!(output.content.starts_with("start\n0123456789\n"));
    assert!(output.content.contains("bytes left out"));
    assert!(output.content.ends_with("end\nexit code: 4"), "{}", &output.content[output.content.len() - 40..]);
}

#[tokio::test]
async fn output_is_heard_while_the_command_runs() {
    let fixture = Fixture::new();
    let (sender, mut receiver) = mpsc::channel(1);
    let scope = scope(ProgressSink::new(sender));
    // It cannot go on before somebody who heard the first word lets it.
    let arguments = json!({"command": "echo first; until test -e go; do sleep 0.01; done; echo second"});
    let call = fixture.start(&scope, &arguments, CancellationToken::new());
    let listen = async {
        hear(&mut receiver, "first").await;
        fs::write(fixture.work().join("go"), "").unwrap();
        hear(&mut receiver, "second").await;
    };
    let (output, ()) = tokio::join!(call, listen);
    assert_eq!(output, ToolOutput::ok("first\nsecond\nexit code: 0"));
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended_with_all_it_started() {
    let (fixture, mark) = (Fixture::new(), mark());
    let command = format!("echo before; setsid sleep {mark} & sleep {mark}");
    let is_too_early = |receiver: &str| !receiver.starts_with("before");
    let (output, limit) = fixture.limited(&scope(ProgressSink::default()), &command, is_too_early).await;
    assert_eq!(output, ToolOutput::error(format!("before\ntimed out after {limit} ms")));
    assert_eq!(Marked::find(&mark).count(), 0);
}

#[tokio::test]
async fn a_slow_listener_does_not_change_how_a_command_ended() {
    let fixture = Fixture::new();
    // Nobody takes the only place for what is said.
    let (sender, _receiver) = mpsc::channel(1);
    sender.send(String::new()).await.unwrap();
    let scope = scope(ProgressSink::new(sender));
    // Only the time limit ends the wait for the listener; by then the command has ended by itself.
    let (output, _) = fixture.limited(&scope, "echo done; exit 6", |receiver| receiver.contains("timed out")).await;
    assert_eq!(output, ToolOutput::error("done\nexit code: 6"));
}

/// Ways to hide from whoever ends a command.
fn hideouts(mark: &str) -> [String; 6] {
    [
        format!("echo ready; exec sleep {mark}"),
        format!("echo ready; sleep {mark} | cat"),
        format!("sleep {mark} & echo ready; wait"),
        format!("setsid sleep {mark} & echo ready; wait"),
        format!("(setsid nohup sh -c 'sleep {mark} & wait' >/dev/null 2>&1 &); echo ready; sleep {mark}"),
        format!("trap '' TERM INT HUP; (trap '' TERM; sleep {mark}) & echo ready; wait"),
    ]
}

#[tokio::test]
async fn a_cancelled_command_is_gone_with_all_it_started() {
    let fixture = Fixture::new();
    for number in 0..hideouts("").len() {
        let mark = mark();
        let command = hideouts(&mark)[number].clone();
        let (sender, mut receiver) = mpsc::channel(1);
        let (scope, stop) = (scope(ProgressSink::new(sender)), CancellationToken::new());
        let arguments = json!({"command": command});
        let call = fixture.start(&scope, &arguments, stop.clone());
        let cancel = async {
            hear(&mut receiver, "ready").await;
            let marked = Marked::at_least(1, &mark).await;
            stop.cancel();
            marked.ended().await
        };
        let (output, ended_after) = tokio::join!(call, cancel);
        assert_eq!(output, ToolOutput::error("ready\ncancelled"), "{command}");
        assert_eq!(Marked::find(&mark).count(), 0, "{command}");
        println!("gone after {ended_after:?}: {command}");
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_ends_its_command() {
    let fixture = Fixture::new();
    for number in 0..hideouts("").len() {
        let mark = mark();
        let command = hideouts(&mark)[number].clone();
        let (sender, mut receiver) = mpsc::channel(1);
        let scope = scope(ProgressSink::new(sender));
        let arguments = json!({"command": command});
        tokio::select! {
            output = fixture.start(&scope, &arguments, CancellationToken::new()) => panic!("{output:?}"),
            () = hear(&mut receiver, "ready") => {}
        }
        Marked::find(&mark).ended().await;
        until("those born meanwhile ended too", || Marked::find(&mark).count() == 0).await;
    }
}

#[tokio::test]
async fn a_call_cancelled_before_it_starts_does_not_start() {
    let fixture = Fixture::new();
    let stop = CancellationToken::new();
    stop.cancel();
    let arguments = json!({"command": "touch made"});
    let output = fixture.start(&scope(ProgressSink::default()), &arguments, stop).await;
    assert_eq!(output, ToolOutput::error("cancelled"));
    assert!(!fixture.work().join("made").exists());
}

#[tokio::test]
async fn the_environment_is_clean() {
    let fixture = Fixture::new();
    // Cargo put this one there; a server's keys would be found the same way.
    assert!(option_env!("CARGO_MANIFEST_DIR").is_some());
    let variables = fixture.prints("env -0 | tr '\\n\\0' ' \\n'").await;
    let names: BTreeSet<_> = variables.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    let expected = ["HOME", "LANG", "PATH", "PWD", "SHLVL", "TERM", "TMPDIR", "_"];
    assert_eq!(names, BTreeSet::from(expected), "{variables}");
    let home = fixture.prints("cd && pwd && test -w . && test -w $TMPDIR && mktemp").await;
    let home = Path::new(home.lines().next().unwrap());
    assert!(home.is_absolute() && !home.starts_with(fixture.work()));
    // Its supervisor cleans up when nobody waits any more.
    until("the private folder is gone", || !home.exists()).await;
}

#[tokio::test]
async fn the_server_cannot_be_looked_into() {
    if lacks_landlock(1) {
        return;
    }
    let (fixture, server) = (Fixture::new(), std::process::id());
    for file in ["environ", "mem", "maps", "fd/0", "root/etc/passwd", "cwd/Cargo.toml"] {
        fixture.fails(&format!("head -c 1 /proc/{server}/{file}")).await;
        fixture.fails(&format!("head -c 1 /proc/$PPID/{file}")).await;
    }
    fixture.prints("head -c 1 /proc/self/environ /proc/self/maps").await;
}

#[tokio::test]
async fn nothing_outside_the_folder_can_be_read_or_changed() {
    if lacks_landlock(3) {
        return;
    }
    let fixture = Fixture::new();
    let outside = fixture.dir.path().canonicalize().unwrap();
    fs::write(outside.join("secret"), "canary").unwrap();
    std::os::unix::fs::symlink(outside.join("secret"), fixture.work().join("link")).unwrap();
    let shown = outside.display();
    for command in [
        "cat ../secret".to_owned(),
        "cat link".to_owned(),
        format!("cat {shown}/secret"),
        format!("ls {shown}"),
        "ls /tmp /home /root".to_owned(),
        format!("echo x > {shown}/new"),
        format!("echo x >> {shown}/secret"),
        format!("truncate -s 0 {shown}/secret"),
        format!("rm {shown}/secret"),
        format!("mv {shown}/secret stolen"),
        format!("ln {shown}/secret stolen"),
        format!("chroot {shown} /bin/true"),
        "mkdir /tmp/patchboard-should-not-be".to_owned(),
        "echo x > /etc/patchboard-should-not-be".to_owned(),
        "cat /etc/shadow".to_owned(),
        "mknod null c 1 3".to_owned(),
        "cat /proc/kcore | head -c 1 | grep .".to_owned(),
    ] {
        let receiver = fixture.fails(&command).await;
        assert!(!receiver.contains("canary"), "{command}");
    }
    assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "canary");
    assert!(!Path::new("/tmp/patchboard-should-not-be").exists());
    let inside =
        "echo x > sub/a && mv sub/a b && cp b c && ln b d && ls && mkdir -p e/f && rm -r b c d e && cat /etc/passwd";
    fixture.prints(inside).await;
}

#[tokio::test]
async fn a_listed_folder_can_be_read_and_run_but_not_changed() {
    if lacks_landlock(3) {
        return;
    }
    let fixture = Fixture::with(&["../tools/key"], |options, place| {
        options.readable = vec![place.join("tools"), place.join("not-there")];
        let path = format!("{}:{}", place.join("tools/bin").display(), options.environment["PATH"]);
        options.environment.insert("PATH".to_owned(), path);
    });
    let tools = fixture.dir.path().join("tools");
    fs::create_dir_all(tools.join("bin")).unwrap();
    fs::write(tools.join("bin/greet"), "#!/bin/sh\necho greetings\n").unwrap();
    fs::set_permissions(tools.join("bin/greet"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(tools.join("bin/note"), "plain\n").unwrap();
    fs::write(tools.join("key"), "canary").unwrap();
    fs::write(fixture.dir.path().join("beside"), "canary").unwrap();
    assert_eq!(
        fixture.prints("greet && cat ../tools/bin/note && ls ../tools/bin").await,
        "greetings\nplain\ngreet\nnote\n"
    );
    for command in ["cat ../tools/key", "cat ../beside", "echo x > ../tools/bin/new", "rm ../tools/bin/note"] {
        let receiver = fixture.fails(command).await;
        assert!(!receiver.contains("canary"), "{command}: {receiver}");
    }
}

#[tokio::test]
async fn protected_files_beneath_the_folder_stay_closed() {
    if lacks_landlock(3) {
        return;
    }
    let fixture = Fixture::with_protected(&["state/data", "key.pem", "later/token"]);
    let work = fixture.work();
    fs::create_dir_all(work.join("state/data")).unwrap();
    fs::write(work.join("state/data/token"), "canary").unwrap();
    fs::write(work.join("key.pem"), "canary").unwrap();
    fs::write(work.join("state/plain"), "plain").unwrap();
    fs::write(work.join("sub/file"), "plain").unwrap();
    for command in [
        "cat state/data/token",
        "cat key.pem",
        "cat sub/../key.pem",
        "ls state/data",
        "grep -r canary .",
        "echo x > state/data/new",
        "echo x > key.pem",
        "rm key.pem",
        "mv key.pem sub/key",
        "mv state/data sub/data",
        "mv state sub/state",
        "ln key.pem sub/key",
        "cp -r state sub/copy && cat sub/copy/data/token",
        "mkdir later && echo mine > later/token",
    ] {
        let receiver = fixture.fails(command).await;
        assert!(!receiver.contains("canary"), "{command}: {receiver}");
        assert!(receiver.contains("files of the server lie beneath the working folder"), "{command}: {receiver}");
    }
    let allowed = "cat state/plain sub/file && mkdir sub/new && echo more > sub/new/file && ls sub/new";
    assert_eq!(fixture.prints(allowed).await, "plainplainfile\n");
    // A key that comes to be while a command runs is closed to it too.
    let (sender, mut receiver) = mpsc::channel(1);
    let scope = scope(ProgressSink::new(sender));
    let arguments = json!({"command": "echo ready; until test -e sub/go; do sleep 0.01; done; cat later/token"});
    let call = fixture.start(&scope, &arguments, CancellationToken::new());
    let make = async {
        hear(&mut receiver, "ready").await;
        fs::create_dir(work.join("later")).unwrap();
        fs::write(work.join("later/token"), "canary").unwrap();
        fs::write(work.join("sub/go"), "").unwrap();
        hear(&mut receiver, "Permission denied").await;
    };
    let (output, ()) = tokio::join!(call, make);
    assert!(output.is_error && !output.content.contains("canary"), "{}", output.content);
}

#[tokio::test]
async fn many_commands_run_side_by_side() {
    let fixture = Fixture::new();
    let started = Instant::now();
    let commands: Vec<_> = (0..50).map(|number| format!("echo {number}; echo e{number} >&2; exit {number}")).collect();
    let outputs = join_all(commands.iter().map(|command| fixture.run(command))).await;
    println!("50 commands side by side: {:?}", started.elapsed());
    for (number, output) in outputs.iter().enumerate() {
        let content = format!("stdout:\n{number}\nstderr:\ne{number}\nexit code: {number}");
        assert_eq!(*output, ToolOutput { content: content.into(), is_error: number != 0, data: None });
    }
}

#[tokio::test]
async fn no_process_is_left_behind_by_many_calls() {
    let fixture = Fixture::new();
    let started = Instant::now();
    for _ in 0..40 {
        assert_eq!(fixture.prints("echo there").await, "there\n");
    }
    println!("40 commands one after another: {:?}", started.elapsed());
    let supervisors = || Children::of(std::process::id()).count();
    until("no supervisor is left, not even as a zombie", || supervisors() == 0).await;
}
