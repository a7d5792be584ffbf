//! Starts supervisors.
//!
//! A supervisor sets a parent-death signal, and the kernel takes the thread that spawned it for its parent. So all
//! supervisors are spawned by one thread, which lives as long as any of them.

use std::any::Any;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::jail::{CommandSpec, FilesystemView, Jail, StdinMode};
use super::jailed::{JailedCommand, ReportReader};
use super::protocol::{MAX_DESCRIPTORS, MAX_REQUEST_BYTES, SpawnRequest, SupervisorReport, frame_header, send_header};
use super::supervisor::{EXIT_NO_MOUNTS, TRY_NAMESPACES, WITHOUT_NAMESPACES};
use super::{Confinement, EXEC_VERB, LandlockSupport, SandboxError};
use crate::guard::{FileSealing, ReadOnlyMounts, WriteGuard, WriteProtection, WriteReach};

/// Queued start requests; further callers wait until the queue has room.
const START_QUEUE: usize = 64;
/// Stack of a thread that waits for the end of a command and then compares some files.
const HOLD_STACK: usize = 256 * 1024;
/// From the spawn to the report that the command runs. Long, because the machine may be busy; making a jail takes
/// milliseconds.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Starts commands in jails. Clones share the thread.
#[derive(Debug, Clone)]
pub struct Spawner {
    requests: mpsc::Sender<StartRequest>,
    landlock: LandlockSupport,
    has_warned: Arc<AtomicBool>,
    guard: Option<Arc<dyn WriteGuard>>,
}

#[derive(Debug)]
struct StartRequest {
    socket: OwnedFd,
    runtime: Handle,
    started: oneshot::Sender<io::Result<StartedSupervisor>>,
}

/// A supervisor that waits for its request.
#[derive(Debug)]
struct StartedSupervisor {
    process: Child,
    /// It can mount in its namespace.
    has_mounts: bool,
}

/// What a process gets of namespaces on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NamespaceSupport {
    Nothing,
    /// Namespaces in which nothing can be mounted.
    WithoutMounts,
    All,
}

impl Spawner {
    /// `supervisor` is a program that calls `exec_main` if its first argument is `EXEC_VERB`; for the running program
    /// that is `/proc/self/exe`, which stays valid if the file is replaced. Logs how commands are confined.
    pub fn new(supervisor: impl Into<PathBuf>) -> Result<Self, SandboxError> {
        Self::build(supervisor.into(), None)
    }

    /// The same without namespaces, as on systems that do not allow them.
    pub fn without_namespaces(supervisor: impl Into<PathBuf>) -> Result<Self, SandboxError> {
        Self::build(supervisor.into(), Some(NamespaceSupport::Nothing))
    }

    /// Sets the guard that is called before every start.
    #[must_use]
    pub fn with_guard(self, guard: Arc<dyn WriteGuard>) -> Self {
        Self { guard: Some(guard), ..self }
    }

    fn build(supervisor: PathBuf, namespaces: Option<NamespaceSupport>) -> Result<Self, SandboxError> {
        let (requests, start_requests) = mpsc::channel(START_QUEUE);
        let thread = std::thread::Builder::new().name("jail-spawner".to_owned());
        thread
            .spawn(move || start_supervisors(&supervisor, namespaces, start_requests))
            .map_err(SandboxError::SupervisorStart)?;
        let landlock = LandlockSupport::probe();
        match landlock {
            LandlockSupport::Available { .. } => tracing::info!("{landlock}"),
            LandlockSupport::NotEnabled | LandlockSupport::NotImplemented => tracing::warn!("{landlock}"),
        }
        Ok(Self { requests, landlock, has_warned: Arc::default(), guard: None })
    }

    /// Starts a command. Dropping the future, or the handle it returns, kills the command and its descendants.
    pub async fn spawn(&self, jail: Jail, program: CommandSpec) -> Result<JailedCommand, SandboxError> {
        let (ours, theirs) = BlockingStream::pair().map_err(SandboxError::SupervisorStart)?;
        ours.set_nonblocking(true).map_err(SandboxError::SupervisorStart)?;
        let socket = UnixStream::from_std(ours).map_err(SandboxError::SupervisorStart)?;
        let (started, started_receiver) = oneshot::channel();
        let request = StartRequest { socket: theirs.into(), runtime: Handle::current(), started };
        self.requests
            .send(request)
            .await
            .map_err(|_| SandboxError::SupervisorStart(io::ErrorKind::BrokenPipe.into()))?;
        let started =
            started_receiver.await.map_err(|_| SandboxError::SupervisorStart(io::ErrorKind::BrokenPipe.into()))?;
        let StartedSupervisor { process, has_mounts } = started.map_err(SandboxError::SupervisorStart)?;
        let WriteProtection { mounts, lease } = self.ask_guard(&jail, has_mounts).await?;
        if let Some(lease) = lease {
            hold_until_exit(&process, lease).map_err(SandboxError::SupervisorStart)?;
        }
        let start = start_command(socket, process, jail, mounts, program, self.requests.clone());
        let (jailed, confinement) =
            tokio::time::timeout(START_TIMEOUT, start).await.map_err(|_| SandboxError::NoReply)??;
        self.warn_if_weaker(confinement);
        Ok(jailed)
    }

    /// Lets the guard record what the process could change, before it exists.
    async fn ask_guard(&self, jail: &Jail, has_mounts: bool) -> Result<WriteProtection, SandboxError> {
        let Some(guard) = self.guard.clone() else { return Ok(WriteProtection::default()) };
        let reach = write_reach(jail, has_mounts).map_err(SandboxError::SupervisorStart)?;
        let result = tokio::task::spawn_blocking(move || guard.before_write(&reach));
        result.await.unwrap_or_else(|error| Err(error.to_string())).map_err(SandboxError::Refused)
    }

    /// Reports how commands are confined on this machine, by confining one.
    pub async fn probe_confinement(&self) -> Result<Confinement, SandboxError> {
        let folder = std::fs::File::open("/").map_err(SandboxError::SupervisorStart)?.into();
        let mut jail = Jail::for_folder(folder).map_err(SandboxError::SupervisorStart)?;
        (jail.writable, jail.view) = (Vec::new(), FilesystemView::ReadEverything);
        let program =
            CommandSpec { program: "sh".into(), arguments: vec!["-c".into(), ":".into()], stdin: StdinMode::Null };
        let mut probe = self.spawn(jail, program).await?;
        probe.wait().await?;
        Ok(probe.confinement())
    }

    /// Warns once if a jail enforces less than the kernel promised.
    fn warn_if_weaker(&self, confinement: Confinement) {
        if confinement.landlock_abi < self.landlock.abi() && !self.has_warned.swap(true, Ordering::Relaxed) {
            let (promised, enforced) = (self.landlock.abi(), confinement.landlock_abi);
            tracing::warn!(promised, enforced, "commands are confined less than the kernel promised");
        }
    }
}

/// Drops `lease` when the supervisor has exited, because it outlives everything it started. This also works if the
/// command is not waited for or never ran. On error nothing was started yet.
///
/// Uses a thread of its own: a runtime that shuts down would drop the task, and `lease`, before the process ends.
fn hold_until_exit(supervisor: &Child, lease: Box<dyn Any + Send + Sync>) -> io::Result<()> {
    let pid = supervisor.id().and_then(|pid| pid.try_into().ok()).and_then(Pid::from_raw);
    let supervisor = pidfd_open(pid.ok_or(io::ErrorKind::NotFound)?, PidfdFlags::empty())?;
    let thread = std::thread::Builder::new().name("jail-end".to_owned()).stack_size(HOLD_STACK);
    let handle = thread.spawn(move || {
        // `NOWAIT` leaves the exit status to the `Child`.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::PidFd(supervisor.as_fd()), options), Err(Errno::INTR)) {}
        drop(lease);
    });
    handle.map(drop)
}

/// Sends the request and waits for the report that the command runs.
async fn start_command(
    mut socket: UnixStream,
    mut process: Child,
    jail: Jail,
    mounts: ReadOnlyMounts,
    program: CommandSpec,
    thread: mpsc::Sender<StartRequest>,
) -> Result<(JailedCommand, Confinement), SandboxError> {
    let (stdin, child_stdin) = match program.stdin {
        StdinMode::Null => (None, None),
        StdinMode::Piped => {
            let (ours, theirs) = pipe::pipe().map_err(SandboxError::SupervisorStart)?;
            (Some(ours), Some(theirs.into_blocking_fd().map_err(SandboxError::SupervisorStart)?))
        }
    };
    let Jail { folder, view, writable, readable, protected, private, environment, scratch, network, limits } = jail;
    let request = SpawnRequest {
        program: program.program.into(),
        arguments: program.arguments,
        environment,
        view,
        readable: readable.into_iter().map(Into::into).collect(),
        protected: protected.into_iter().map(Into::into).collect(),
        private: private.into_iter().map(Into::into).collect(),
        read_only: mounts.files.into_iter().map(Into::into).collect(),
        pinned: mounts.pinned.into_iter().map(Into::into).collect(),
        scratch: scratch.into(),
        network,
        limits,
        has_input: child_stdin.is_some(),
    };
    let descriptors: Vec<OwnedFd> = [folder].into_iter().chain(writable).chain(child_stdin).collect();
    send_request(&mut socket, &request, descriptors).await?;
    let stdout = process.stdout.take();
    let stderr = process.stderr.take();
    let (read_half, control_socket) = socket.into_split();
    let mut reports = ReportReader::new(read_half);
    match reports.next().await? {
        SupervisorReport::Started { pid, confinement, scratch } => {
            let jailed = JailedCommand {
                pid_inside: pid,
                confinement,
                scratch: scratch.into(),
                stdin,
                stdout,
                stderr,
                control_socket: Some(control_socket),
                reports,
                process,
                _thread: Box::new(thread),
            };
            Ok((jailed, confinement))
        }
        SupervisorReport::Refused { reason } => Err(SandboxError::Refused(reason)),
        SupervisorReport::Ended(_) => Err(SandboxError::Lost),
    }
}

async fn send_request(
    socket: &mut UnixStream,
    request: &SpawnRequest,
    descriptors: Vec<OwnedFd>,
) -> Result<(), SandboxError> {
    let body = request.encode().map_err(SandboxError::Protocol)?;
    if body.len() > MAX_REQUEST_BYTES {
        return Err(SandboxError::TooLarge { size: body.len(), limit: MAX_REQUEST_BYTES });
    }
    if descriptors.len() > MAX_DESCRIPTORS {
        return Err(SandboxError::Protocol(io::ErrorKind::InvalidInput.into()));
    }
    let attached: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let header = frame_header(&body);
    let sent_bytes = socket.async_io(Interest::WRITABLE, || send_header(&*socket, &header, &attached));
    let sent_bytes = sent_bytes.await.map_err(SandboxError::Protocol)?;
    let rest = header.get(sent_bytes..).unwrap_or_default();
    socket.write_all(rest).await.map_err(SandboxError::Protocol)?;
    socket.write_all(&body).await.map_err(SandboxError::Protocol)
}

/// `namespaces` is the known support; if `None`, it is probed before the first start.
fn start_supervisors(
    supervisor: &Path,
    mut namespaces: Option<NamespaceSupport>,
    mut start_requests: mpsc::Receiver<StartRequest>,
) {
    while let Some(request) = start_requests.blocking_recv() {
        // The caller may have stopped waiting.
        if request.started.is_closed() {
            continue;
        }
        let _runtime = request.runtime.enter();
        let mut command = Command::new(supervisor);
        // The supervisor gets nothing of the server's environment either.
        command.arg(EXEC_VERB);
        let support = *namespaces.get_or_insert_with(|| try_namespaces(supervisor));
        if support == NamespaceSupport::Nothing {
            command.arg(WITHOUT_NAMESPACES);
        }
        command.env_clear().stdin(request.socket).stdout(Stdio::piped()).stderr(Stdio::piped());
        // If the receiver is gone, dropping the child closes its socket, and the supervisor exits.
        let has_mounts = support == NamespaceSupport::All;
        drop(request.started.send(command.spawn().map(|process| StartedSupervisor { process, has_mounts })));
    }
}

/// Probes in a child process: some systems allow a user namespace, then deny everything in it, and it cannot be left.
fn try_namespaces(supervisor: &Path) -> NamespaceSupport {
    let mut probe_command = std::process::Command::new(supervisor);
    probe_command
        .args([EXEC_VERB, TRY_NAMESPACES])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    match probe_command.status().ok().and_then(|status| status.code()) {
        Some(0) => NamespaceSupport::All,
        Some(code) if code == i32::from(EXIT_NO_MOUNTS) => NamespaceSupport::WithoutMounts,
        Some(_) | None => NamespaceSupport::Nothing,
    }
}

/// Where a process of this jail may write.
fn write_reach(jail: &Jail, has_mounts: bool) -> io::Result<WriteReach> {
    let resolve = |opened: &OwnedFd| std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()));
    let roots = match jail.view {
        FilesystemView::Everything => vec![PathBuf::from("/")],
        FilesystemView::Named | FilesystemView::ReadEverything => {
            jail.writable.iter().map(resolve).collect::<Result<_, _>>()?
        }
    };
    Ok(WriteReach { roots, sealed_by: if has_mounts { FileSealing::Existing } else { FileSealing::Nothing } })
}
