//! Addresses of the session bus.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Further addresses are ignored.
const MAX_ADDRESSES: usize = 8;

/// The environment variables that locate the bus.
#[derive(Debug, Clone, Default)]
pub struct SessionBus {
    /// `DBUS_SESSION_BUS_ADDRESS`.
    pub address: Option<String>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<PathBuf>,
}

impl SessionBus {
    /// Sockets to try, in this order. A name that starts with a zero byte is an abstract socket.
    pub(super) fn sockets(&self) -> Vec<PathBuf> {
        match &self.address {
            Some(address) => {
                address.split(';').take(MAX_ADDRESSES).filter_map(|one| socket(one, &self.runtime_bus())).collect()
            }
            None => vec![self.runtime_bus()],
        }
    }

    /// A check without connecting.
    pub(super) fn seems_present(&self) -> bool {
        self.sockets().iter().any(|socket| is_abstract(socket) || socket.exists())
    }

    fn runtime_bus(&self) -> PathBuf {
        let user = || format!("/run/user/{}", rustix::process::getuid().as_raw()).into();
        self.runtime_dir.clone().unwrap_or_else(user).join("bus")
    }
}

fn is_abstract(socket: &Path) -> bool {
    socket.as_os_str().as_encoded_bytes().starts_with(b"\0")
}

/// Parses one address: `unix:path=/run/user/1000/bus,guid=…`. `None` for transports other than Unix sockets.
fn socket(address: &str, runtime_bus: &Path) -> Option<PathBuf> {
    let settings = address.trim().strip_prefix("unix:")?;
    settings.split(',').find_map(|setting| {
        let (key, value) = setting.split_once('=')?;
        match key {
            "path" => Some(path(unescaped(value)?)),
            "abstract" if cfg!(target_os = "linux") => {
                let mut name = vec![0];
                name.extend(unescaped(value)?);
                Some(path(name))
            }
            "runtime" if value == "yes" => Some(runtime_bus.to_owned()),
            _ => None,
        }
    })
}

fn path(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}

/// Decodes percent escapes such as `%2e`. `None` if an escape is not two hexadecimal digits.
fn unescaped(value: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                bytes.push(u8::try_from(high * 16 + low).ok()?);
            }
            byte => bytes.push(byte),
        }
    }
    (!bytes.is_empty()).then_some(bytes)
}

#[cfg(test)]
mod tests;
