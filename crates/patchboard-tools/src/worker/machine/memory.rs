//! Memory use of a process tree.

/// Shared pages are divided among the processes that share them if the kernel reports `Pss`, else counted in each.
/// Returns `None` if the process is gone or the system has no such files.
#[cfg(target_os = "linux")]
pub(super) fn process_tree_memory(pid: u32) -> Option<u64> {
    use rustix::process::Pid;
    let root = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    let root_memory = process_memory(pid)?;
    let descendants = crate::sandbox::descendants_of(root).into_iter();
    let descendants = descendants.filter_map(|pid| process_memory(pid.as_raw_pid().try_into().ok()?));
    Some(descendants.fold(root_memory, u64::saturating_add))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn process_tree_memory(_: u32) -> Option<u64> {
    None
}

#[cfg(target_os = "linux")]
fn process_memory(pid: u32) -> Option<u64> {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
    let proportional = read("smaps_rollup").and_then(|text| parse_kilobytes(&text, "Pss:"));
    proportional.or_else(|| read("status").and_then(|text| parse_kilobytes(&text, "VmRSS:")))
}

/// The kernel's kB are 1,024 bytes.
#[cfg(target_os = "linux")]
fn parse_kilobytes(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    let number: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    number.checked_mul(1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
