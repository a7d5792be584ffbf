//! A process to signal. A pidfd, where the kernel has them, never refers to another process.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

#[derive(Debug)]
pub(super) struct ProcessHandle {
    pid: Pid,
    /// `None` if the kernel has no pidfds.
    handle: Option<OwnedFd>,
}

impl ProcessHandle {
    pub(super) fn open(pid: u32) -> io::Result<Self> {
        let raw = i32::try_from(pid).ok().filter(|raw| *raw > 1);
        let pid = raw.and_then(Pid::from_raw).ok_or_else(|| io::Error::other("that is no process number"))?;
        Ok(Self { pid, handle: handle(pid)? })
    }

    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        let sent = match &self.handle {
            Some(handle) => send(handle, signal),
            None => kill_process(self.pid, signal),
        };
        match sent {
            // It ended meanwhile, as intended.
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

#[cfg(target_os = "linux")]
fn handle(pid: Pid) -> io::Result<Option<OwnedFd>> {
    use rustix::process::{PidfdFlags, pidfd_open};
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => Ok(Some(handle)),
        Err(Errno::NOSYS | Errno::PERM) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(target_os = "linux")]
fn send(handle: &OwnedFd, signal: Signal) -> rustix::io::Result<()> {
    rustix::process::pidfd_send_signal(handle, signal)
}

#[cfg(not(target_os = "linux"))]
fn handle(_: Pid) -> io::Result<Option<OwnedFd>> {
    Ok(None)
}

#[cfg(not(target_os = "linux"))]
fn send(_: &OwnedFd, _: Signal) -> rustix::io::Result<()> {
    Err(Errno::NOSYS)
}
