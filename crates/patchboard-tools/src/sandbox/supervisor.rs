//! The process between the server and a command: the command's parent, and the end of everything it started.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitStatus, getpid, kill_process_group};
use tokio::signal::unix::{SignalKind, signal};

use super::confine::PathProtection;
use super::cover::Cover;
use super::ground::Closed;
use super::namespace::Namespaces;
use super::order::{ASK_TO_END, Confinement, Ending, Order, Report};
use super::read_only::mount_read_only;
use super::{EXEC_VERB, Error, confine, kin, links, namespace};

/// A server that started a supervisor has its order ready.
const ORDER_TIMEOUT: Duration = Duration::from_secs(30);
/// Names tried for the private folder before giving up.
const SCRATCH_NAMES: u32 = 1000;

/// The argument after `EXEC_VERB` that only tries to create the namespaces; the exit code is the result.
pub(super) const TRY: &str = "try-namespaces";
/// The exit code of that where namespaces can be had and nothing can be mounted in them.
pub(super) const NO_MOUNTS: u8 = 3;
/// The argument after `EXEC_VERB` of a supervisor that creates no namespaces, because that failed.
pub(super) const WITHOUT: &str = "without-namespaces";
/// The argument after `EXEC_VERB` of the supervisor that runs as pid 1 of a PID namespace. It is followed by the pid of the
/// process that created the namespace.
const FIRST: &str = "first";

/// What `patchboard __exec` does. Everything it has to say goes to the server over its standard input, which is a
/// socket; standard output and error belong to the command.
///
/// `unshare` puts only children into a new PID namespace, so this program starts itself once more: that process is pid 1 and
/// supervises, this one only waits for it.
pub fn exec_main() -> Result<ExitCode, Error> {
    let arguments: Vec<_> = std::env::args().skip(2).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if arguments == [TRY] {
        let tried = namespace::enter().is_ok_and(|made| !made.processes || namespace::keep_mount_capability().is_ok());
        return Ok(match tried {
            true if namespace::can_mount() => ExitCode::SUCCESS,
            true => ExitCode::from(NO_MOUNTS),
            false => ExitCode::FAILURE,
        });
    }
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map_err(Error::ByHand)?;
    // A person who runs this verb by hand has no socket there.
    rustix::net::sockopt::socket_type(&socket).map_err(|error| Error::ByHand(error.into()))?;
    let server = UnixStream::from(socket);
    let prepared = match arguments[..] {
        [FIRST, maker] if getpid().is_init() => {
            Ok(Some(SupervisorRole { is_first: true, ..SupervisorRole::new(maker) }))
        }
        [WITHOUT] => prepare(Namespaces::default()),
        _ => namespace::enter().and_then(prepare),
    };
    let reports = server.try_clone().map_err(Error::Talk)?;
    let done = prepared.and_then(|role| match role {
        Some(role) => supervise(server, role),
        // The process inside the namespace has talked to the server.
        None => Ok(()),
    });
    match done {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(reason) => {
            report(&reports, &Report::Refused { reason });
            Ok(ExitCode::FAILURE)
        }
    }
}

/// In which surroundings this supervisor runs.
struct SupervisorRole {
    /// Pid, outside the namespace, of this process or of the one that waits for it; names the private folder.
    outside_pid: String,
    namespaces: Namespaces,
    /// Runs as pid 1 of a PID namespace: every other process in there is its descendant.
    is_first: bool,
}

impl SupervisorRole {
    fn new(outside_pid: impl ToString) -> Self {
        Self { outside_pid: outside_pid.to_string(), namespaces: Namespaces::default(), is_first: false }
    }
}

/// Starts the supervisor inside the PID namespace and waits for it; `None` when it has ended. Without such a namespace this
/// process supervises itself.
fn prepare(namespaces: Namespaces) -> Result<Option<SupervisorRole>, String> {
    // Of a session of its own, the command has no terminal to write to and gets no signals meant for the server.
    // `EPERM` means that this process leads one already.
    rustix::process::setsid().map(drop).or_else(unless(Errno::PERM)).map_err(failed("begin a session"))?;
    let me = getpid().as_raw_pid();
    if !namespaces.processes {
        return Ok(Some(SupervisorRole { namespaces, ..SupervisorRole::new(me) }));
    }
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM)).map_err(failed("follow the server"))?;
    namespace::keep_mount_capability().map_err(failed("keep the right to mount"))?;
    let mut first = Command::new("/proc/self/exe");
    first.args([EXEC_VERB, FIRST, &me.to_string()]).env_clear();
    let mut first = first.spawn().map_err(failed("start in a PID namespace"))?;
    // The server waits for the end of the command's output, so no copy of the pipes may stay open here.
    release(|null| rustix::stdio::dup2_stdin(null));
    release_output();
    first.wait().map_err(failed("wait for the first process of a PID namespace"))?;
    Ok(None)
}

fn supervise(server: UnixStream, mut role: SupervisorRole) -> Result<(), String> {
    server.set_read_timeout(Some(ORDER_TIMEOUT)).map_err(failed("wait for its order"))?;
    let (order, descriptors) = Order::receive(&server).map_err(failed("receive its order"))?;
    if role.is_first {
        let own_proc = namespace::mount_own_proc();
        // Workers and MCP servers may share memory with other programs; commands have no reason to.
        let own_shared_memory = !order.view.is_wide() && namespace::mount_own_shared_memory();
        role.namespaces = Namespaces { mounts: true, processes: true, own_proc, own_shared_memory };
    }
    Supervisor::new(server, order, descriptors, role)?.run()
}

struct Supervisor {
    server: UnixStream,
    order: Order,
    writable: Vec<OwnedFd>,
    input: Option<OwnedFd>,
    scratch: Scratch,
    protection: PathProtection,
    role: SupervisorRole,
}

impl Supervisor {
    fn new(server: UnixStream, order: Order, descriptors: Vec<OwnedFd>, role: SupervisorRole) -> Result<Self, String> {
        let me = Some(getpid());
        rustix::process::set_child_subreaper(me).map_err(failed("adopt orphans"))?;
        // When memory runs out, what a model started goes before the server does. Not being allowed to say so is no
        // reason not to run it.
        drop(std::fs::write("/proc/self/oom_score_adj", "500"));
        // What the server itself was started with may have come along.
        close_fds::set_fds_cloexec(3, &[]);
        let mut descriptors = descriptors.into_iter();
        let folder = descriptors.next().ok_or("no folder to start in")?;
        rustix::process::fchdir(&folder).map_err(failed("enter the working folder"))?;
        if role.namespaces.mounts {
            enter_by_path(&folder).map_err(failed("enter the working folder by its path"))?;
        }
        let mut writable: Vec<OwnedFd> = descriptors.collect();
        let input = if order.has_input { writable.pop() } else { None };
        let scratch =
            Scratch::make(Path::new(&order.scratch), &role.outside_pid).map_err(failed("make a temporary folder"))?;
        writable.push(scratch.open().map_err(failed("open the temporary folder"))?);
        if !order.read_only.is_empty() {
            let (pinned, files) = (order.pinned.iter().map(Path::new), order.read_only.iter().map(Path::new));
            mount_read_only(pinned, files)?;
        }
        let protection = protect_paths(&order, role.namespaces, &writable)?;
        confine::limit(&order.limits).map_err(failed("set limits"))?;
        Ok(Self { server, order, writable, input, scratch, protection, role })
    }

    fn run(self) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(failed("start"))?.block_on(self.watch())
    }

    async fn watch(mut self) -> Result<(), String> {
        let mut ended = signal(SignalKind::child()).map_err(failed("watch for the end"))?;
        let mut told_to_end = Terminations::new().map_err(failed("watch for signals"))?;
        // Not before signals are watched for, or this one would end the supervisor alone.
        rustix::process::set_parent_process_death_signal(Some(Signal::TERM)).map_err(failed("follow the server"))?;
        let reports = self.server.try_clone().map_err(failed("talk to the server"))?;
        let leash = self.leash().map_err(failed("talk to the server"))?;
        let (command, confinement) = self.start()?;
        let scratch = self.scratch.0.clone().into();
        report(&reports, &Report::Started { pid: command.as_raw_pid(), confinement, scratch });

        let mut ending = None;
        let mut note = |pid: Pid, status: WaitStatus| {
            if pid == command {
                ending = ending_of(status);
            }
        };
        loop {
            let end = tokio::select! {
                _ = ended.recv() => {
                    let mut is_over = false;
                    kin::reap(|pid, status| {
                        is_over |= pid == command;
                        note(pid, status);
                    });
                    is_over
                }
                wish = wish(&leash) => match wish {
                    Wish::AskToEnd => {
                        // Gone already is fine: its end is about to be noticed.
                        kill_process_group(command, Signal::TERM).unwrap_or(());
                        false
                    }
                    Wish::Nothing => false,
                    Wish::End => true,
                },
                () = told_to_end.recv() => true,
            };
            if end {
                break;
            }
        }
        kin::end_all(self.role.is_first, &mut note);
        release_output();
        report(&reports, &Report::Ended(ending.unwrap_or(Ending::Signalled(Signal::KILL.as_raw()))));
        // The private folder goes with `self`; nobody waits for that.
        Ok(())
    }

    fn leash(&self) -> io::Result<tokio::net::UnixStream> {
        let leash = self.server.try_clone()?;
        leash.set_nonblocking(true)?;
        tokio::net::UnixStream::from_std(leash)
    }

    /// Starts the command from a thread that is confined first and gone afterwards: confinement is a thread's, and
    /// passes to what it starts.
    fn start(&mut self) -> Result<(Pid, Confinement), String> {
        let mut command = Command::new(&self.order.program);
        command.args(&self.order.arguments).env_clear().process_group(0);
        command.env("HOME", self.scratch.home()).env("TMPDIR", self.scratch.temporary()).envs(&self.order.environment);
        command.stdin(self.input.take().map_or_else(Stdio::null, Stdio::from));
        let writable = std::mem::take(&mut self.writable);
        let (order, protection, namespaces) = (&self.order, &self.protection, self.role.namespaces);
        std::thread::scope(|scope| {
            let confined = scope.spawn(move || {
                let confinement = confine::confine(order, protection, namespaces, writable)?;
                let started = command
                    .spawn()
                    .map_err(|error| format!("cannot start `{}`: {error}", Path::new(&order.program).display()))?;
                let pid = started.id().try_into().ok().and_then(Pid::from_raw).ok_or("the command has no id")?;
                Ok((pid, confinement))
            });
            confined.join().unwrap_or_else(|_| Err("the jail could not be made".to_owned()))
        })
    }
}

/// Covers protected paths with mounts for the wide views, and where Unix sockets are allowed: Landlock before ABI 9 does not
/// prevent connecting to a socket in a closed folder. Other names of protected files are covered for everybody, since
/// they lie where a command works. Call after the working folder was entered.
fn protect_paths(order: &Order, namespaces: Namespaces, writable: &[OwnedFd]) -> Result<PathProtection, String> {
    let protected = || order.protected.iter().map(Path::new);
    let links = links::find(protected(), granted_folders(order, writable))?;
    let links = || links.iter().map(PathBuf::as_path);
    let covers_protected = order.view.is_wide() || order.network.unix_sockets;
    let has_to_cover = covers_protected || links().next().is_some();
    // Before anything is covered, which hides what it was.
    let (closed, closed_with_links) = (confine::closed(order, [])?, confine::closed(order, links())?);
    let cover = match namespaces.mounts && has_to_cover {
        true if covers_protected => Cover::lay(protected().chain(links()))?,
        true => Cover::lay(links())?,
        false => Cover::None,
    };
    let closed = match cover {
        Cover::Laid if order.view.is_wide() => Closed::default(),
        Cover::Laid => closed,
        Cover::None => closed_with_links,
    };
    Ok(PathProtection { closed, cover })
}

/// Where other names of protected files are looked for.
fn granted_folders(order: &Order, writable: &[OwnedFd]) -> Vec<PathBuf> {
    let writable = writable.iter().map(|folder| format!("/proc/self/fd/{}", folder.as_raw_fd()));
    let opened = ["/proc/self/cwd".to_owned()].into_iter().chain(writable);
    let opened = opened.filter_map(|path| std::fs::read_link(path).ok());
    opened.chain(order.readable.iter().map(PathBuf::from)).collect()
}

/// `fchdir` to a descriptor that was opened outside the mount namespace leaves the process in the outer mount tree, where
/// `getcwd` fails and new mounts are not seen. Entering the same folder by its path moves it inside.
fn enter_by_path(folder: &OwnedFd) -> io::Result<()> {
    let path = std::fs::read_link("/proc/self/cwd")?;
    rustix::process::chdir(&path)?;
    let (here, wanted) = (rustix::fs::stat(".")?, rustix::fs::fstat(folder)?);
    if (here.st_dev, here.st_ino) == (wanted.st_dev, wanted.st_ino) {
        return Ok(());
    }
    Err(io::Error::other(format!("{} is another folder now", path.display())))
}

enum Wish {
    AskToEnd,
    Nothing,
    End,
}

/// What the server wants next. The end of the stream, however it came about, means the end of the command.
async fn wish(leash: &tokio::net::UnixStream) -> Wish {
    let mut byte = [0];
    if leash.readable().await.is_err() {
        return Wish::End;
    }
    match leash.try_read(&mut byte) {
        Ok(0) => Wish::End,
        Ok(_) if byte == [ASK_TO_END] => Wish::AskToEnd,
        Ok(_) => Wish::Nothing,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Wish::Nothing,
        Err(_) => Wish::End,
    }
}

/// The signals that end a process unless it does something about them.
struct Terminations([tokio::signal::unix::Signal; 4]);

impl Terminations {
    fn new() -> io::Result<Self> {
        Ok(Self([
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
            signal(SignalKind::hangup())?,
            signal(SignalKind::quit())?,
        ]))
    }

    async fn recv(&mut self) {
        let [terminate, interrupt, hangup, quit] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
            _ = quit.recv() => {}
        }
    }
}

/// The private folder of one command: its home and its temporary files.
struct Scratch(PathBuf);

impl Scratch {
    /// Two supervisors never have the same `owner` at the same time.
    fn make(within: &Path, owner: &str) -> io::Result<Self> {
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(0o700);
        for number in 0..SCRATCH_NAMES {
            let scratch = Self(within.join(format!("patchboard-{owner}-{number}")));
            match builder.create(&scratch.0) {
                Ok(()) => {
                    builder.create(scratch.home())?;
                    builder.create(scratch.temporary())?;
                    return Ok(scratch);
                }
                // Left over by a process of the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn home(&self) -> PathBuf {
        self.0.join("home")
    }

    fn temporary(&self) -> PathBuf {
        self.0.join("tmp")
    }

    fn open(&self) -> io::Result<OwnedFd> {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::open(&self.0, flags, Mode::empty())?)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is the system's to clean: it lies in the folder for temporary files.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Lets the server see the end of the output, although this process still has some cleaning to do.
fn release_output() {
    release(|null| rustix::stdio::dup2_stdout(null));
    release(|null| rustix::stdio::dup2_stderr(null));
}

fn release(put_in_place: impl FnOnce(&File) -> rustix::io::Result<()>) {
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        put_in_place(&null).unwrap_or(());
    }
}

/// A server that does not listen any more is no reason to stop.
fn report(mut server: &UnixStream, report: &Report) {
    if let Ok(mut line) = serde_json::to_vec(report) {
        line.push(b'\n');
        drop(server.write_all(&line));
    }
}

fn ending_of(status: WaitStatus) -> Option<Ending> {
    status.exit_status().map(Ending::Exited).or_else(|| status.terminating_signal().map(Ending::Signalled))
}

fn failed<E: std::fmt::Display>(attempt: &'static str) -> impl FnOnce(E) -> String {
    move |error| format!("the supervisor cannot {attempt}: {error}")
}

fn unless(expected: Errno) -> impl FnOnce(Errno) -> Result<(), Errno> {
    move |error| if error == expected { Ok(()) } else { Err(error) }
}
