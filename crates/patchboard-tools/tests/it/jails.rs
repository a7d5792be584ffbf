//! Jails, with real processes in them.

use std::fs::File;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::process::Stdio;

use patchboard_tools::sandbox::{
    CommandExit, CommandSpec, FilesystemView, Jail, JailedCommand, NetworkAccess, ResourceLimits, SandboxError,
    Spawner, StdinMode, TcpAccess,
};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use crate::support::{Children, Marked, jailer, lacks_landlock, mark, until};

struct Fixture {
    dir: TempDir,
    spawner: Spawner,
}

impl Fixture {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), spawner: Spawner::new(jailer()).unwrap() }
    }

    fn jail(&self) -> Jail {
        Jail::for_folder(File::open(self.dir.path()).unwrap().into()).unwrap()
    }

    async fn start(&self, jail: Jail, script: &str, input: StdinMode) -> JailedCommand {
        let arguments = vec!["-c".to_owned(), script.to_owned()];
        self.spawner.spawn(jail, CommandSpec { program: "bash".into(), arguments, stdin: input }).await.unwrap()
    }

    /// What a command printed, and how it ended.
    async fn run(&self, jail: Jail, script: &str) -> (String, CommandExit) {
        let mut jailed = self.start(jail, script, StdinMode::Null).await;
        let mut text = String::new();
        jailed.take_stdout().unwrap().read_to_string(&mut text).await.unwrap();
        (text, jailed.wait().await.unwrap())
    }
}

#[tokio::test]
async fn a_command_talks_over_pipes_and_ends_with_its_input() {
    let fixture = Fixture::new();
    let mut jailed = fixture.start(fixture.jail(), "cat; echo done >&2; exit 7", StdinMode::Piped).await;
    let mut stdin = jailed.take_stdin().unwrap();
    let mut stdout = BufReader::new(jailed.take_stdout().unwrap());
    for word in ["hello\n", "again\n"] {
        stdin.write_all(word.as_bytes()).await.unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).await.unwrap();
        assert_eq!(line, word);
    }
    drop(stdin);
    let mut errors = String::new();
    jailed.take_stderr().unwrap().read_to_string(&mut errors).await.unwrap();
    assert_eq!((errors.as_str(), jailed.wait().await.unwrap()), ("done\n", CommandExit::Exited(7)));
}

#[tokio::test]
async fn a_command_can_be_asked_to_end() {
    let fixture = Fixture::new();
    let script = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 1000 & wait; done";
    let mut jailed = fixture.start(fixture.jail(), script, StdinMode::Null).await;
    let mut lines = BufReader::new(jailed.take_stdout().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "ready");
    jailed.request_stop().await;
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "bye");
    assert_eq!(jailed.wait().await.unwrap(), CommandExit::Exited(3));
}

#[tokio::test]
async fn endings_are_told_apart() {
    let fixture = Fixture::new();
    for (script, expected) in [
        ("true", CommandExit::Exited(0)),
        ("exit 42", CommandExit::Exited(42)),
        ("kill -TERM $$", CommandExit::Signalled(15)),
        ("kill -KILL $$", CommandExit::Signalled(9)),
    ] {
        assert_eq!(fixture.run(fixture.jail(), script).await.1, expected, "{script}");
    }
}

#[tokio::test]
async fn what_cannot_be_started_is_refused_in_words() {
    let fixture = Fixture::new();
    let program = CommandSpec { program: "/no/such/program".into(), arguments: vec![], stdin: StdinMode::Null };
    let error = fixture.spawner.spawn(fixture.jail(), program).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot start `/no/such/program`: No such file or directory (os error 2)");

    let arguments = vec!["x".repeat(2 * 1024 * 1024)];
    let program = CommandSpec { program: "/bin/true".into(), arguments, stdin: StdinMode::Null };
    let error = fixture.spawner.spawn(fixture.jail(), program).await.unwrap_err();
    assert!(matches!(error, SandboxError::TooLarge { .. }), "{error}");
}

#[tokio::test]
async fn what_a_command_leaves_running_ends_with_it() {
    let (fixture, mark) = (Fixture::new(), mark());
    let script = format!("setsid -f sleep {mark} >/dev/null 2>&1; sleep {mark} & exit 5");
    assert_eq!(fixture.run(fixture.jail(), &script).await.1, CommandExit::Exited(5));
    assert_eq!(Marked::find(&mark).count(), 0);
}

#[tokio::test]
async fn a_process_that_only_forks_and_exits_is_caught() {
    let fixture = Fixture::new();
    let jail = fixture.jail();
    // Each generation lives for a blink, in a session of its own, and writes down that it lived.
    let script = "echo 'echo . >> lives; setsid -f sh ./hop' > hop; echo ready; setsid -f sh ./hop; sleep 1000";
    let mut jailed = fixture.start(jail, script, StdinMode::Null).await;
    let mut lines = BufReader::new(jailed.take_stdout().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "ready");
    let lives = fixture.dir.path().join("lives");
    let generations = || std::fs::metadata(&lives).map_or(0, |file| file.len());
    until("it hopped about", || generations() >= 20).await;
    jailed.kill().await.unwrap();
    let until_then = generations();
    // The next command takes longer than many generations.
    fixture.run(fixture.jail(), "true").await;
    assert_eq!(generations(), until_then);
}

#[tokio::test]
async fn a_dropped_handle_ends_everything() {
    let (fixture, mark) = (Fixture::new(), mark());
    let script = format!("setsid sleep {mark} & sleep {mark} & echo ready; wait");
    let mut jailed = fixture.start(fixture.jail(), &script, StdinMode::Null).await;
    let mut lines = BufReader::new(jailed.take_stdout().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "ready");
    let marked = Marked::at_least(3, &mark).await;
    drop(jailed);
    marked.ended().await;
}

#[tokio::test]
async fn when_the_supervisor_is_killed_its_command_is_found_and_ended() {
    let (fixture, mark) = (Fixture::new(), mark());
    let script = format!("sleep {mark} & echo $TMPDIR; sleep {mark}; true");
    let mut jailed = fixture.start(fixture.jail(), &script, StdinMode::Null).await;
    let mut lines = BufReader::new(jailed.take_stdout().unwrap()).lines();
    let temporary = PathBuf::from(lines.next_line().await.unwrap().unwrap());
    assert!(temporary.exists());
    let marked = Marked::at_least(3, &mark).await;
    let supervisor = Pid::from_raw(jailed.supervisor_pid().unwrap().try_into().unwrap()).unwrap();
    kill_process(supervisor, Signal::KILL).unwrap();
    // Where another process supervises in a namespace, that one hears of it and ends in order.
    let ended = jailed.wait().await;
    assert!(matches!(ended, Err(SandboxError::Lost) | Ok(CommandExit::Signalled(9))), "{ended:?}");
    marked.ended().await;
    until("the private folder is gone", || !temporary.exists()).await;
}

#[tokio::test]
async fn when_the_first_process_of_its_namespace_is_killed_nothing_is_left() {
    let (fixture, mark) = (Fixture::new(), mark());
    let script = format!("setsid sleep {mark} & echo $TMPDIR; sleep {mark}; true");
    let mut jailed = fixture.start(fixture.jail(), &script, StdinMode::Null).await;
    if !jailed.confinement().namespaces.processes {
        println!("skipped: this system gives no PID namespace");
        return;
    }
    let mut lines = BufReader::new(jailed.take_stdout().unwrap()).lines();
    let temporary = PathBuf::from(lines.next_line().await.unwrap().unwrap());
    let marked = Marked::at_least(3, &mark).await;
    kill_process(Children::of(jailed.supervisor_pid().unwrap()).only(), Signal::KILL).unwrap();
    assert!(matches!(jailed.wait().await, Err(SandboxError::Lost)));
    marked.ended().await;
    assert!(!temporary.exists());
}

#[tokio::test]
async fn processes_outside_have_no_number() {
    let fixture = Fixture::new();
    let mut jailed =
        fixture.start(fixture.jail(), "echo $$; ls /proc | grep -c '^[0-9]'; sleep 1000; true", StdinMode::Null).await;
    if !jailed.confinement().namespaces.own_proc {
        println!("skipped: this system gives no /proc of one's own");
        return;
    }
    let mut lines = BufReader::new(jailed.take_stdout().unwrap()).lines();
    let inside: u32 = lines.next_line().await.unwrap().unwrap().parse().unwrap();
    let seen: u32 = lines.next_line().await.unwrap().unwrap().parse().unwrap();
    // The supervisor, the shell and what it counts with.
    assert!(inside < 10 && (2..10).contains(&seen), "{inside} {seen}");
    let outside = jailed.pid().unwrap();
    let command = std::fs::read_to_string(format!("/proc/{outside}/cmdline")).unwrap();
    assert!(outside != inside && command.contains("grep -c"), "{outside}: {command}");
    jailed.kill().await.unwrap();
    assert_eq!(jailed.pid(), None);
}

#[tokio::test]
async fn a_supervisor_that_is_asked_to_end_ends_its_command_first() {
    let (fixture, mark) = (Fixture::new(), mark());
    let script = format!("setsid sleep {mark} & echo ready; sleep {mark}; true");
    let mut jailed = fixture.start(fixture.jail(), &script, StdinMode::Null).await;
    let mut lines = BufReader::new(jailed.take_stdout().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "ready");
    let marked = Marked::at_least(3, &mark).await;
    let supervisor = Pid::from_raw(jailed.supervisor_pid().unwrap().try_into().unwrap()).unwrap();
    // As when somebody ends all processes of the program's name.
    kill_process(supervisor, Signal::TERM).unwrap();
    assert_eq!(jailed.wait().await.unwrap(), CommandExit::Signalled(9));
    marked.ended().await;
}

#[tokio::test]
async fn a_killed_server_leaves_nothing_behind() {
    let (fixture, mark) = (Fixture::new(), mark());
    let script = format!(
        "setsid sleep {mark} & (setsid nohup sh -c 'sleep {mark} & wait' >/dev/null 2>&1 &); sleep {mark} | cat & \
         echo $TMPDIR; wait"
    );
    let mut server = tokio::process::Command::new(jailer());
    server.arg("hold").arg(fixture.dir.path()).arg(&script).stdout(Stdio::piped()).kill_on_drop(true);
    let mut server = server.spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let temporary = PathBuf::from(lines.next_line().await.unwrap().unwrap());
    assert!(temporary.exists());
    // The server, its shell, the inner shell and three times `sleep`.
    let marked = Marked::at_least(6, &mark).await;
    server.kill().await.unwrap();
    marked.ended().await;
    until("those born meanwhile ended too", || Marked::find(&mark).count() == 0).await;
    until("the private folder is gone", || !temporary.exists()).await;
}

#[tokio::test]
async fn descriptors_of_the_server_do_not_come_along() {
    let fixture = Fixture::new();
    let secret = File::create(fixture.dir.path().join("secret")).unwrap();
    // As if the server had been started with it.
    let leaked = rustix::io::fcntl_dupfd_cloexec(&secret, 100).unwrap();
    fcntl_setfd(&leaked, FdFlags::empty()).unwrap();
    let (listed, _) = fixture.run(fixture.jail(), "cd /proc/self/fd; for fd in *; do readlink $fd; done").await;
    assert!(listed.contains("/dev/null"), "{listed}");
    assert!(!listed.contains("secret") && !listed.contains("socket"), "{listed}");
}

#[tokio::test]
async fn limits_hold() {
    let fixture = Fixture::new();
    let mut jail = fixture.jail();
    jail.limits = ResourceLimits {
        cpu_seconds: Some(100),
        file_bytes: Some(1024 * 1024),
        open_files: Some(64),
        memory_bytes: Some(1024 * 1024 * 1024),
        address_space_bytes: Some(8 * 1024 * 1024 * 1024),
    };
    let script = "ulimit -t; ulimit -f; ulimit -n; ulimit -d; ulimit -v; ulimit -c";
    let (limits, _) = fixture.run(jail, script).await;
    assert_eq!(limits, "100\n1024\n64\n1048576\n8388608\n0\n");
}

#[tokio::test]
async fn a_jail_has_no_privileges_and_no_terminal() {
    let fixture = Fixture::new();
    let script = "grep -E 'NoNewPrivs|CapEff|CapBnd' /proc/self/status; ps -o tty= -p $$ 2>/dev/null || echo '?'";
    let (status, _) = fixture.run(fixture.jail(), script).await;
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    assert!(status.trim_end().ends_with('?'), "{status}");
    // CAP_SYS_RAWIO, CAP_SYS_PTRACE and CAP_SYS_ADMIN are numbers 17, 19 and 21.
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap();
    let effective = u64::from_str_radix(effective, 16).unwrap();
    assert_eq!(effective & ((1 << 17) | (1 << 19) | (1 << 21)), 0, "{status}");
}

#[tokio::test]
async fn ports_signals_and_abstract_sockets_are_walled_off() {
    if lacks_landlock(6) {
        return;
    }
    let fixture = Fixture::new();
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let name = format!("patchboard-test-{}", mark());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _abstract_socket = UnixListener::bind_addr(&address).unwrap();
    let (jailer, server) = (jailer(), std::process::id());
    let jailer = jailer.display();
    let jail = |connect: TcpAccess, listen: TcpAccess| {
        let mut jail = fixture.jail();
        jail.readable = vec![env!("CARGO_BIN_EXE_patchboard-jailer").into()];
        jail.network = NetworkAccess { connect, listen, unix_sockets: true };
        jail
    };
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected");
    let cases = [
        (jail(TcpAccess::Open, TcpAccess::Closed), connect.clone(), "connected\n"),
        (jail(TcpAccess::Closed, TcpAccess::Closed), connect.clone(), ""),
        (jail(TcpAccess::Ports(vec![port]), TcpAccess::Closed), connect.clone(), "connected\n"),
        (jail(TcpAccess::AllBut(vec![port]), TcpAccess::Closed), connect.clone(), ""),
        (jail(TcpAccess::AllBut(vec![port ^ 1]), TcpAccess::Closed), connect.clone(), "connected\n"),
        (jail(TcpAccess::Ports(vec![1]), TcpAccess::Closed), connect, ""),
        (jail(TcpAccess::Open, TcpAccess::Closed), format!("{jailer} listen; echo $?"), "13\n"),
        (jail(TcpAccess::Open, TcpAccess::Open), format!("{jailer} listen; echo $?"), "0\n"),
        (jail(TcpAccess::Open, TcpAccess::Open), format!("kill -0 {server} && echo signalled"), ""),
        (jail(TcpAccess::Open, TcpAccess::Open), "kill -0 $PPID && echo signalled".to_owned(), ""),
        (jail(TcpAccess::Open, TcpAccess::Open), "sleep 9 & kill $! && echo signalled".to_owned(), "signalled\n"),
        (jail(TcpAccess::Open, TcpAccess::Open), format!("{jailer} abstract {name}; echo $?"), "1\n"),
    ];
    for (jail, script, expected) in cases {
        assert_eq!(fixture.run(jail, &script).await.0, expected, "{script}");
    }
}

/// Programs as people use them, on the process whose number they are given.
const CHANGES_OF_OTHERS: [&str; 6] = [
    "prlimit --pid PID --nofile=1024",
    "prlimit --pid PID --cpu=1000:1000",
    "renice -n 19 -p PID",
    "taskset -p 1 PID",
    "chrt -o -p 0 PID",
    "ionice -c 3 -p PID",
];

#[tokio::test]
async fn a_hard_link_opens_nothing_that_is_protected_with_and_without_namespaces() {
    if lacks_landlock(1) {
        return;
    }
    for spawner in [Spawner::new(jailer()).unwrap(), Spawner::without_namespaces(jailer()).unwrap()] {
        for view in [FilesystemView::Named, FilesystemView::ReadEverything, FilesystemView::Everything] {
            let secret = tempfile::tempdir().unwrap();
            let file = secret.path().join("key");
            std::fs::write(&file, "SECRET").unwrap();
            let fixture = Fixture { dir: tempfile::tempdir().unwrap(), spawner: spawner.clone() };
            std::fs::create_dir(fixture.dir.path().join("beside")).unwrap();
            std::fs::write(fixture.dir.path().join("beside/note"), "note\n").unwrap();
            std::fs::hard_link(&file, fixture.dir.path().join("link")).unwrap();
            let jail = || Jail { view, protected: vec![file.clone()], ..fixture.jail() };
            let (text, _) = fixture.run(jail(), "cat link; ln link beside/again; cat beside/*; exit 0").await;
            assert_eq!(text, "note\n", "{view:?}");
            // Another one, where nobody looks.
            std::fs::hard_link(&file, secret.path().join("backup")).unwrap();
            let program = CommandSpec { program: "true".into(), arguments: vec![], stdin: StdinMode::Null };
            let refused = spawner.spawn(jail(), program).await.unwrap_err().to_string();
            assert!(refused.contains("has 3 names (hard links) of which only 2 are known"), "{view:?}: {refused}");
        }
    }
}

#[tokio::test]
async fn others_cannot_be_changed_with_and_without_namespaces() {
    let fixture = Fixture::new();
    // Somebody outside, who is not the worse for it should this fail.
    let mut other = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    for spawner in [Spawner::new(jailer()).unwrap(), Spawner::without_namespaces(jailer()).unwrap()] {
        let fixture = Fixture { spawner, dir: tempfile::tempdir_in(fixture.dir.path()).unwrap() };
        for change in CHANGES_OF_OTHERS {
            let script = format!("{} >/dev/null 2>&1; echo $?", change.replace("PID", &other.id().to_string()));
            let (told, _) = fixture.run(fixture.jail(), &script).await;
            assert!(told != "0\n", "{change}: {told}");
        }
        // Of oneself it is as usual, whatever the number.
        let (told, _) =
            fixture.run(fixture.jail(), "ulimit -n 100 && ulimit -n; nice -n 1 echo nice; taskset 1 echo there").await;
        assert_eq!(told, "100\nnice\nthere\n");
    }
    other.kill().unwrap();
    other.wait().unwrap();
}

#[tokio::test]
async fn without_namespaces_a_command_works_the_same() {
    let spawner = Spawner::without_namespaces(jailer()).unwrap();
    let fixture = Fixture { dir: tempfile::tempdir().unwrap(), spawner };
    let script = "pwd; echo made > file && cat file; sleep 1000 & kill $!; wait $!; echo $?";
    let (told, ending) = fixture.run(fixture.jail(), script).await;
    let here = fixture.dir.path().canonicalize().unwrap();
    assert_eq!((told, ending), (format!("{}\nmade\n143\n", here.display()), CommandExit::Exited(0)));
}
