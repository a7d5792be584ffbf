//! Reaches for what a program of an operating system finds around it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

pub(crate) fn flood(stream: Stream, lines: u64) -> Result<String, String> {
    let line = [b'x'; 1023].into_iter().chain([b'\n']).collect::<Vec<u8>>();
    for _ in 0..lines {
        match stream {
            Stream::Stdout => std::io::stdout().write_all(&line),
            Stream::Stderr => std::io::stderr().write_all(&line),
        }
        .map_err(in_words)?;
    }
    Ok(format!("wrote {lines} KiB"))
}

pub(crate) fn read_file(path: &str) -> Result<String, String> {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(in_words)
}

pub(crate) fn write_file(path: &str) -> Result<String, String> {
    std::fs::write(path, "was here").map(|()| format!("wrote {path}")).map_err(in_words)
}

pub(crate) fn list_folder(path: &str) -> Result<String, String> {
    let entries = std::fs::read_dir(path).map_err(in_words)?;
    let names: Vec<String> = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    Ok(names.join("\n"))
}

/// As JSON: what a program finds without asking anybody.
#[expect(clippy::disallowed_methods, reason = "that there is nothing in the environment is what is tested")]
pub(crate) fn list_env() -> String {
    let variables: Vec<String> =
        std::env::vars_os().map(|(name, value)| format!("{}={}", name.display(), value.display())).collect();
    let arguments: Vec<String> = std::env::args_os().map(|one| one.display().to_string()).collect();
    let folder = std::env::current_dir().map(|folder| folder.display().to_string()).map_err(in_words);
    let folder = folder.unwrap_or_else(|why| format!("none: {why}"));
    serde_json::json!({ "variables": variables, "arguments": arguments, "folder": folder }).to_string()
}

pub(crate) fn connect(address: &str) -> Result<String, String> {
    TcpStream::connect(address).map(|_| format!("connected to {address}")).map_err(in_words)
}

pub(crate) fn listen() -> Result<String, String> {
    TcpListener::bind("127.0.0.1:0").map(|_| "listening".to_owned()).map_err(in_words)
}

pub(crate) fn resolve(address: &str) -> Result<String, String> {
    let found: Vec<String> = address.to_socket_addrs().map_err(in_words)?.map(|one| one.to_string()).collect();
    Ok(found.join(", "))
}

pub(crate) fn spawn_thread() -> Result<String, String> {
    let thread = std::thread::Builder::new().spawn(|| 1).map_err(in_words)?;
    thread.join().map(|answer| format!("a thread answered {answer}")).map_err(|_| "the thread panicked".to_owned())
}

pub(crate) fn spawn_process() -> Result<String, String> {
    let output = std::process::Command::new("id").output().map_err(in_words)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub(crate) fn sleep(ms: u64) -> String {
    std::thread::sleep(Duration::from_millis(ms));
    format!("slept {ms} ms")
}

pub(crate) fn read_stdin() -> Result<String, String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(in_words)?;
    Ok(text)
}

fn in_words(error: std::io::Error) -> String {
    format!("refused: {error}")
}
