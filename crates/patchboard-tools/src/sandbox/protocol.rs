//! The messages between the server and a supervisor.
//!
//! The server sends one request: its length, with the open directories attached as descriptors, then JSON. After that
//! each byte is a control request, and the end of the stream means to kill everything. The supervisor replies with
//! lines of JSON.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use serde::{Deserialize, Serialize};

use super::jail::{FilesystemView, NetworkAccess, ResourceLimits};
use super::namespace::Namespaces;

/// Both sides refuse a longer request.
pub(super) const MAX_REQUEST_BYTES: usize = 1024 * 1024;
/// A longer line is a protocol error.
pub(super) const MAX_REPORT_BYTES: u64 = 64 * 1024;
/// One working folder, a few writable folders, one standard input.
pub(super) const MAX_DESCRIPTORS: usize = 16;
const HEADER_BYTES: usize = 4;

/// Control request to send SIGTERM to the command's process group.
pub(super) const STOP_REQUEST: u8 = b'T';

/// The descriptors follow in the order working folder, `writable`, standard input.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SpawnRequest {
    pub(super) program: OsString,
    pub(super) arguments: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) view: FilesystemView,
    pub(super) readable: Vec<OsString>,
    pub(super) protected: Vec<OsString>,
    /// Folders of this command that lie beneath protected ones and stay accessible.
    pub(super) private: Vec<OsString>,
    /// Files to mount read-only, and the directories on the way to them, outermost first.
    pub(super) read_only: Vec<OsString>,
    pub(super) pinned: Vec<OsString>,
    pub(super) scratch: OsString,
    pub(super) network: NetworkAccess,
    pub(super) limits: ResourceLimits,
    /// Whether the last descriptor is the command's standard input.
    pub(super) has_input: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum SupervisorReport {
    Started {
        pid: i32,
        confinement: Confinement,
        /// The command's private folder.
        scratch: OsString,
    },
    /// The command was not started.
    Refused { reason: String },
    /// The command and all its descendants have ended.
    Ended(CommandExit),
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommandExit {
    Exited(i32),
    Signalled(i32),
}

/// The restrictions that are in force for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// The Landlock ABI in force; 0 without Landlock.
    pub landlock_abi: u32,
    pub namespaces: Namespaces,
    /// Protected paths are masked by mounts, in views that show more than the jail names.
    pub covers: bool,
    /// System calls that would bypass the other layers are denied by seccomp.
    pub system_calls: bool,
    /// A protected path lies beneath a folder the command may change: the directories on the way to it can be neither
    /// listed nor added to.
    pub has_closed_parts: bool,
    /// Number of entries beside protected paths that stay closed because there are too many to grant one by one.
    pub left_out: usize,
}

impl SpawnRequest {
    pub(super) fn encode(&self) -> io::Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(io::Error::other)
    }

    /// Waits for the request. Fails with `ENOTSOCK` if the input is not a socket.
    pub(super) fn receive(socket: &UnixStream) -> io::Result<(Self, Vec<OwnedFd>)> {
        let mut descriptors = Vec::new();
        let mut header = [0; HEADER_BYTES];
        let mut filled = 0;
        while let Some(rest) = header.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            filled += match receive_some(socket, rest, &mut descriptors)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => count,
            };
        }
        let length = u32::from_be_bytes(header) as usize;
        if length > MAX_REQUEST_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut body = vec![0; length];
        let mut reader: &UnixStream = socket;
        reader.read_exact(&mut body)?;
        Ok((serde_json::from_slice(&body).map_err(io::Error::other)?, descriptors))
    }
}

pub(super) fn frame_header(body: &[u8]) -> [u8; HEADER_BYTES] {
    // Requests over the limit are refused earlier; a wrong length would be refused by the supervisor.
    u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes()
}

/// Sends the header with the descriptors; `WouldBlock` if the socket is full. The rest is plain bytes.
pub(super) fn send_header(socket: impl AsFd, header: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(descriptors.len()))];
    let mut attached = SendAncillaryBuffer::new(&mut space);
    if !attached.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(rustix::net::sendmsg(socket, &[IoSlice::new(header)], &mut attached, SendFlags::NOSIGNAL)?)
}

fn receive_some(socket: &UnixStream, into: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut attached = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(into)], &mut attached, flags)?;
    for message in attached.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    Ok(received.bytes)
}
