//! Real processes stand in for Python and for the server: shell scripts that behave as each test needs.

mod activity;
mod front;
mod gguf;
mod launcher;
mod parts;
mod prepare;
mod server;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Ends a test that would otherwise hang; far more than any needs.
const GUARD: Duration = Duration::from_secs(60);

/// A directory of one test, removed afterwards.
struct TestDir(PathBuf);

impl TestDir {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("patchboard-managed-{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Self(path),
                // Left behind by a process of the same number that was killed.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn names(&self, name: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path(name))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// An executable script; `$dir` in it is this directory. Another process writes the file: were it open for
    /// writing here, a process that a parallel test is starting would inherit it and make it "busy".
    fn script(&self, name: &str, body: &str) -> PathBuf {
        let path = self.path(name);
        let mut writer = Command::new("sh")
            .args(["-c", "cat > \"$1\" && chmod +x \"$1\"", "sh"])
            .arg(&path)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let text = format!("#!/bin/sh\ndir='{}'\n{body}\n", self.0.display());
        writer.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(writer.wait().unwrap().success());
        path
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn is_alive(pid: &str) -> bool {
    Command::new("sh").args(["-c", "kill -0 \"$1\" 2>/dev/null", "sh", pid.trim()]).status().unwrap().success()
}

fn kill(pid: &str) {
    assert!(Command::new("sh").args(["-c", "kill -9 \"$1\"", "sh", pid.trim()]).status().unwrap().success());
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(GUARD, work).await.unwrap()
}
