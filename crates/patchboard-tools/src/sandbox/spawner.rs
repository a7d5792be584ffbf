//! Starts supervisors.
//!
//! A supervisor asks to hear of its parent's death, and the kernel takes the thread that started it for the parent. So
//! all are started from one thread, which lasts as long as anything started from it.

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

use super::jail::{Input, Jail, Program, View};
use super::jailed::{Jailed, Reports};
use super::order::{MAX_DESCRIPTORS, MAX_ORDER_BYTES, Order, Report, header, send_header};
use super::supervisor::{NO_MOUNTS, TRY, WITHOUT};
use super::{Confinement, EXEC_VERB, Error, Landlock};
use crate::guard::{HeldFiles, Kept, ReadOnlyMounts, WriteGuard, WriteReach};

/// So many starts wait for the thread; more wait to wait.
const QUEUE: usize = 64;
/// Of a thread that waits for the end of a command and then compares some files.
const HOLD_STACK: usize = 256 * 1024;
/// From start to the word that the command runs. Long, for the machine may be busy; a jail takes milliseconds.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Starts commands in jails. Clones share the thread.
#[derive(Debug, Clone)]
pub struct Spawner {
    requests: mpsc::Sender<Request>,
    promised: Landlock,
    has_warned: Arc<AtomicBool>,
    guard: Option<Arc<dyn WriteGuard>>,
}

#[derive(Debug)]
struct Request {
    socket: OwnedFd,
    runtime: Handle,
    started: oneshot::Sender<io::Result<Started>>,
}

/// A supervisor that waits for its order.
#[derive(Debug)]
struct Started {
    process: Child,
    /// It can mount.
    has_mounts: bool,
}

/// What a process can have of namespaces on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NamespaceSupport {
    Nothing,
    /// Namespaces in which nothing can be mounted.
    WithoutMounts,
    All,
}

impl Spawner {
    /// `supervisor` is a program that calls `exec_main` when its first argument is `EXEC_VERB`; for this very program
    /// that is `/proc/self/exe`, which stays right when the file is replaced. Says in the log how commands are confined.
    pub fn new(supervisor: impl Into<PathBuf>) -> Result<Self, Error> {
        Self::with(supervisor.into(), None)
    }

    /// The same without namespaces, as on systems that give none.
    pub fn without_namespaces(supervisor: impl Into<PathBuf>) -> Result<Self, Error> {
        Self::with(supervisor.into(), Some(NamespaceSupport::Nothing))
    }

    /// `guard` is asked before every start.
    #[must_use]
    pub fn guarded_by(self, guard: Arc<dyn WriteGuard>) -> Self {
        Self { guard: Some(guard), ..self }
    }

    fn with(supervisor: PathBuf, namespaces: Option<NamespaceSupport>) -> Result<Self, Error> {
        let (requests, waiting) = mpsc::channel(QUEUE);
        let thread = std::thread::Builder::new().name("jail-spawner".to_owned());
        thread.spawn(move || start_supervisors(&supervisor, namespaces, waiting)).map_err(Error::Supervisor)?;
        let promised = Landlock::probe();
        match promised {
            Landlock::Available { .. } => tracing::info!("{promised}"),
            Landlock::NotEnabled | Landlock::NotImplemented => tracing::warn!("{promised}"),
        }
        Ok(Self { requests, promised, has_warned: Arc::default(), guard: None })
    }

    /// Starts a command. Dropping the future, or the handle it returns, ends the command and all it started.
    pub async fn spawn(&self, jail: Jail, program: Program) -> Result<Jailed, Error> {
        let (ours, theirs) = BlockingStream::pair().map_err(Error::Supervisor)?;
        ours.set_nonblocking(true).map_err(Error::Supervisor)?;
        let socket = UnixStream::from_std(ours).map_err(Error::Supervisor)?;
        let (started, is_started) = oneshot::channel();
        let request = Request { socket: theirs.into(), runtime: Handle::current(), started };
        self.requests.send(request).await.map_err(|_| Error::Supervisor(io::ErrorKind::BrokenPipe.into()))?;
        let started = is_started.await.map_err(|_| Error::Supervisor(io::ErrorKind::BrokenPipe.into()))?;
        let Started { process, has_mounts } = started.map_err(Error::Supervisor)?;
        let Kept { mounts, while_it_runs } = self.ask_guard(&jail, has_mounts).await?;
        if let Some(held) = while_it_runs {
            keep_until_end(&process, held).map_err(Error::Supervisor)?;
        }
        let opening = open(socket, process, jail, mounts, program, self.requests.clone());
        let (jailed, confinement) = tokio::time::timeout(START_TIMEOUT, opening).await.map_err(|_| Error::Silent)??;
        self.compare(confinement);
        Ok(jailed)
    }

    /// Records what the process could change, before it exists.
    async fn ask_guard(&self, jail: &Jail, has_mounts: bool) -> Result<Kept, Error> {
        let Some(guard) = self.guard.clone() else { return Ok(Kept::default()) };
        let reach = reach(jail, has_mounts).map_err(Error::Supervisor)?;
        let asked = tokio::task::spawn_blocking(move || guard.before_write(&reach));
        asked.await.unwrap_or_else(|error| Err(error.to_string())).map_err(Error::Refused)
    }

    /// How commands are confined on this machine, found out by confining one.
    pub async fn try_out(&self) -> Result<Confinement, Error> {
        let folder = std::fs::File::open("/").map_err(Error::Supervisor)?.into();
        let mut jail = Jail::around(folder).map_err(Error::Supervisor)?;
        (jail.writable, jail.view) = (Vec::new(), View::ReadEverything);
        let program = Program { program: "sh".into(), arguments: vec!["-c".into(), ":".into()], input: Input::Nothing };
        let mut tried = self.spawn(jail, program).await?;
        tried.wait().await?;
        Ok(tried.confinement())
    }

    /// Says once when a jail has fewer walls than the kernel promised.
    fn compare(&self, confinement: Confinement) {
        if confinement.landlock_abi < self.promised.abi() && !self.has_warned.swap(true, Ordering::Relaxed) {
            let (promised, enforced) = (self.promised.abi(), confinement.landlock_abi);
            tracing::warn!(promised, enforced, "commands are confined less than the kernel promised");
        }
    }
}

/// Drops `held` when the supervisor has ended: it outlives everything that was started. Also where nobody waits for the command,
/// and where it never came to run. If the system cannot tell its end, nothing was started yet.
///
/// A thread of its own, for a runtime that stops would take it for the end of the process.
fn keep_until_end(supervisor: &Child, held: Box<dyn Any + Send + Sync>) -> io::Result<()> {
    let pid = supervisor.id().and_then(|pid| pid.try_into().ok()).and_then(Pid::from_raw);
    let supervisor = pidfd_open(pid.ok_or(io::ErrorKind::NotFound)?, PidfdFlags::empty())?;
    let thread = std::thread::Builder::new().name("jail-end".to_owned()).stack_size(HOLD_STACK);
    let waiting = thread.spawn(move || {
        // Somebody else asks how it ended.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::PidFd(supervisor.as_fd()), options), Err(Errno::INTR)) {}
        drop(held);
    });
    waiting.map(drop)
}

/// Sends the order and waits for the word that the command runs.
async fn open(
    mut socket: UnixStream,
    mut process: Child,
    jail: Jail,
    mounts: ReadOnlyMounts,
    program: Program,
    thread: mpsc::Sender<Request>,
) -> Result<(Jailed, Confinement), Error> {
    let (stdin, their_stdin) = match program.input {
        Input::Nothing => (None, None),
        Input::Piped => {
            let (ours, theirs) = pipe::pipe().map_err(Error::Supervisor)?;
            (Some(ours), Some(theirs.into_blocking_fd().map_err(Error::Supervisor)?))
        }
    };
    let Jail { folder, view, writable, readable, protected, private, environment, scratch, network, limits } = jail;
    let order = Order {
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
        has_input: their_stdin.is_some(),
    };
    let descriptors: Vec<OwnedFd> = [folder].into_iter().chain(writable).chain(their_stdin).collect();
    send(&mut socket, &order, descriptors).await?;
    let stdout = process.stdout.take();
    let stderr = process.stderr.take();
    let (answers, leash) = socket.into_split();
    let mut reports = Reports::new(answers);
    match reports.next().await? {
        Report::Started { pid, confinement, scratch } => {
            let jailed = Jailed {
                pid_inside: pid,
                confinement,
                scratch: scratch.into(),
                stdin,
                stdout,
                stderr,
                leash: Some(leash),
                reports,
                process,
                _thread: Box::new(thread),
            };
            Ok((jailed, confinement))
        }
        Report::Refused { reason } => Err(Error::Refused(reason)),
        Report::Ended(_) => Err(Error::Lost),
    }
}

async fn send(socket: &mut UnixStream, order: &Order, descriptors: Vec<OwnedFd>) -> Result<(), Error> {
    let body = order.encoded().map_err(Error::Talk)?;
    if body.len() > MAX_ORDER_BYTES {
        return Err(Error::TooLarge { size: body.len(), limit: MAX_ORDER_BYTES });
    }
    if descriptors.len() > MAX_DESCRIPTORS {
        return Err(Error::Talk(io::ErrorKind::InvalidInput.into()));
    }
    let attached: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let header = header(&body);
    let sent = socket.async_io(Interest::WRITABLE, || send_header(&*socket, &header, &attached));
    let sent = sent.await.map_err(Error::Talk)?;
    let rest = header.get(sent..).unwrap_or_default();
    socket.write_all(rest).await.map_err(Error::Talk)?;
    socket.write_all(&body).await.map_err(Error::Talk)
}

/// `namespaces`: can they be had? Unless it is known, that is tried before the first start.
fn start_supervisors(
    supervisor: &Path,
    mut namespaces: Option<NamespaceSupport>,
    mut waiting: mpsc::Receiver<Request>,
) {
    while let Some(request) = waiting.blocking_recv() {
        // Whoever asked may have gone away while waiting.
        if request.started.is_closed() {
            continue;
        }
        let _runtime = request.runtime.enter();
        let mut command = Command::new(supervisor);
        // Nothing of the server's environment, not even in the supervisor's own.
        command.arg(EXEC_VERB);
        let support = *namespaces.get_or_insert_with(|| try_namespaces(supervisor));
        if support == NamespaceSupport::Nothing {
            command.arg(WITHOUT);
        }
        command.env_clear().stdin(request.socket).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Nobody there to take it: its socket closes, and it ends.
        let has_mounts = support == NamespaceSupport::All;
        drop(request.started.send(command.spawn().map(|process| Started { process, has_mounts })));
    }
}

/// Some systems let a process into a user namespace and then do nothing there, and it cannot go back.
fn try_namespaces(supervisor: &Path) -> NamespaceSupport {
    let mut trial = std::process::Command::new(supervisor);
    trial.args([EXEC_VERB, TRY]).env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match trial.status().ok().and_then(|status| status.code()) {
        Some(0) => NamespaceSupport::All,
        Some(code) if code == i32::from(NO_MOUNTS) => NamespaceSupport::WithoutMounts,
        Some(_) | None => NamespaceSupport::Nothing,
    }
}

/// Where a process of this jail may write.
fn reach(jail: &Jail, has_mounts: bool) -> io::Result<WriteReach> {
    let real = |opened: &OwnedFd| std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()));
    let roots = match jail.view {
        View::Everything => vec![PathBuf::from("/")],
        View::Named | View::ReadEverything => jail.writable.iter().map(real).collect::<Result<_, _>>()?,
    };
    Ok(WriteReach { roots, held: if has_mounts { HeldFiles::Existing } else { HeldFiles::Nothing } })
}
