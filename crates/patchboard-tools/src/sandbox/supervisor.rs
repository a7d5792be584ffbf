//! The process between the server and a command: the command's parent, and the end of everything it started.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitStatus, getpid, kill_process_group};
use tokio::signal::unix::{SignalKind, signal};

use super::cover::Cover;
use super::order::{ASK_TO_END, Confinement, Ending, Order, Report};
use super::{Error, confine, kin};

/// A server that started a supervisor has its order ready.
const ORDER_TIMEOUT: Duration = Duration::from_secs(30);
/// Names tried for the private folder before giving up.
const SCRATCH_NAMES: u32 = 1000;

/// What `patchboard __exec` does. Everything it has to say goes to the server over its standard input, which is a
/// socket; standard output and error belong to the command.
pub fn exec_main() -> Result<ExitCode, Error> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map_err(Error::ByHand)?;
    let server = UnixStream::from(socket);
    server.set_read_timeout(Some(ORDER_TIMEOUT)).map_err(Error::ByHand)?;
    let (order, descriptors) = Order::receive(&server).map_err(Error::ByHand)?;
    let reports = server.try_clone().map_err(Error::Talk)?;
    match Supervisor::new(server, order, descriptors).and_then(Supervisor::run) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(reason) => {
            report(&reports, &Report::Refused { reason });
            Ok(ExitCode::FAILURE)
        }
    }
}

struct Supervisor {
    server: UnixStream,
    order: Order,
    writable: Vec<OwnedFd>,
    input: Option<OwnedFd>,
    scratch: Scratch,
    cover: Cover,
}

impl Supervisor {
    fn new(server: UnixStream, order: Order, descriptors: Vec<OwnedFd>) -> Result<Self, String> {
        // Of a session of its own, the command has no terminal to write to and gets no signals meant for the server.
        // `EPERM` means that this process leads one already.
        rustix::process::setsid().map(drop).or_else(unless(Errno::PERM)).map_err(failed("begin a session"))?;
        let me = Some(getpid());
        rustix::process::set_child_subreaper(me).map_err(failed("adopt orphans"))?;
        // When memory runs out, what a model started goes before the server does. Not being allowed to say so is no
        // reason not to run it.
        drop(std::fs::write("/proc/self/oom_score_adj", "500"));
        // What the server itself was started with may have come along.
        close_fds::set_fds_cloexec(3, &[]);
        let mut descriptors = descriptors.into_iter();
        let folder = descriptors.next().ok_or("no folder to start in")?;
        rustix::process::fchdir(folder).map_err(failed("enter the working folder"))?;
        let mut writable: Vec<OwnedFd> = descriptors.collect();
        let input = if order.has_input { writable.pop() } else { None };
        let scratch = Scratch::make(Path::new(&order.scratch)).map_err(failed("make a temporary folder"))?;
        writable.push(scratch.open().map_err(failed("open the temporary folder"))?);
        // After the working folder was entered, and while there is only one thread: see there.
        let cover = match order.view.is_wide() {
            false => Cover::None,
            true => Cover::lay(order.protected.iter().map(Path::new))?,
        };
        confine::limit(&order.limits).map_err(failed("set limits"))?;
        Ok(Self { server, order, writable, input, scratch, cover })
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
        kin::end_all(&mut note);
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
        let (order, cover) = (&self.order, self.cover);
        std::thread::scope(|scope| {
            let confined = scope.spawn(move || {
                let confinement = confine::confine(order, cover, writable)?;
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
    fn make(within: &Path) -> io::Result<Self> {
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(0o700);
        for number in 0..SCRATCH_NAMES {
            let scratch = Self(within.join(format!("patchboard-{}-{number}", getpid().as_raw_pid())));
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
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        rustix::stdio::dup2_stdout(&null).unwrap_or(());
        rustix::stdio::dup2_stderr(&null).unwrap_or(());
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
