//! The process between the server and a command: it is the command's parent and kills all its descendants at the end.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitStatus, getpid, kill_process_group};
use tokio::signal::unix::{SignalKind, signal};

use super::namespace::{EnteredNamespaces, MountNamespace, Namespaces, PrivateMounts};
use super::protect::{PathProtection, protect_paths};
use super::protocol::{CommandExit, Confinement, STOP_REQUEST, SpawnRequest, SupervisorReport};
use super::read_only::mount_read_only;
use super::scratch::ScratchFolder;
use super::{EXEC_VERB, SandboxError, confine, namespace, process_tree};

/// The server sends its request right after it started the supervisor.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The argument after `EXEC_VERB` that only tries to create the namespaces; the exit code is the result.
pub(super) const TRY_NAMESPACES: &str = "try-namespaces";
/// Exit code of `TRY_NAMESPACES` if namespaces can be created but nothing can be mounted in them.
pub(super) const EXIT_NO_MOUNTS: u8 = 3;
/// The argument after `EXEC_VERB` of a supervisor that creates no namespaces, because that failed.
pub(super) const WITHOUT_NAMESPACES: &str = "without-namespaces";
/// The argument after `EXEC_VERB` of the supervisor that runs as pid 1 of a PID namespace. It is followed by the pid of the
/// process that created the namespaces and the name of the mount namespace which that process left.
const NAMESPACE_INIT: &str = "first";

/// Entry point of `patchboard __exec`. All reports go to the server over standard input, which is a socket; standard
/// output and error belong to the command.
///
/// `unshare` puts only children into a new PID namespace, so this program starts itself once more: that process is pid
/// 1 and supervises, this one only waits for it.
pub fn exec_main() -> Result<ExitCode, SandboxError> {
    let arguments: Vec<_> = std::env::args().skip(2).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if arguments == [TRY_NAMESPACES] {
        return Ok(try_namespaces());
    }
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map_err(SandboxError::StartedByHand)?;
    // Run by hand, the program has no socket as its standard input.
    rustix::net::sockopt::socket_type(&socket).map_err(|error| SandboxError::StartedByHand(error.into()))?;
    let server = UnixStream::from(socket);
    let prepared = match arguments[..] {
        [NAMESPACE_INIT, creator_pid, outer] if getpid().is_init() => {
            let own_mounts = PrivateMounts::other_than(&MountNamespace::named(outer));
            Ok(Some(SupervisorRole { is_init: true, own_mounts, ..SupervisorRole::new(creator_pid) }))
        }
        [WITHOUT_NAMESPACES] => prepare_role(EnteredNamespaces::default()),
        _ => namespace::enter().and_then(prepare_role),
    };
    let reports = server.try_clone().map_err(SandboxError::Protocol)?;
    let result = prepared.and_then(|role| match role {
        Some(role) => supervise(server, role),
        // The process inside the namespace has talked to the server.
        None => Ok(()),
    });
    match result {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(reason) => {
            send_report(&reports, &SupervisorReport::Refused { reason });
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Tests mounting only in a new namespace: as root, a mount would succeed without one and change the machine.
fn try_namespaces() -> ExitCode {
    match namespace::enter() {
        Ok(EnteredNamespaces { namespaces, own_mounts: Some(private_mounts), .. })
            if !namespaces.processes || namespace::keep_mount_capability().is_ok() =>
        {
            if namespace::can_mount(private_mounts) { ExitCode::SUCCESS } else { ExitCode::from(EXIT_NO_MOUNTS) }
        }
        Ok(_) | Err(_) => ExitCode::FAILURE,
    }
}

/// The environment that this supervisor runs in.
struct SupervisorRole {
    /// Pid, outside the namespace, of this process or of the one that waits for it; names the private folder.
    outside_pid: String,
    namespaces: Namespaces,
    /// Required for every mount; `None` disables them.
    own_mounts: Option<PrivateMounts>,
    /// Runs as pid 1 of a PID namespace: every other process in there is its descendant.
    is_init: bool,
}

impl SupervisorRole {
    fn new(outside_pid: impl ToString) -> Self {
        let outside_pid = outside_pid.to_string();
        Self { outside_pid, namespaces: Namespaces::default(), own_mounts: None, is_init: false }
    }
}

/// Starts the supervisor inside the PID namespace and waits for it; `None` when it has ended. Without such a namespace
/// this process supervises itself.
fn prepare_role(entered: EnteredNamespaces) -> Result<Option<SupervisorRole>, String> {
    // In a session of its own the command has no terminal to write to and gets no signals meant for the server. `EPERM`
    // means that this process already leads a session.
    rustix::process::setsid().map(drop).or_else(unless(Errno::PERM)).map_err(failed("begin a session"))?;
    let own_pid = getpid().as_raw_pid();
    let EnteredNamespaces { namespaces, own_mounts, outer } = entered;
    let Some(outer) = outer.filter(|_| namespaces.processes) else {
        return Ok(Some(SupervisorRole { namespaces, own_mounts, ..SupervisorRole::new(own_pid) }));
    };
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(failed("set its parent-death signal"))?;
    namespace::keep_mount_capability().map_err(failed("keep the right to mount"))?;
    let mut init = Command::new("/proc/self/exe");
    init.args([EXEC_VERB, NAMESPACE_INIT, &own_pid.to_string(), outer.name()]).env_clear();
    let mut init = init.spawn().map_err(failed("start in a PID namespace"))?;
    // The server waits for the end of the command's output, so no copy of the pipes may stay open here.
    redirect_to_null(|null| rustix::stdio::dup2_stdin(null));
    close_output();
    init.wait().map_err(failed("wait for the first process of a PID namespace"))?;
    Ok(None)
}

fn supervise(server: UnixStream, mut role: SupervisorRole) -> Result<(), String> {
    server.set_read_timeout(Some(REQUEST_TIMEOUT)).map_err(failed("wait for its order"))?;
    let (request, descriptors) = SpawnRequest::receive(&server).map_err(failed("receive its order"))?;
    if role.is_init {
        let own_proc = role.own_mounts.is_some_and(namespace::mount_own_proc);
        // Workers and MCP servers may share memory with other programs; commands have no reason to.
        let has_shared_memory = !request.view.is_wide();
        let own_shared_memory = has_shared_memory && role.own_mounts.is_some_and(namespace::mount_own_shared_memory);
        let mounts = role.own_mounts.is_some();
        role.namespaces = Namespaces { mounts, processes: true, own_proc, own_shared_memory };
    }
    Supervisor::new(server, request, descriptors, role)?.run()
}

struct Supervisor {
    server: UnixStream,
    request: SpawnRequest,
    writable: Vec<OwnedFd>,
    input: Option<OwnedFd>,
    scratch: ScratchFolder,
    protection: PathProtection,
    role: SupervisorRole,
}

impl Supervisor {
    fn new(
        server: UnixStream,
        request: SpawnRequest,
        descriptors: Vec<OwnedFd>,
        role: SupervisorRole,
    ) -> Result<Self, String> {
        let own_pid = Some(getpid());
        rustix::process::set_child_subreaper(own_pid).map_err(failed("become a subreaper"))?;
        // Under memory pressure the kernel should kill what a model started before the server. Failing to set the score
        // is no reason not to run the command.
        drop(std::fs::write("/proc/self/oom_score_adj", "500"));
        // The server itself may have been started with descriptors that were inherited.
        close_fds::set_fds_cloexec(3, &[]);
        let mut descriptors = descriptors.into_iter();
        let folder = descriptors.next().ok_or("no folder to start in")?;
        rustix::process::fchdir(&folder).map_err(failed("enter the working folder"))?;
        if role.own_mounts.is_some() {
            enter_by_path(&folder).map_err(failed("enter the working folder by its path"))?;
        }
        let mut writable: Vec<OwnedFd> = descriptors.collect();
        let input = if request.has_input { writable.pop() } else { None };
        let scratch = ScratchFolder::make(Path::new(&request.scratch), &role.outside_pid)
            .map_err(failed("make a temporary folder"))?;
        writable.push(scratch.open().map_err(failed("open the temporary folder"))?);
        if !request.read_only.is_empty() {
            // The server has recorded that these files are protected.
            let private_mounts =
                role.own_mounts.ok_or("no mount namespace could be made, in which files are kept read-only")?;
            let (pinned, files) = (request.pinned.iter().map(Path::new), request.read_only.iter().map(Path::new));
            mount_read_only(private_mounts, pinned, files)?;
        }
        let protection = protect_paths(&request, role.own_mounts, &writable)?;
        confine::set_limits(&request.limits).map_err(failed("set limits"))?;
        Ok(Self { server, request, writable, input, scratch, protection, role })
    }

    fn run(self) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(failed("start"))?.block_on(self.watch())
    }

    async fn watch(mut self) -> Result<(), String> {
        let mut ended = signal(SignalKind::child()).map_err(failed("watch for the end"))?;
        let mut termination = TerminationSignals::new().map_err(failed("watch for signals"))?;
        // Set after the signal handlers: earlier, the signal would kill the supervisor alone.
        rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
            .map_err(failed("set its parent-death signal"))?;
        let reports = self.server.try_clone().map_err(failed("talk to the server"))?;
        let control_socket = self.control_socket().map_err(failed("talk to the server"))?;
        let (command, confinement) = self.start()?;
        let scratch = self.scratch.path().into();
        send_report(&reports, &SupervisorReport::Started { pid: command.as_raw_pid(), confinement, scratch });

        let mut exit = None;
        let mut record_exit = |pid: Pid, status: WaitStatus| {
            if pid == command {
                exit = command_exit(status);
            }
        };
        loop {
            let is_finished = tokio::select! {
                _ = ended.recv() => {
                    let mut has_command_exited = false;
                    process_tree::reap(|pid, status| {
                        has_command_exited |= pid == command;
                        record_exit(pid, status);
                    });
                    has_command_exited
                }
                control_request = next_control_request(&control_socket) => match control_request {
                    ControlRequest::Stop => {
                        // An error means that the group has ended; its exit is about to be reported.
                        kill_process_group(command, Signal::TERM).unwrap_or(());
                        false
                    }
                    ControlRequest::Ignored => false,
                    ControlRequest::KillAll => true,
                },
                () = termination.recv() => true,
            };
            if is_finished {
                break;
            }
        }
        process_tree::kill_descendants(self.role.is_init, &mut record_exit);
        close_output();
        send_report(&reports, &SupervisorReport::Ended(exit.unwrap_or(CommandExit::Signalled(Signal::KILL.as_raw()))));
        // The private folder is removed when `self` drops; no caller waits for that.
        Ok(())
    }

    fn control_socket(&self) -> io::Result<tokio::net::UnixStream> {
        let control_socket = self.server.try_clone()?;
        control_socket.set_nonblocking(true)?;
        tokio::net::UnixStream::from_std(control_socket)
    }

    /// Starts the command from a thread that is confined first and then ends: confinement applies to one thread and is
    /// inherited by its children.
    fn start(&mut self) -> Result<(Pid, Confinement), String> {
        let mut command = Command::new(&self.request.program);
        command.args(&self.request.arguments).env_clear().process_group(0);
        command
            .env("HOME", self.scratch.home())
            .env("TMPDIR", self.scratch.temporary())
            .envs(&self.request.environment);
        command.stdin(self.input.take().map_or_else(Stdio::null, Stdio::from));
        let writable = std::mem::take(&mut self.writable);
        let (request, protection, namespaces) = (&self.request, &self.protection, self.role.namespaces);
        std::thread::scope(|scope| {
            let confined = scope.spawn(move || {
                let confinement = confine::confine(request, protection, namespaces, writable)?;
                let started = command
                    .spawn()
                    .map_err(|error| format!("cannot start `{}`: {error}", Path::new(&request.program).display()))?;
                let pid = started.id().try_into().ok().and_then(Pid::from_raw).ok_or("the command has no id")?;
                Ok((pid, confinement))
            });
            confined.join().unwrap_or_else(|_| Err("the jail could not be made".to_owned()))
        })
    }
}

/// `fchdir` to a descriptor that was opened outside the mount namespace leaves the process in the outer mount tree, where
/// `getcwd` fails and new mounts are not seen. Entering the same folder by its path moves it inside.
fn enter_by_path(folder: &OwnedFd) -> io::Result<()> {
    let path = std::fs::read_link("/proc/self/cwd")?;
    rustix::process::chdir(&path)?;
    let (current, expected) = (rustix::fs::stat(".")?, rustix::fs::fstat(folder)?);
    if (current.st_dev, current.st_ino) == (expected.st_dev, expected.st_ino) {
        return Ok(());
    }
    Err(io::Error::other(format!("{} is another folder now", path.display())))
}

enum ControlRequest {
    Stop,
    Ignored,
    KillAll,
}

/// Reads the server's next control request. The end of the stream, for whatever reason, means to kill the command.
async fn next_control_request(control_socket: &tokio::net::UnixStream) -> ControlRequest {
    let mut byte = [0];
    if control_socket.readable().await.is_err() {
        return ControlRequest::KillAll;
    }
    match control_socket.try_read(&mut byte) {
        Ok(0) => ControlRequest::KillAll,
        Ok(_) if byte == [STOP_REQUEST] => ControlRequest::Stop,
        Ok(_) => ControlRequest::Ignored,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => ControlRequest::Ignored,
        Err(_) => ControlRequest::KillAll,
    }
}

/// The signals that terminate a process by default.
struct TerminationSignals([tokio::signal::unix::Signal; 4]);

impl TerminationSignals {
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

/// Lets the server see the end of the output while this process still cleans up.
fn close_output() {
    redirect_to_null(|null| rustix::stdio::dup2_stdout(null));
    redirect_to_null(|null| rustix::stdio::dup2_stderr(null));
}

fn redirect_to_null(redirect: impl FnOnce(&File) -> rustix::io::Result<()>) {
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        redirect(&null).unwrap_or(());
    }
}

/// Ignores errors: a server that no longer reads must not stop the cleanup.
fn send_report(mut server: &UnixStream, report: &SupervisorReport) {
    if let Ok(mut line) = serde_json::to_vec(report) {
        line.push(b'\n');
        drop(server.write_all(&line));
    }
}

fn command_exit(status: WaitStatus) -> Option<CommandExit> {
    status.exit_status().map(CommandExit::Exited).or_else(|| status.terminating_signal().map(CommandExit::Signalled))
}

fn failed<E: std::fmt::Display>(attempt: &'static str) -> impl FnOnce(E) -> String {
    move |error| format!("the supervisor cannot {attempt}: {error}")
}

fn unless(expected: Errno) -> impl FnOnce(Errno) -> Result<(), Errno> {
    move |error| if error == expected { Ok(()) } else { Err(error) }
}
