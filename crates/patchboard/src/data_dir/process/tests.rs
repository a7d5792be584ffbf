use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};

use super::*;

fn record(pid: u32, started_tick: Option<u64>) -> ProcessRecord {
    ProcessRecord {
        pid,
        started_tick,
        started_at: "2026-11-19T07:00:00Z".to_owned(),
        version: "0.1.0".to_owned(),
        role: ProcessRole::Server,
        state: ProcessState::Ready,
        drain_ms: 10_000,
        runs_left: None,
    }
}

/// A process that does nothing until it is told.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Self(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn lock_file() -> (tempfile::TempDir, File) {
    let folder = tempfile::tempdir().unwrap();
    let file = File::create(folder.path().join("lock")).unwrap();
    (folder, file)
}

#[test]
fn a_tick_is_read_whatever_the_program_is_called() {
    let fields = "S 1 4 4 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 10 11";
    for name in ["cat", "a b", "x) R 1 (y", ""] {
        assert_eq!(parse_start_tick(&format!("17 ({name}) {fields}")), Some(987_654), "{name:?}");
    }
    for gone in [&fields.replace('S', "Z"), "", "S 1 2"] {
        assert_eq!(parse_start_tick(&format!("17 (cat) {gone}")), None, "{gone:?}");
    }
}

#[test]
fn holders_are_those_of_flock_on_that_file() {
    let locks = "1: FLOCK  ADVISORY  WRITE 4711 08:01:77 0 EOF\n\
                 1: -> FLOCK  ADVISORY  WRITE 4712 08:01:77 0 EOF\n\
                 2: POSIX  ADVISORY  WRITE 4713 08:01:77 0 EOF\n\
                 3: FLOCK  ADVISORY  READ  4714 08:01:77 0 EOF\n\
                 4: FLOCK  ADVISORY  WRITE 4715 08:01:78 0 EOF\n\
                 nonsense\n";
    assert_eq!(holders_in(locks, 77), [4711]);
    assert_eq!(holders_in(locks, 79), [0; 0]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_number_that_went_to_another_program_is_doubted() {
    let (_folder, lock) = lock_file();
    let sleeper = Sleeper::start();
    let pid = sleeper.0.id();
    let tick = started_tick(pid).unwrap();
    assert_eq!(record(pid, Some(tick)).signal_refusal(&lock), None, "alive, and nobody else has the lock");
    let doubt = record(pid, Some(tick.wrapping_sub(1))).signal_refusal(&lock).unwrap();
    assert!(doubt.contains("is another program now"), "{doubt}");
    drop(sleeper);
    assert!(!record(pid, Some(tick)).is_alive());
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_without_the_lock_is_doubted() {
    let (_folder, lock) = lock_file();
    let taken = lock.try_clone().unwrap();
    taken.try_lock().unwrap();
    let inode = lock.metadata().unwrap().ino();
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    if holders_in(&locks, inode).is_empty() {
        return assert!(
            !locks.contains(&inode.to_string()),
            "this kernel does not tell whose locks are whose: {locks}"
        );
    }
    let sleeper = Sleeper::start();
    let pid = sleeper.0.id();
    let doubt = record(pid, started_tick(pid)).signal_refusal(&lock).unwrap();
    assert!(doubt.contains("does not hold the lock"), "{doubt}");
    let own = std::process::id();
    assert_eq!(record(own, started_tick(own)).signal_refusal(&lock), None);
}

#[test]
fn a_record_is_read_back_and_nonsense_is_none() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(read_record(folder.path()), None);
    let written = record(4711, Some(5));
    std::fs::write(folder.path().join(PROCESS_RECORD), serde_json::to_string(&written).unwrap()).unwrap();
    assert_eq!(read_record(folder.path()), Some(written));
    std::fs::write(folder.path().join(PROCESS_RECORD), "{\"pid\":").unwrap();
    assert_eq!(read_record(folder.path()), None);
}
