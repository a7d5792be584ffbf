use super::*;
use crate::workspaces::WorkspaceOptions;

#[test]
fn a_call_cannot_take_longer_than_the_server_allows() {
    let tasks = TaskTracker::new();
    let dir = tempfile::tempdir().unwrap();
    let working_folder = dir.path().to_owned();
    let options = WorkspaceOptions {
        working_folder,
        allowed_roots: vec![],
        protected: vec![],
        tasks: tasks.clone(),
        grants: crate::GrantRules::default(),
    };
    let options = BashOptions::new(Workspaces::new(options).unwrap(), tasks, Spawner::new("/bin/true").unwrap());
    let bash = BashTool { options, shell: "/bin/sh".into(), slots: Arc::new(Semaphore::new(1)) };
    for (asked, allowed) in [(0, 120_000), (1, 1), (5_000, 5_000), (u64::MAX, 120_000)] {
        assert_eq!(bash.time_limit(asked), Duration::from_millis(allowed), "{asked}");
    }
    assert_eq!(bash.spec().timeout, Some(Duration::from_secs(150)));
}
