//! Processes as tests see them.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use patchboard_tools::sandbox::LandlockSupport;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Ends a test that would otherwise hang. Nothing takes that long: on a busy machine everything only takes longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at something that nobody announces: whoever is waited for needs the processor too.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The program that is a supervisor.
pub(crate) fn jailer() -> PathBuf {
    env!("CARGO_BIN_EXE_patchboard-jailer").into()
}

/// Says why a test about confinement cannot find anything out here.
pub(crate) fn lacks_landlock(abi: u32) -> bool {
    let found = LandlockSupport::probe();
    if found.abi() < abi {
        println!("skipped: it takes Landlock ABI {abi}; {found}");
    }
    found.abi() < abi
}

/// Processes whose command line holds a mark.
pub(crate) struct Marked(Vec<OwnedFd>);

impl Marked {
    pub(crate) fn find(mark: &str) -> Self {
        let found = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
            let command = std::fs::read(entry.path().join("cmdline")).ok()?;
            let is_marked = pid != rustix::process::getpid() && String::from_utf8_lossy(&command).contains(mark);
            if is_marked { pidfd_open(pid, PidfdFlags::empty()).ok() } else { None }
        });
        Self(found.collect())
    }

    /// Waits for at least so many. A process that is just becoming another program has no command line for a moment.
    pub(crate) async fn at_least(count: usize, mark: &str) -> Self {
        until("the marked processes run", || Self::find(mark).count() >= count).await;
        Self::find(mark)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Waits until all of them have ended, and says how long that took.
    pub(crate) async fn ended(self) -> Duration {
        let since = Instant::now();
        let waiting = tokio::task::spawn_blocking(move || {
            let patience = Timespec { tv_sec: 60, tv_nsec: 0 };
            for process in &self.0 {
                let ended = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&patience)).unwrap();
                assert_eq!(ended, 1, "a process outlives its jail");
            }
        });
        waiting.await.unwrap();
        since.elapsed()
    }
}

/// Waits for what nobody announces, such as another process cleaning up.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "waited in vain until {what}");
}

/// An argument of `sleep` that nothing else on this machine has.
pub(crate) fn mark() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("4{:07}.{:06}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The processes that another one has started and not yet heard of the end of.
pub(crate) struct Children(Vec<i32>);

impl Children {
    pub(crate) fn of(process: u32) -> Self {
        let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
        let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        Self(
            lists
                .flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>())
                .collect(),
        )
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn only(&self) -> Pid {
        assert_eq!(self.0.len(), 1);
        Pid::from_raw(self.0[0]).unwrap()
    }
}

/// What a process calls itself, in the innermost of its PID namespaces.
pub(crate) fn number_inside(process: i32) -> i32 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap();
    numbers.split_whitespace().last().unwrap().parse().unwrap()
}
