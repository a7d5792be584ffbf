use std::process::{Command, Stdio};

use super::*;

#[test]
fn both_ways_to_find_children_find_them() {
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let pid = Pid::from_child(&child);
    // Other tests have children too.
    assert!(children(getpid()).is_none_or(|found| found.contains(&pid)));
    assert!(children_by_scan().contains(&pid));
    assert!(descendants().contains(&pid));
    // Group and session are inherited, also where they began outside the namespace of this process and have no number.
    let stat = ProcessStat { parent: Some(getpid()), ..ProcessStat::read(getpid()).unwrap() };
    assert_eq!(ProcessStat::read(pid), Some(stat));
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(!children_by_scan().contains(&pid));
    assert_eq!(children(pid), None);
    assert_eq!(ProcessStat::read(pid), None);
}
